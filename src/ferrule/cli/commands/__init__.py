"""One module per command; each has the attribute ``command``."""
