"""Reads OpenAPI descriptions."""
