"""Makes requests from arguments."""
