"""Transports: stdio, HTTP, memory. Each gives the kernel a stream pair, or is an ASGI application."""
