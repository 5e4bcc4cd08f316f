"""What only the handshake revisions need: a session, and the forwarding of changes to it."""
