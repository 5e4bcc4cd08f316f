"""Carriers: stdio, HTTP as an ASGI callable, memory, and their client halves. No rule of the protocol is decided here."""
