"""Serves one message on one connection: its era, its context, the middleware, and the steps inside the middleware."""
