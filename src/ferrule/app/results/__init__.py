"""Returned values into results: structured content, content blocks, and their text."""
