"""A server on two pipes within this process, driven pass by pass: what it writes depends on no clock."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from ferrule import MCPServer
from ferrule.kernel.runner import serve_dual_era_loop
from ferrule.transports.stdio.server import stdio_streams

__all__ = ["PASSES", "Line", "line_to"]

PASSES = 24
"""Passes of the event loop that let everything happen that waits for no thread and no clock."""


class Line:
    """The client's side of the pipes.

    Attributes:
        received: every byte that the server has written.
    """

    def __init__(self, into: int, out: int) -> None:
        self._into = into
        self._out = out
        self.received = b""

    async def send(self, data: bytes, passes: int = PASSES) -> None:
        """Write bytes, all of which the server gets in one read, and let it work.

        Each pass reads what the server has written, since the response of a request that has reported progress waits
        until everything written is read.
        """
        if data:
            os.write(self._into, data)
        for _ in range(passes):
            await asyncio.sleep(0)
            self._read()

    async def tell(self, *messages: Any) -> None:
        """`send` messages, one per line."""
        await self.send(b"".join(encoded(message) for message in messages))

    def _read(self) -> None:
        while True:
            try:
                chunk = os.read(self._out, 1 << 20)
            except BlockingIOError:
                return
            if not chunk:
                return
            self.received += chunk

    async def wait_for(self, answers: int) -> list[Any]:
        """Every message, once there are so many; for tools that run in threads."""
        async with asyncio.timeout(10):
            while self.received.count(b"\n") < answers:
                await asyncio.sleep(0.001)
                self._read()
        return self.messages()

    def messages(self) -> list[Any]:
        """Every message so far."""
        return [json.loads(line) for line in self.received.splitlines()]

    def hang_up(self) -> None:
        """End the input."""
        if self._into >= 0:
            os.close(self._into)
            self._into = -1


def encoded(message: Any) -> bytes:
    """A message as a line; bytes as they are."""
    line = message if isinstance(message, bytes) else json.dumps(message, ensure_ascii=False).encode()
    return line + b"\n"


@asynccontextmanager
async def line_to(app: MCPServer[Any], *, drain_s: float = 5.0) -> AsyncIterator[Line]:
    """Serve an app until the block ends."""
    server_in, client_out = os.pipe()
    client_in, server_out = os.pipe()
    os.set_blocking(client_in, False)
    reading, writing = stdio_streams(server_in, server_out, drain_s=drain_s)
    line = Line(client_out, client_in)
    # By passes of the loop, and not by the clock.
    pauses = patch("ferrule.transports.stdio.server._READ_PAUSES_S", (0.0,) * (PASSES // 2))
    async with app.lowlevel.lifespan() as state:
        pauses.start()
        serving = asyncio.create_task(serve_dual_era_loop(app.lowlevel, reading, writing, lifespan_state=state))
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            yield line
            line.hang_up()
            await serving
            await writing.flush()
            line._read()
        finally:
            serving.cancel()
            await asyncio.wait([serving])
            line.hang_up()
            await reading.aclose()
            await writing.aclose()
            os.close(client_in)
            pauses.stop()
