"""A small authorization server for tests, demos and self-contained examples. NOT an identity product.

It has no users, no login page and no real consent unless its provider adds them; keys and tokens are in memory. It
follows the specifications (PKCE, exact redirect URIs, single-use codes, rotating refresh tokens with a grace period,
``iss`` in responses), so that a client that works with it works with others.
"""
