"""Who sends a request, what they may use, and state that belongs to them."""
