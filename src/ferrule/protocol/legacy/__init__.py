"""The rules of the protocol for the handshake era only."""
