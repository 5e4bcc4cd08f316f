"""Snapshots of a server, and what changed between two of them."""
