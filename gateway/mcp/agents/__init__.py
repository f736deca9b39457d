"""Answer agents: read what they send, and serve the tools through the SDK."""
