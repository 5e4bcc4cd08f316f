"""`Client`: one MCP server, whatever it speaks and however it is reached."""

from __future__ import annotations

from ferrule.client.calls import ClientCalls

__all__ = ["Client"]


class Client(ClientCalls):
    """A client of one server.

    Open it with ``async with``, or with `connect` and `aclose` from any tasks.
    """
