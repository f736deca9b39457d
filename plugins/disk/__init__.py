"""Files that others may replace while they are open."""
