"""The client: one object for any server, and the modules that it uses."""
