"""A small authorization server for tests, demos and self-contained examples. NOT an identity product.

It has no users, no log-in page and no consent worth the name unless its provider brings them; keys and tokens live in
memory. What it does it does by the rules (PKCE, exact redirect URIs, single-use codes, rotating refresh tokens with a
grace window, ``iss`` in responses), so that a client that works with it works with others.
"""
