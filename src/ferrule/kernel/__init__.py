"""Serves one connection and one request at a time. Transports call it; it imports no transport."""
