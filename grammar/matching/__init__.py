"""Parser states, masks, forced text, and the matcher of one sequence."""
