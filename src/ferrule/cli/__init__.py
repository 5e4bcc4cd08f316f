"""The `ferrule` command."""
