"""A page in the browser that shows and calls what a server offers, built on the client."""
