"""Authorization, both sides: flows as generators of HTTP requests, no I/O inside."""
