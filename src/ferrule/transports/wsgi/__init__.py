"""The HTTP endpoint inside a WSGI host."""
