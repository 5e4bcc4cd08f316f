"""Records the messages between a host and a server."""
