"""From arguments to a request."""
