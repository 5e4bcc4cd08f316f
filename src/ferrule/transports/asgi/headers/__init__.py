"""Reads values of HTTP headers: media types, and what proxies forward. Pure functions."""
