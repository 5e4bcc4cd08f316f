"""Serving an ASGI application as a process: the HTTP server, several workers, one call for all of it."""
