"""ferrule.transports.asgi.legacy.stream: streams whose client does not read, or has gone without a word."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.protocol.errors import ConnectionClosed
from ferrule.stores.events import MemoryEventStore
from ferrule.transports.asgi.legacy.stream import ResumableStream
from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive
from ferrule.transports.asgi.runtime import EndableWait

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


class Server:
    """An ASGI ``send`` whose client may stop reading."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.reads = anyio.Event()
        self.reads.set()
        self.waiting = anyio.Event()

    async def __call__(self, message: Any) -> None:
        if not self.reads.is_set():
            self.waiting.set()
            await self.reads.wait()
        self.sent.append(message)

    def stop_reading(self) -> None:
        self.reads = anyio.Event()

    @property
    def text(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()

    def reply(self) -> EventStreamReply:
        return EventStreamReply(self, KeepAlive(None))


def made(store: MemoryEventStore | None) -> ResumableStream:
    return ResumableStream("s", "1", store, retry_ms=0, primes=False)


async def test_a_new_connection_takes_the_place_of_one_that_does_not_read() -> None:
    """A client that vanished without closing its connection connects again; messages continue at once."""
    channel, dead, alive = made(MemoryEventStore()), Server(), Server()
    said: list[int] = []

    async def speak() -> None:
        for number in range(5):
            await channel.emit(b'"%d"' % number)
            said.append(number)

    with anyio.fail_after(30):
        await channel.open(dead.reply())
        await channel.emit(b'"seen"')
        async with anyio.create_task_group() as group:
            dead.stop_reading()
            group.start_soon(speak)
            await dead.waiting.wait()
            assert said == []
            await channel.resume(alive.reply(), "1-0")
        assert said == [0, 1, 2, 3, 4]
        await channel.finish(b'"last"')
    order = [alive.text.index(f'"{what}"') for what in (0, 1, 2, 3, 4, "last")]
    assert order == sorted(order)
    assert '"seen"' not in alive.text
    dead.reads.set()
    await anyio.wait_all_tasks_blocked()  # the old connection is closed when it can be


async def test_the_end_of_a_stream_does_not_wait_for_the_connection_that_was_replaced() -> None:
    """The last event is stored, and the client gets it on its new connection."""
    channel, dead, alive = made(MemoryEventStore()), Server(), Server()
    with anyio.fail_after(30):
        await channel.open(dead.reply())
        await channel.emit(b'"seen"')
        dead.stop_reading()
        async with anyio.create_task_group() as group:
            group.start_soon(channel.finish, b'"last"')
            await dead.waiting.wait()
            await channel.resume(alive.reply(), "1-0")
    assert '"last"' in alive.text
    assert alive.sent[-1].get("more_body", False) is False
    dead.reads.set()


async def test_a_stream_is_given_up_while_a_write_waits() -> None:
    """A shutdown does not wait for a client that does not read."""
    channel, dead = made(None), Server()
    with anyio.fail_after(30):
        await channel.open(dead.reply())
        dead.stop_reading()
        async with anyio.create_task_group() as group:
            group.start_soon(channel.emit, b'"x"')
            await dead.waiting.wait()
            channel.give_up()
        with pytest.raises(ConnectionClosed):
            await channel.emit(b'"y"')
    dead.reads.set()


async def test_what_is_said_while_a_stream_opens_waits_for_its_head() -> None:
    """Other workers are notified of the stream first. Six messages at once are six events, in order."""
    channel, server = made(MemoryEventStore()), Server()
    opening, may_open = anyio.Event(), anyio.Event()

    async def tell() -> None:
        opening.set()
        await may_open.wait()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(channel.open, server.reply(), tell)
            await opening.wait()
            for number in range(5):
                group.start_soon(channel.emit, b'"%d"' % number)
                await anyio.wait_all_tasks_blocked()
            may_open.set()
        await channel.emit(b'"5"')
    assert server.sent[0]["type"] == "http.response.start"
    order = [server.text.index(f'"{number}"') for number in range(6)]
    assert order == sorted(order)


async def test_ending_a_wait_is_not_cancelling_who_waits() -> None:
    """The task continues, and a real cancellation at the same time takes effect."""
    wait = EndableWait()
    found: list[Any] = []
    waiting = anyio.Event()

    async def work() -> None:
        waiting.set()
        await anyio.sleep_forever()

    async def run() -> None:
        found.append(await wait.run(work()))
        await anyio.sleep(0)
        found.append("went on")
        found.append(await wait.run(anyio.sleep(0)))

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await waiting.wait()
            wait.end()
            wait.end()
    assert found == [False, "went on", True]
    wait.end()
    with anyio.move_on_after(0.01) as scope:
        await wait.run(anyio.sleep_forever())
    assert scope.cancelled_caught
    assert await wait.run(anyio.sleep(0))
