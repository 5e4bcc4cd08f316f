"""One connection, one request: what every transport drives and no transport knows."""
