"""Writes the messages of one connection as a recording: JSON lines with time, sender and message.

`ferrule.testing.recordings.lines` describes the form, so that `Client(Recording(path))`, ``ferrule run`` and the page
itself take it. Secrets are masked where their names, their forms or the schemas of tools show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from ferrule.protocol.secret_forms import SecretTools, mask_secrets
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
    messages = list(store.of_connection(connection))
    secrets = SecretTools()
    for _, text in messages:  # all before the first line: a call may come before the list
        if b'"tools"' in text:
            secrets.learn_from(_decoded(text))
    lines: list[bytes] = []
    size = left_out = 0
    for place, text in messages:
        line = _line_of(place.at_ms, place.direction, text, secrets)
        lines.append(line)
        size += len(line)
    while size > MAX_SESSION_BYTES:
        size -= len(lines[left_out])
        left_out += 1
    return b"".join(lines[left_out:]), left_out


def _decoded(text: bytes) -> Any:
    try:
        return decode(text)
    except DecodeError:
        return None


def _line_of(at_ms: float, direction: str, text: bytes, secrets: SecretTools) -> bytes:
    sender = "client" if direction == "out" else "server"
    try:
        message: dict[str, Any] = {"message": secrets.masked(decode(text))}
    except DecodeError:
        message = {"raw": text.decode("utf-8", "replace")}
    if isinstance(message.get("message"), str):  # what was no message is kept as its text
        message = {"raw": message["message"]}
    return encode({"at_s": round(at_ms / 1000, 6), "from": sender, **mask_secrets(message)}) + b"\n"
