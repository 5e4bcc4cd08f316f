"""Bytes to values and back: no I/O, no clock, no event loop, no logging. Everything above stands on this."""
