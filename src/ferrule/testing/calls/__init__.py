"""Calls made from schemas, and the calls that reached a server."""
