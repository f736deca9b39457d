"""Rails at work on one request: which run, what input rails say, what waits for a person, what is put back."""
