"""MCP over byte streams: Unix sockets and named pipes, both eras, both loops; permissions, stale files, bounds."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import anyio
import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.client.config import read_target
from ferrule.client.targets import PairTarget, UnixTarget
from ferrule.kernel.dispatch import StreamMessage, TransportContext
from ferrule.protocol.errors import InvalidRequest, LocalError
from ferrule.transports import byte_streams
from ferrule.transports.byte_streams import ByteStreamPair, connect_unix, remove_stale, serve_streams, serve_unix
from ferrule.transports.stdio.server import stdio_streams
from ferrule.wire.types import ElicitResult

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="this system has no Unix sockets"),
]

MODES = pytest.mark.parametrize("mode", ["legacy", "auto"])


def make_app(begun: list[str] | None = None) -> MCPServer:
    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        if begun is not None:
            begun.append("begun")
        yield

    app = MCPServer("foundry", lifespan=lifespan)

    @app.tool
    async def melt(metal: str) -> str:
        return f"{metal} is liquid"

    @app.tool
    async def ask(ctx: Context) -> str:
        answer = await ctx.elicit("Which?", {"type": "object", "properties": {"n": {"type": "integer"}}})
        return f"{answer.action} over {ctx.request.transport.kind}, network {ctx.request.transport.is_network}"

    @app.tool(scopes=["admin"])
    async def guarded() -> str:
        return "ok"

    return app


@asynccontextmanager
async def serving(app: Any, path: Path, **options: Any) -> AsyncIterator[None]:
    started = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: serve_unix(app, path, on_started=started.set, **options))
        await started.wait()
        yield
        group.cancel_scope.cancel()


async def answer(params: Any, question: Any) -> ElicitResult:
    return ElicitResult(action="accept", content={"n": 1})


@MODES
async def test_calls_and_questions_over_a_unix_socket(tmp_path: Path, mode: str, any_backend: Any) -> None:
    """Several clients of one server, whose lifespan begins once; the file goes with the server."""
    path, begun = tmp_path / "s", list[str]()
    async with serving(make_app(begun), path):
        async with Client(f"unix:{path}", mode=mode, elicitation_handler=answer) as one:
            async with Client(f"unix://{path}", mode=mode) as two:
                assert (await two.call_tool("melt", {"metal": "tin"})).text == "tin is liquid"
            if mode == "legacy" or any_backend == "asyncio":  # rounds need asyncio
                assert (await one.call_tool("ask")).text == "accept over unix, network False"
            assert (await one.call_tool("guarded")).text == "ok", "the peer is the owner of the process"
    assert begun == ["begun"]
    assert not path.exists()


@MODES
async def test_named_pipes_as_a_pair_of_streams(tmp_path: Path, mode: str) -> None:
    """One pipe for each direction: the server has one end of both, the client the other."""
    there, back = tmp_path / "there", tmp_path / "back"
    os.mkfifo(there, 0o600)
    os.mkfifo(back, 0o600)
    # Opened for both directions, which does not wait for the other side; only one is used.
    ends = [os.open(path, os.O_RDWR | os.O_NONBLOCK) for path in (there, back, there, back)]
    reading, writing = stdio_streams(ends[0], ends[1])
    app = make_app()
    from ferrule.kernel.runner import serve_dual_era_loop

    async with anyio.create_task_group() as group:
        async with app.lowlevel.lifespan() as state:
            group.start_soon(lambda: serve_dual_era_loop(app.lowlevel, reading, writing, lifespan_state=state))
            client_reads, client_writes = stdio_streams(ends[3], ends[2])
            async with Client(PairTarget(client_reads, client_writes), mode=mode) as client:
                assert (await client.call_tool("melt", {"metal": "tin"})).text == "tin is liquid"
            group.cancel_scope.cancel()
    await reading.aclose()
    await writing.aclose()


@MODES
async def test_any_pair_of_byte_streams(mode: str, any_backend: Any) -> None:
    """A socket pair: nothing of it is about Unix sockets."""
    ours, theirs = socket.socketpair()
    async with anyio.create_task_group() as group:
        stream = await anyio.abc.SocketStream.from_socket(theirs)
        group.start_soon(serve_streams, make_app(), stream)
        pair = ByteStreamPair(await anyio.abc.SocketStream.from_socket(ours))
        async with Client(pair, mode=mode) as client:
            assert (await client.call_tool("melt", {"metal": "tin"})).text == "tin is liquid"
        group.cancel_scope.cancel()


@MODES
async def test_the_peer_of_a_stream_is_anonymous_by_default(mode: str, any_backend: Any) -> None:
    for transport, text in ((None, ""), (TransportContext("stream"), "ok")):
        ours, theirs = socket.socketpair()
        async with anyio.create_task_group() as group:
            stream = await anyio.abc.SocketStream.from_socket(theirs)
            group.start_soon(partial(serve_streams, make_app(), stream, transport=transport))
            pair = ByteStreamPair(await anyio.abc.SocketStream.from_socket(ours))
            async with Client(pair, mode=mode) as client:
                if text:
                    assert (await client.call_tool("guarded")).text == text
                else:
                    with pytest.raises(MCPError):
                        await client.call_tool("guarded")
            group.cancel_scope.cancel()


async def test_a_message_that_no_one_takes_is_an_error(monkeypatch: pytest.MonkeyPatch, any_backend: Any) -> None:
    """And the connection is closed: what was written of it is not a whole line."""
    monkeypatch.setattr(byte_streams, "_SEND_S", 0)

    class Stuck:
        is_closed = False

        async def send(self, item: bytes) -> None:
            await anyio.sleep_forever()

        async def aclose(self) -> None:
            self.is_closed = True

    stuck: Any = Stuck()
    pair = ByteStreamPair(stuck)
    message = StreamMessage({"jsonrpc": "2.0", "id": 1, "result": {}}, TransportContext("stream"))
    for _ in range(2):
        with pytest.raises(anyio.BrokenResourceError):
            await pair.send(message)
        assert stuck.is_closed


async def test_only_the_owner_may_open_the_socket(tmp_path: Path) -> None:
    """Unless the program says otherwise; then senders are anonymous, and scopes apply."""
    path = tmp_path / "s"
    async with serving(make_app(), path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    async with serving(make_app(), path, mode=0o660):
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        async with Client(f"unix:{path}", elicitation_handler=answer) as client:
            assert "network True" in (await client.call_tool("ask")).text
            with pytest.raises(MCPError):
                await client.call_tool("guarded")


async def test_a_stale_socket_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    """A process that was killed leaves its file; one that lives is not displaced, and a file is not deleted."""
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert path.exists()
    async with serving(make_app(), path):
        async with Client(f"unix:{path}") as client:
            await client.ping()
        with pytest.raises(OSError, match="Another process serves"):
            await serve_unix(make_app(), path)
        assert path.exists()
    document = tmp_path / "document"
    document.write_text("keep")
    with pytest.raises(FileExistsError):
        remove_stale(document)
    assert document.read_text() == "keep"
    remove_stale(tmp_path / "nothing")


async def test_connections_are_bounded_and_given_back(tmp_path: Path) -> None:
    """One above the bound is closed at once, and a place that is left is free again."""
    path = tmp_path / "s"
    async with serving(make_app(), path, max_connections=1):
        async with Client(f"unix:{path}") as client:
            await client.ping()
            with pytest.raises(LocalError):
                async with Client(f"unix:{path}", restart=False):
                    pass
            await client.ping()
        with anyio.fail_after(30):
            while True:
                try:
                    async with Client(f"unix:{path}") as client:
                        await client.ping()
                    break
                except LocalError:
                    await anyio.sleep(0.01)


async def test_messages_are_bounded_and_garbage_is_answered(tmp_path: Path) -> None:
    """A line that is too long, and one that is no JSON: the connection goes on."""
    path = tmp_path / "s"
    async with serving(make_app(), path, max_message_bytes=1000):
        stream = await anyio.connect_unix(path)
        pair = ByteStreamPair(stream)
        for line, code in ((b"x" * 5000 + b"\n", -32600), (b"{nonsense\n", -32700)):
            await stream.send(line)
            received = await pair.receive()
            assert isinstance(received, StreamMessage)
            assert cast("Any", received.message)["error"]["code"] == code
        await pair.aclose()
        await pair.aclose()
        with pytest.raises(anyio.BrokenResourceError):
            await pair.send(StreamMessage({"jsonrpc": "2.0", "method": "x"}))


async def test_a_pair_frames_byte_by_byte() -> None:
    """Any chunking, no last newline, white space between messages, and a message that is too long."""
    send, receive = anyio.create_memory_object_stream[bytes](1000)

    class Source:
        async def receive(self, max_bytes: int = 0) -> bytes:
            return await receive.receive()

        async def aclose(self) -> None:
            receive.close()

    pair = ByteStreamPair(Source(), Source(), max_message_bytes=50)  # pyright: ignore[reportArgumentType]
    text = b'{"id":1}\n\r\n{"id":"' + b"x" * 60 + b'"}\n{"id":2}'
    for byte in text:
        send.send_nowait(bytes([byte]))
    send.close()
    first, second, third = [await pair.receive() for _ in range(3)]
    assert [getattr(each, "message", None) for each in (first, third)] == [{"id": 1}, {"id": 2}]
    assert isinstance(second, InvalidRequest)
    with pytest.raises(anyio.EndOfStream):
        await pair.receive()
    receive.close()


async def test_a_client_says_what_it_cannot_open_and_connects_again(tmp_path: Path) -> None:
    """As to a process that is started anew."""
    path = tmp_path / "s"
    with pytest.raises(LocalError, match="cannot be opened"):
        async with Client(f"unix:{path}"):
            pass
    async with serving(make_app(), path):
        client = await Client(f"unix:{path}").connect()
        await client.ping()
    async with serving(make_app(), path):
        assert (await client.call_tool("melt", {"metal": "tin"})).text == "tin is liquid"
        await client.aclose()
    assert read_target("unix:/run/x.sock") == UnixTarget("/run/x.sock")
    with pytest.raises(ValueError, match="absolute"):
        read_target("unix:x.sock")


async def test_the_stream_pair_of_a_socket(tmp_path: Path) -> None:
    """For programs that keep it themselves."""
    path = tmp_path / "s"
    async with serving(make_app(), path), Client(await connect_unix(path)) as client:
        await client.ping()


def test_a_program_ends_with_a_signal_and_leaves_no_file(tmp_path: Path) -> None:
    """`run_unix` is all that a program needs."""
    path = tmp_path / "s"
    program = (
        "import sys; from ferrule import MCPServer; from ferrule.transports.byte_streams import run_unix; "
        "run_unix(MCPServer('x'), sys.argv[1], on_started=lambda: print('ready', flush=True))"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    assert path.exists()
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0
    process.stdout.close()
    assert not path.exists()
