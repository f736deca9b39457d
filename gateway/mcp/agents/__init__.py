"""Answer agents: read their requests, and serve the tools through the SDK."""
