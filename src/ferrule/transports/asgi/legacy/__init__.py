"""The handshake revisions over HTTP: sessions, their streams, questions to the client."""
