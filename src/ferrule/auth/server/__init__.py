"""The server's side: who sent a request, whether its token is meant for this server, and what it allows."""
