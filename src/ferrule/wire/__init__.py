"""The conversion of bytes to values and back: no I/O, no clock, no event loop, no logging. The lowest layer."""
