"""Rules: pure functions and tables over wire values. No I/O, no event loop; time and randomness are arguments."""
