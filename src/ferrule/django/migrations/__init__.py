"""Migrations of the application ``ferrule``."""
