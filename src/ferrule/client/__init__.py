"""The client: one object for any server, and what it stands on."""
