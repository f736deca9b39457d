"""Objects: their names, their values, and existential constraints on their members."""
