"""A client of several servers, with prefixed names."""
