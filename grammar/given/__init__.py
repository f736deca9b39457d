"""What was given to an array of unique items or an object: growing lists of texts."""
