"""Functions become handlers: the decorators, what they read from a function, and what they make of its results.

Import from ``ferrule``; the modules here are its parts. No module of this package implements a transport.
"""
