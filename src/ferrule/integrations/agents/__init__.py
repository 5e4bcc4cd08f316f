"""Tools of MCP servers in the agent libraries of others: one module each, imported only by who uses it."""
