"""Streamable HTTP, the client side, over any HTTP library."""
