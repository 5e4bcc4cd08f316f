"""Keeping the connections to several servers: state, retries, circuit breaker, limits of calls."""
