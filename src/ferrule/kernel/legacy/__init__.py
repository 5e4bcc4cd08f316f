"""What only the handshake revisions need in this layer. `ferrule.kernel.runner` is the only module that imports it."""
