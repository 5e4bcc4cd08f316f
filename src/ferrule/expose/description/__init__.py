"""OpenAPI descriptions, read."""
