"""Why a server behind a gateway is not available, in words that clients and models may see.

The text of an error may contain URLs, paths, or what a foreign server wrote. So none of it is shown: an error is put
into one of a few classes, each with its sentence. The log of the gateway has the error.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from ferrule.client.connection.negotiation import NegotiationFailed
from ferrule.client.errors import BadServerResponse
from ferrule.protocol.errors import ConnectionClosed, MCPError, RequestTimeout
from ferrule.transports.http.backend import HttpConnectFailed
from ferrule.transports.http.errors import HttpStatusError
from ferrule.transports.stdio.client import ServerStartFailed

if TYPE_CHECKING:
    from ferrule.client.supervision.status import ConnectionStatus

__all__ = ["is_lost_connection", "reason_of", "sentence_of"]

_IN_TEXT: Final = (
    ("proxy", "its proxy did not connect it"),
    ("refused", "connection refused"),
    ("name or service not known", "its host name is unknown"),
    ("nodename nor servname", "its host name is unknown"),
    ("getaddrinfo", "its host name is unknown"),
    ("certificate", "its certificate is not accepted"),
    ("timed out", "no answer in time"),
    ("unreachable", "its network cannot be reached"),
)
"""Part of the message of the system or the HTTP library → what is said in its place."""


def reason_of(error: BaseException) -> str:
    """Return why a server is not available, as a part of a sentence."""
    if isinstance(error, RequestTimeout):
        return f"no answer within {error.timeout_s:g} s"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, HttpStatusError):
        return "it asks for a sign-in" if error.status in (401, 403) else f"it answered HTTP {error.status}"
    if isinstance(error, HttpConnectFailed):
        text = str(error).lower()
        found = next((said for part, said in _IN_TEXT if part in text), None)
        return found or "no connection can be made"
    if isinstance(error.__cause__, FileNotFoundError):
        return "its program was not found"
    if isinstance(error, ConnectionClosed):
        return "the connection was closed, or its process has ended"
    if isinstance(error, NegotiationFailed):
        return "it has no protocol version in common with this gateway"
    if isinstance(error, BadServerResponse):
        return "it answered with something that is not the protocol"
    if isinstance(error, MCPError):
        return f"it refused with the error {error.code}"
    if isinstance(error, OSError | ServerStartFailed):
        return "it cannot be started or reached"
    if isinstance(error, TypeError | ValueError | KeyError):
        return "its entry in the configuration cannot be used"
    return "it failed"


def is_lost_connection(error: BaseException) -> bool:
    """Return whether an error of a request means that the server has to be connected again."""
    if isinstance(error, HttpStatusError):
        return error.status in (502, 503, 504)
    return isinstance(error, ConnectionClosed | HttpConnectFailed | ConnectionError)


def sentence_of(status: ConnectionStatus, now: float) -> str:
    """Return the state of a server as a sentence, without a full stop.

    Args:
        status: its state.
        now: the time, in seconds since the epoch.
    """
    name = f"`{status.server}`"
    if status.is_up:
        return f"{name} is connected since {_time(status.since)}"
    if status.down_since is None:
        return f"{name} is connecting since {_time(status.since)}: no answer yet"
    reason = "no answer yet" if status.error is None else reason_of(status.error)
    text = f"{name} is down since {_time(status.down_since)}: {reason}"
    if status.state in ("connecting", "half_open"):
        return f"{text}; trying again now"
    if status.next_attempt_at is None:
        return text
    return f"{text}; trying again in {max(1.0, status.next_attempt_at - now):.0f} s"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M")
