"""What only the handshake era needs to connect; `ferrule.client.connection.connector` alone imports it."""
