"""Several servers as one client."""
