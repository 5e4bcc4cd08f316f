"""Recording what passes between a host and a server."""
