"""``ferrule audit``: checks the hash chains of audit files."""
