"""One request from its admission to its record: the pipeline, its steps and the state they share."""
