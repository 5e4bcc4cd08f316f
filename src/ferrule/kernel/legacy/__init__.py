"""The parts of the kernel for the handshake revisions only. `ferrule.kernel.serving.server_runner` alone imports it."""
