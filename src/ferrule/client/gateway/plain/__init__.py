"""Plain calls of tools through a gateway: from the bytes of the request to those of the answer without a request."""
