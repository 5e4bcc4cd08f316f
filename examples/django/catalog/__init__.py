"""Products: what is sold."""
