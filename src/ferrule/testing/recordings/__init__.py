"""Recordings of the messages between a host and a server, and a server that answers from one."""
