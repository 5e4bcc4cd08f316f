"""Writes the messages of one connection as a recording: JSON lines with time, sender and message.

`ferrule.testing.recordings.lines` describes the form, so that `Client(Recording(path))`, ``ferrule run`` and the page
itself take it. Secrets are masked where their names or their forms show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ferrule.protocol.secret_forms import mask_secrets
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError

if TYPE_CHECKING:
    from ferrule.inspector.trace import MessageStore

__all__ = ["MAX_SESSION_BYTES", "write_session"]

MAX_SESSION_BYTES: Final = 32 << 20
"""Bound for a session; with more, the oldest messages are left out."""


def write_session(store: MessageStore, connection: str) -> tuple[bytes, int]:
    """Return the recording of a connection, and how many of its messages were left out because of the bound.

    Args:
        store: keeps the messages.
        connection: the name of the connection.
    """
    lines: list[bytes] = []
    size = left_out = 0
    for place, text in store.of_connection(connection):
        line = _line_of(place.at_ms, place.direction, text)
        lines.append(line)
        size += len(line)
    while size > MAX_SESSION_BYTES:
        size -= len(lines[left_out])
        left_out += 1
    return b"".join(lines[left_out:]), left_out


def _line_of(at_ms: float, direction: str, text: bytes) -> bytes:
    sender = "client" if direction == "out" else "server"
    try:
        message: dict[str, Any] = {"message": decode(text)}
    except DecodeError:
        message = {"raw": text.decode("utf-8", "replace")}
    if isinstance(message.get("message"), str):  # what was no message is kept as its text
        message = {"raw": message["message"]}
    return encode({"at_s": round(at_ms / 1000, 6), "from": sender, **mask_secrets(message)}) + b"\n"
