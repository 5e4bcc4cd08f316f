"""The handshake revisions over HTTP: sessions, their streams, requests to the client.

Only `ferrule.transports.asgi.endpoint` and the transport of 2024-11-05 (`ferrule.transports.sse`) import it.
"""
