"""Programs for those who work on Sluicegate; nothing of it is installed."""
