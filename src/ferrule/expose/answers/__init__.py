"""Converts the responses of an API to results of tools."""
