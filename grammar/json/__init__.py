"""Turn conjunctions of schema facts into readings of JSON values."""
