"""ferrule.transports.asgi.replies: one stream, many writers, slow and vanished clients."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.transports.asgi.replies import EventStreamReply, KeepAlive, send_body, send_empty

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


class SlowServer:
    """An ASGI ``send`` that suspends, and that notices when it is entered twice."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.inside = 0
        self.overlapped = False
        self.gone = False
        self.gate: anyio.Event | None = None

    async def __call__(self, message: Any) -> None:
        self.overlapped |= self.inside > 0
        self.inside += 1
        try:
            await anyio.sleep(0.001)
            if self.gate is not None:
                await self.gate.wait()
            if self.gone:
                raise OSError("the client has gone")
            self.sent.append(message)
        finally:
            self.inside -= 1

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.sent if message["type"] == "http.response.body"]


async def test_writers_take_turns_and_the_head_is_first() -> None:
    """Servers may suspend inside ``send``; a chunk that overtakes the head ends the connection."""
    server = SlowServer()
    reply = EventStreamReply(server, KeepAlive(None))
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(reply.write, b"%d" % number)
    await reply.close(b"last")
    assert not server.overlapped
    assert [message["type"] for message in server.sent] == ["http.response.start"] + ["http.response.body"] * 21
    assert sorted(server.bodies[:-1]) == sorted(b"%d" % number for number in range(20))
    assert server.bodies[-1] == b"last"
    assert [message.get("more_body") for message in server.sent[1:]] == [True] * 20 + [None]


async def test_nothing_follows_the_last_event() -> None:
    """Also from writers that waited for their turn while the stream was closed."""
    server = SlowServer()
    reply = EventStreamReply(server, KeepAlive(None))
    async with anyio.create_task_group() as group:
        group.start_soon(reply.close, b"last")
        for _ in range(5):
            group.start_soon(reply.write, b"late")
            group.start_soon(reply.close, b"later")
    finals = [at for at, message in enumerate(server.sent) if "body" in message and not message.get("more_body")]
    assert finals == [len(server.sent) - 1]
    assert reply.is_over


async def test_a_vanished_client_makes_it_silent() -> None:
    """``OSError`` from the server means the same as a disconnect; no exception is raised to the handler."""
    server = SlowServer()
    reply = EventStreamReply(server, KeepAlive(None))
    await reply.write(b"one")
    server.gone = True
    await reply.write(b"two")
    server.gone = False
    await reply.write(b"three")
    await reply.close(b"four")
    assert server.bodies == [b"one"]
    with anyio.fail_after(30):
        await reply.wait_over()


async def test_a_cancelled_writer_does_not_block_the_others() -> None:
    """Its turn ends with it."""
    server = SlowServer()
    reply = EventStreamReply(server, KeepAlive(None))
    await reply.write(b"one")
    server.gate = anyio.Event()
    with anyio.move_on_after(0.02):
        await reply.write(b"stuck")
    server.gate.set()
    with anyio.fail_after(30):
        await reply.write(b"two")
    assert server.bodies == [b"one", b"two"]


async def test_keep_alive_leaves_alone_what_is_written_anyway() -> None:
    """Comments come after silence only, never into a pending write, and stop with the stream."""
    server = SlowServer()
    keep_alive = KeepAlive(0.04)
    reply = EventStreamReply(server, keep_alive)
    await reply.write(b"one")
    server.gate = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(reply.write, b"slow")
        await anyio.sleep(0.1)
        assert server.bodies == [b"one"]
        server.gate.set()
    with anyio.fail_after(30):
        while server.bodies[-1] != b":\n\n":
            await anyio.sleep(0.005)
    await reply.close()
    count = len(server.sent)
    await anyio.sleep(0.1)
    assert (len(server.sent), len(keep_alive)) == (count, 0)


async def test_plain_answers() -> None:
    """Two sends; a length on everything but 204."""
    server = SlowServer()
    await send_body(server, 400, b"{}", [(b"x", b"y")])
    await send_empty(server, 202)
    await send_empty(server, 204)
    heads = [dict(message["headers"]) for message in server.sent if "status" in message]
    assert heads[0] == {b"content-type": b"application/json", b"content-length": b"2", b"x": b"y"}
    assert heads[1] == {b"content-length": b"0"}
    assert heads[2] == {}


async def test_a_client_lost_while_its_stream_opens_leaves_nothing() -> None:
    """Servers may suspend in the head, and the client go meanwhile; the keep-alive would look after it for ever."""
    server, keep_alive = SlowServer(), KeepAlive(100.0)
    server.gate = anyio.Event()
    reply = EventStreamReply(server, keep_alive)
    async with anyio.create_task_group() as group:
        group.start_soon(reply.write, b"event")
        await anyio.wait_all_tasks_blocked()
        reply.lose()
        server.gate.set()
    assert len(keep_alive) == 0
    assert server.bodies == []


async def test_a_stream_is_over_when_its_last_event_is_out() -> None:
    """Who waits for that returns to the server, which would find a response that is not complete."""
    server = SlowServer()
    reply = EventStreamReply(server, KeepAlive(None))
    await reply.write(b"event")
    server.gate = anyio.Event()
    seen: list[bytes] = []

    async def wait() -> None:
        await reply.wait_over()
        seen.extend(server.bodies)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        group.start_soon(reply.close, b"last")
        await anyio.wait_all_tasks_blocked()
        server.gate.set()
    assert seen == [b"event", b"last"]
