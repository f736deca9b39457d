"""The gateway between agents and MCP servers: pin and screen the tools that servers list, and check every call."""
