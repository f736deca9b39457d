"""The gateway between agents and MCP servers: what they list is pinned and screened, what they are asked is checked."""
