"""Records the messages of a stream pair without changing them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ferrule.kernel.dispatch import ReadStream, StreamMessage, WriteStream
from ferrule.wire.codec import to_builtins

__all__ = ["CapturedMessage", "CapturedReadStream", "CapturedWriteStream", "capture_messages"]


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """One recorded message.

    Attributes:
        direction: ``"in"`` for what this side received, ``"out"`` for what it sent.
        message: builtins under wire names, a copy of its own.
    """

    direction: Literal["in", "out"]
    message: Any


class CapturedReadStream:
    """A read stream that records the messages that it returns; made by `capture_messages`."""

    def __init__(self, stream: ReadStream, log: list[CapturedMessage]) -> None:
        self._stream = stream
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        """Return the next message of the wrapped stream, and record it."""
        item = await self._stream.receive()
        if not isinstance(item, Exception):
            self._log.append(CapturedMessage("in", _copy(item)))
        return item

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()


class CapturedWriteStream:
    """A write stream that records the messages that are sent; made by `capture_messages`."""

    def __init__(self, stream: WriteStream, log: list[CapturedMessage]) -> None:
        self._stream = stream
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any, /) -> None:
        """Send a message to the wrapped stream, and record it if that succeeds."""
        copy = _copy(item)
        await self._stream.send(item)
        self._log.append(CapturedMessage("out", copy))

    async def aclose(self) -> None:
        """Close the wrapped stream."""
        await self._stream.aclose()


def capture_messages(
    read_stream: ReadStream, write_stream: WriteStream
) -> tuple[CapturedReadStream, CapturedWriteStream, list[CapturedMessage]]:
    """Return a stream pair to use in place of another one, and the list of its messages, in order.

    Each message is copied at once, so that later changes by a handler do not affect it.
    """
    log: list[CapturedMessage] = []
    return CapturedReadStream(read_stream, log), CapturedWriteStream(write_stream, log), log


def _copy(item: Any) -> Any:
    message = item.message if isinstance(item, StreamMessage) else item
    return to_builtins(message)
