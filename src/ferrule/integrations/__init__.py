"""The modules for frameworks; each is imported only if its framework is used."""
