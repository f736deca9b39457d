"""MCP servers behind the gateway: connections to them, bounded in time, number and bytes."""
