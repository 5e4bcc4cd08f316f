"""Changes of the database."""
