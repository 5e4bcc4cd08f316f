"""Small names of the old SDK that servers import."""

from __future__ import annotations

import logging
from typing import Any, Final

__all__ = [
    "MCP_SESSION_ID_HEADER",
    "ClientMessageMetadata",
    "ServerMessageMetadata",
    "configure_logging",
    "get_logger",
]

MCP_SESSION_ID_HEADER: Final = "mcp-session-id"


def get_logger(name: str) -> logging.Logger:
    """Return the logger of a name."""
    return logging.getLogger(name)


def configure_logging(level: str = "INFO") -> None:
    """Log to stderr."""
    logging.basicConfig(level=level, format="%(message)s")


class ServerMessageMetadata:
    """What a server says about a message that it sends; Ferrule knows by itself which request it belongs to."""

    def __init__(self, related_request_id: Any = None, **more: Any) -> None:
        self.related_request_id = related_request_id
        self.__dict__.update(more)


class ClientMessageMetadata(ServerMessageMetadata):
    """As `ServerMessageMetadata`, of a client."""
