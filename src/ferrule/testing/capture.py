"""See what really goes over a channel, without standing in its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ferrule.kernel.dispatch import ReadStream, StreamMessage, WriteStream
from ferrule.wire.codec import to_builtins

__all__ = ["CapturedMessage", "CapturedReadStream", "CapturedWriteStream", "capture_messages"]


@dataclass(frozen=True, slots=True)
class CapturedMessage:
    """One message that passed.

    Attributes:
        direction: ``"in"`` for what this side received, ``"out"`` for what it sent.
        message: builtins under wire names, a copy of its own.
    """

    direction: Literal["in", "out"]
    message: Any


class CapturedReadStream:
    """A read stream that notes what it hands out; made by `capture_messages`."""

    def __init__(self, stream: ReadStream, log: list[CapturedMessage]) -> None:
        self._stream = stream
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def receive(self) -> Any:
        """As the stream behind it."""
        item = await self._stream.receive()
        if not isinstance(item, Exception):
            self._log.append(CapturedMessage("in", _copy(item)))
        return item

    async def aclose(self) -> None:
        """As the stream behind it."""
        await self._stream.aclose()


class CapturedWriteStream:
    """A write stream that notes what it is given; made by `capture_messages`."""

    def __init__(self, stream: WriteStream, log: list[CapturedMessage]) -> None:
        self._stream = stream
        self._log = log

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def send(self, item: Any, /) -> None:
        """As the stream behind it; what it refuses is not noted."""
        copy = _copy(item)
        await self._stream.send(item)
        self._log.append(CapturedMessage("out", copy))

    async def aclose(self) -> None:
        """As the stream behind it."""
        await self._stream.aclose()


def capture_messages(
    read_stream: ReadStream, write_stream: WriteStream
) -> tuple[CapturedReadStream, CapturedWriteStream, list[CapturedMessage]]:
    """Return a stream pair to use in the place of another one, and the list of what passes, in order.

    Each message is copied when it passes, so what a handler changes later does not show.
    """
    log: list[CapturedMessage] = []
    return CapturedReadStream(read_stream, log), CapturedWriteStream(write_stream, log), log


def _copy(item: Any) -> Any:
    message = item.message if isinstance(item, StreamMessage) else item
    return to_builtins(message)
