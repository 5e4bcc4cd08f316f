"""Server-sent events: a writer, and an incremental reader by the WHATWG rules.

Source: WHATWG HTML, "Server-sent events" (parsing and interpreting an event stream); MCP Streamable HTTP. This module
does not parse JSON and does not reconnect; the reader keeps the values that a reconnecting client needs
(`EventReader.last_event_id`, `EventReader.retry_ms`).

An event with empty data is an event too: in MCP 2025-11-25 it opens a stream and has the id from which to resume. It
has no message and must not be decoded as JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.wire.chunks import ChunkBuffer
from ferrule.wire.faults import EncodeError

__all__ = ["COMMENT", "EventReader", "EventTooLong", "ServerSentEvent", "encode_event"]

COMMENT = b":\n\n"
"""A comment that keeps an idle stream open; readers ignore it. Write it between events only."""

_BOM = b"\xef\xbb\xbf"
_MAX_RETRY_DIGITS = 15


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One dispatched event.

    Attributes:
        event: its type; ``"message"`` if the stream has none.
        data: the data lines joined by LF, as UTF-8 bytes; ``b""`` for a priming event.
        id: the id of this event; ``None`` if it has none (see `EventReader.last_event_id`).
        retry_ms: its reconnection time in milliseconds; ``None`` if it has none.
    """

    event: str
    data: bytes
    id: str | None = None
    retry_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EventTooLong:
    """Replaces an event above the size limit; the rest of it is dropped as it arrives.

    Attributes:
        size: bytes of the event that had arrived by then; the event may be longer.
    """

    size: int


def encode_event(data: bytes, *, event: str | None = None, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Return one encoded event.

    Args:
        data: UTF-8; each line becomes a data line (CR and CRLF are line ends too, as for a reader). ``b""`` makes a
            priming event.
        event: the type; ``None`` omits it, which means ``"message"``.
        id: the event id; ``None`` omits it, ``""`` resets the reader's last id.
        retry_ms: reconnection time in milliseconds; ``None`` omits it.

    Raises:
        EncodeError: the type or id has a line break, the id has NUL, or the time is negative (the caller's mistake): a
            reader would end the field early or ignore it.
    """
    if event is None and id is None and retry_ms is None and b"\n" not in data and b"\r" not in data:
        return b"data: " + data + b"\n\n"
    head = _field("event", event) + _field("id", id)
    if retry_ms is not None:
        if retry_ms < 0:
            raise EncodeError("A reconnection time is not negative")
        head += b"retry: %d\n" % retry_ms
    lines = data.splitlines()
    if not lines or data.endswith((b"\n", b"\r")):
        lines.append(b"")
    return b"%sdata: %s\n\n" % (head, b"\ndata: ".join(lines))


def _field(name: str, value: str | None) -> bytes:
    if value is None:
        return b""
    if "\n" in value or "\r" in value or (name == "id" and "\0" in value):
        raise EncodeError(f"An event's {name} has no line break, and an id no NUL")
    return f"{name}: {value}\n".encode("utf-8", "replace")


class _Block:
    """The fields of the event that is being read."""

    __slots__ = ("data", "event", "id", "retry_ms", "size")

    def __init__(self) -> None:
        self.size = 0
        self.data: list[bytes] = []
        self.event = ""
        self.id: str | None = None
        self.retry_ms: int | None = None


class EventReader:
    """Incremental reader of an event stream; linear in bytes for any chunking.

    CR, LF and CRLF end a line, wherever a chunk is split. A byte order mark at the start is skipped. Comments and
    unknown fields are ignored. An event without a data line is not dispatched, but its id and reconnection time are
    used. An incomplete event at the end of the stream is discarded (WHATWG HTML, "Server-sent events").

    Args:
        max_bytes: maximum size of an event: its lines without their ends. Comments do not count.
        last_event_id: the last event id of the stream that this one continues; used until an event has another id.
        retry_ms: the reconnection time of the stream that this one continues, in milliseconds; ``None`` for none.

    Attributes:
        last_event_id: the ``Last-Event-ID`` for reconnecting; ``""`` if no id was received.
        retry_ms: the last reconnection time in milliseconds; ``None`` if the server sent none.

    Raises:
        ValueError: ``max_bytes`` is not positive (the caller's mistake).
    """

    def __init__(self, max_bytes: int, *, last_event_id: str = "", retry_ms: int | None = None) -> None:
        if max_bytes < 1:
            raise ValueError("max_bytes must be positive")
        self.max_bytes = max_bytes
        self.last_event_id = last_event_id
        self.retry_ms = retry_ms
        self._held = ChunkBuffer()
        self._at_start = True
        self._skips_lf = False
        self._drops_line = False
        self._drops_event = False
        self._id_buffer = last_event_id
        self._block = _Block()

    def feed(self, chunk: bytes) -> list[ServerSentEvent | EventTooLong]:
        """Return the events that ``chunk`` completes, in order."""
        if self._skips_lf and chunk:
            self._skips_lf = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        if not chunk:
            return []
        found: list[ServerSentEvent | EventTooLong] = []
        if b"\n" not in chunk and b"\r" not in chunk:  # the middle of a large event: no line ends to split at
            if not self._drops_line:
                self._hold(chunk, found)
            return found
        self._skips_lf = chunk.endswith(b"\r")
        lines = chunk.splitlines()
        rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
        if self._held.size:
            self._held.append(lines[0])
            lines[0] = self._held.take()
        for line in lines:
            self._line(line, found)
        if rest and not self._drops_line:
            self._hold(rest, found)
        return found

    def _hold(self, rest: bytes, found: list[ServerSentEvent | EventTooLong]) -> None:
        self._held.append(rest)
        if self._held.size <= self._room():
            return
        # Too long: a comment, whose length is not limited and which starts with a colon, or a field.
        self._held, held = ChunkBuffer(), self._held
        size, start = held.size, held.take()[:4]
        if self._at_start:
            start = start.removeprefix(_BOM)
        self._at_start = False
        self._drops_line = True
        if not start.startswith(b":"):
            self._refuse(size, found)

    def _room(self) -> int:
        room = self.max_bytes - self._block.size
        return room + len(_BOM) if self._at_start else room

    def _line(self, line: bytes, found: list[ServerSentEvent | EventTooLong]) -> None:
        if self._drops_line:
            self._drops_line = False
            return
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(_BOM)
        if not line:
            self._dispatch(found)
        elif not line.startswith(b":") and not self._drops_event:
            self._block.size += len(line)
            if self._block.size > self.max_bytes:
                self._refuse(0, found)
            else:
                self._apply(line)

    def _apply(self, line: bytes) -> None:
        block = self._block
        if line.startswith(b"data:"):  # may be large: `partition` would copy it once more
            block.data.append(line[6:] if line.startswith(b" ", 5) else line[5:])
            return
        name, _, value = line.partition(b":")
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            block.data.append(value)
        elif name == b"event":
            block.event = value.decode("utf-8", "replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id_buffer = block.id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
            block.retry_ms = self.retry_ms = int(value)

    def _dispatch(self, found: list[ServerSentEvent | EventTooLong]) -> None:
        # Also the id of an event that was too long: resuming before it would send it again.
        self.last_event_id = self._id_buffer
        block = self._block
        if block.data and not self._drops_event:
            data = block.data[0] if len(block.data) == 1 else b"\n".join(block.data)
            found.append(ServerSentEvent(block.event or "message", data, block.id, block.retry_ms))
        self._drops_event = False
        self._block = _Block()

    def _refuse(self, size: int, found: list[ServerSentEvent | EventTooLong]) -> None:
        if not self._drops_event:
            found.append(EventTooLong(self._block.size + size))
        self._drops_event = True
        self._block.data = []
