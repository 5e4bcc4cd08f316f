"""A proxy: a server that forwards requests to another server."""
