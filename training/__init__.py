"""Development only: the data generator, the trainer and the evaluation of the bundled model (not shipped)."""
