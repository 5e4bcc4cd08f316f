"""The parts of calls for the handshake era only; `ferrule.client.calls.tasks` alone imports it."""
