"""Glue to frameworks: each module is imported only by those who use that framework."""
