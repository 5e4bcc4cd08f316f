"""The sender of a request, the components that it may use, and state that belongs to it."""
