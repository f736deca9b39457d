"""One wire format each: what a body may say and how its answer is written."""
