"""Makes handlers of functions: the decorators, the reading of signatures, and the conversion of results.

Import from ``ferrule``; the modules here are its parts. No module of this package implements a transport.
"""
