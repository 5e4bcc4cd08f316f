"""Rules of the protocol: pure functions and tables over wire values, without I/O and event loop.

Time and randomness are arguments.
"""
