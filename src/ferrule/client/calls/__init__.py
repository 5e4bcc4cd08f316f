"""Calls, tasks and subscriptions of a client, and its answers to a server's requests."""
