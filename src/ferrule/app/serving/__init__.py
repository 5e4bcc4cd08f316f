"""Serving an `MCPServer`: over HTTP, by several workers, and within the process."""
