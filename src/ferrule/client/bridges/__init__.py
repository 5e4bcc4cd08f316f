"""Tools of MCP servers for the APIs of models: definitions in their form, and the answers to the calls of a model."""
