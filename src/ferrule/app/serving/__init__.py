"""How an `MCPServer` is served: over HTTP, by several workers, within the process."""
