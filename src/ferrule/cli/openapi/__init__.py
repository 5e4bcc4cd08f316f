"""Commands on an OpenAPI description: list it, serve it, write a server file of it."""
