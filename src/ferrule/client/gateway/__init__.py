"""A server that passes everything on to a client behind it."""
