"""Functions become handlers: the decorators, what they read from a function, and what they make of its results.

Import from ``ferrule``; the modules here are its parts. Nothing in this package speaks a transport.
"""
