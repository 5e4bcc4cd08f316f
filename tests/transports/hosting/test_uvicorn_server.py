"""ferrule.transports.hosting.uvicorn_server on real sockets: its bounds, its drain, and the endpoint under abuse."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule.transports.hosting.running import run_async
from ferrule.transports.hosting.uvicorn_server import HttpLimits, bind, how_to_connect, log_to_stderr
from tests.transports.asgi.support import legacy_headers, modern, modern_headers, request
from tests.transports.http_support import SHORT_LIMITS, Client, Steered, assert_alive, http, open_session, post, tool

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_client_stays_open")]


# --- the server -----------------------------------------------------------------------------------------------------


async def test_it_serves_with_and_without_the_slash_on_one_connection() -> None:
    """Keep-alive, pipelining and a request in single bytes."""
    async with Steered().serving() as port:
        client = await Client.connect(port)
        assert (await client.ask(post(tool("echo", text="a"))))[0] == 200
        assert (await client.ask(post(tool("echo", text="a"), path="/mcp/")))[0] == 200
        await client.send(post(tool("echo", id=1, text="a")) + post(tool("echo", id=2, text="b")))
        ids = []
        for _ in range(2):
            _, headers = await client.head()
            ids.append(json.loads(await client.body(headers))["id"])
        assert ids == [1, 2]
        for byte in post(tool("echo", text="slowly")):
            await client.send(bytes([byte]))
        status, headers = await client.head()
        assert status == 200
        assert "server" not in headers
        assert "date" in headers


async def test_an_unfinished_head_is_given_up() -> None:
    """Half-sent headers, or none at all, must not hold a connection for ever."""
    async with Steered().serving(SHORT_LIMITS) as port:
        for start in (b"", b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-A"):
            client = await Client.connect(port)
            await client.send(start)
            assert await client.ended() == b""
        client = await Client.connect(port)  # also behind a request that was fine
        await client.ask(post(tool("echo", text="a")))
        await client.send(b"POST /mc")
        assert await client.ended() == b""
        await assert_alive(port)


async def test_an_unfinished_body_is_given_up() -> None:
    """A byte now and then is not progress enough."""
    async with Steered().serving(SHORT_LIMITS) as port:
        client = await Client.connect(port)
        await client.send(http({**modern_headers(tool("echo")), "content-length": "100"}, b"{"))
        for _ in range(3):
            await asyncio.sleep(0.1)
            await client.send(b" ")
        assert await client.ended() == b""
        await assert_alive(port)


async def test_a_request_that_takes_long_to_answer_is_not_given_up() -> None:
    """The bounds are about what the client has to send, not about what we have to do."""
    steered = Steered()
    async with steered.serving(SHORT_LIMITS) as port:
        client = await Client.connect(port)
        await client.send(post(tool("slow")))
        await asyncio.sleep(0.8)
        steered.release.set()
        assert (await client.head())[0] == 200


@pytest.mark.parametrize("size", [70_000, 20_000_000])
async def test_a_large_head_is_431(size: int) -> None:
    """In one piece or in many, complete or not."""
    async with Steered().serving() as port:
        for end in (b"", b"\r\n\r\n"):
            client = await Client.connect(port)
            try:
                await client.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"x" * size + end)
                assert (await client.head())[0] == 431
            except (ConnectionError, asyncio.IncompleteReadError):
                assert size > 1_000_000  # it was still sending when we closed
        many = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(80))
        client = await Client.connect(port)
        status, _, _ = await client.ask(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
        assert status == 431
        await assert_alive(port)


async def test_a_large_head_in_two_reads_is_431() -> None:
    """Neither of them is larger than a head may be."""
    async with Steered().serving() as port:
        client = await Client.connect(port)
        await client.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Big: " + b"x" * 40_000)
        await asyncio.sleep(0.2)
        await client.send(b"x" * 40_000 + b"\r\nContent-Length: 0\r\n\r\n")
        assert (await client.head())[0] == 431
        await assert_alive(port)


async def test_a_head_of_allowed_size_is_served() -> None:
    """60 KB of cookies and tokens do occur."""
    async with Steered().serving() as port:
        client = await Client.connect(port)
        message = tool("echo", text="a")
        headers = {**modern_headers(message), "x-big": "y" * 60_000}
        assert (await client.ask(http(headers, json.dumps(message).encode())))[0] == 200


async def test_a_large_body_is_413_and_the_answer_can_be_read() -> None:
    """With and without a declared length; a gigabyte is not read."""
    async with Steered().serving(max_body_bytes=100_000) as port:
        client = await Client.connect(port)
        await client.send(http({**modern_headers(tool("echo")), "content-length": "1000000000"}, b"x" * 1000))
        status, headers = await client.head()
        assert (status, headers["connection"]) == (413, "close")
        client = await Client.connect(port)
        chunk = b"%x\r\n%s\r\n" % (50_000, b"x" * 50_000)
        await client.send(http({**modern_headers(tool("echo")), "transfer-encoding": "chunked"}, chunk * 10))
        assert (await client.head())[0] == 413
        await assert_alive(port)


async def test_what_is_no_http_is_400() -> None:
    """And smuggling by two lengths is not HTTP."""
    async with Steered().serving() as port:
        for raw in (
            b"NOT HTTP\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"POST /mcp HTTP/1.1\r\nHost: l\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        ):
            client = await Client.connect(port)
            assert (await client.ask(raw))[0] == 400
        await assert_alive(port)


async def test_a_client_that_stops_reading_is_dropped() -> None:
    """Its handler is cancelled, and nothing piles up."""
    steered = Steered()
    async with steered.serving(SHORT_LIMITS) as port:
        clients = [await Client.connect(port) for _ in range(20)]
        for client in clients:
            sock = client.writer.get_extra_info("socket")
            assert sock is not None
            client.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await client.send(post(tool("flood")))
        async with asyncio.timeout(30):
            while len(steered.log) < 20:
                await asyncio.sleep(0.02)
        for client in clients:
            client.abort()
        await assert_alive(port)


async def test_a_vanished_client_cancels_and_is_one_quiet_line(caplog: pytest.LogCaptureFixture) -> None:
    """No traceback from the server that carries us."""
    steered = Steered()
    with caplog.at_level(logging.INFO):
        async with steered.serving() as port:
            client = await Client.connect(port)
            await client.send(post(tool("slow")))
            await asyncio.wait_for(steered.started.wait(), 30)
            client.abort()
            async with asyncio.timeout(30):
                while not steered.log:
                    await asyncio.sleep(0.01)
            await assert_alive(port)
    ours = [record for record in caplog.records if record.name == "ferrule.http"]
    assert [record.levelname for record in ours] == ["INFO"]
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_sync_tools_do_not_stop_the_world() -> None:
    """Five run at once, and others are answered while all five of them stand still."""
    steered = Steered()
    async with steered.serving() as port:
        clients = [await Client.connect(port) for _ in range(5)]
        waiting = [asyncio.ensure_future(client.ask(post(tool("block")))) for client in clients]
        try:
            async with asyncio.timeout(30):
                while len(steered.blocked) < 5:
                    await asyncio.sleep(0.01)
                await assert_alive(port)
        finally:
            steered.unblock.set()
        answers = await asyncio.gather(*waiting)
        assert [status for status, _, _ in answers] == [200] * 5


# --- shutdown -------------------------------------------------------------------------------------------------------


async def test_a_shutdown_ends_streams_and_lets_calls_finish(caplog: pytest.LogCaptureFixture) -> None:
    """Graceful drain: subscriptions get their result, GET streams end, calls in flight are answered."""
    steered = Steered()
    with caplog.at_level(logging.WARNING):
        async with steered.serving() as port:
            listener, stream, caller = [await Client.connect(port) for _ in range(3)]
            await listener.send(
                post(modern("sub", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
            )
            assert (await listener.head())[0] == 200
            assert b"acknowledged" in await listener.chunk()
            session = await open_session(port)
            await stream.send(http({**legacy_headers(session), "accept": "text/event-stream"}, b"", "GET"))
            assert (await stream.head())[0] == 200
            await caller.send(post(tool("slow")))
            await asyncio.wait_for(steered.started.wait(), 30)
            asyncio.get_running_loop().call_later(0.3, steered.release.set)
        assert b'"resultType":"complete"' in await listener.ended()
        assert (await stream.ended()).endswith(b"0\r\n\r\n")
        assert b'"slow"' in await caller.ended()
    assert caplog.messages == []


async def test_a_shutdown_does_not_wait_for_a_client_that_does_not_read() -> None:
    """Streams end side by side, and a stalled write is cut, however long a client may leave it otherwise."""
    steered = Steered()
    limits = HttpLimits(write_timeout_s=600, drain_s=4)
    async with asyncio.timeout(30):
        async with steered.serving(limits) as port:
            session = await open_session(port)
            stalled = await Client.connect(port)
            stalled.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await stalled.send(http({**legacy_headers(session), "accept": "text/event-stream"}, b"", "GET"))
            caller = await Client.connect(port)
            caller.reader._transport.pause_reading()  # type: ignore[attr-defined]
            await caller.send(post(tool("flood")))
            assert steered.endpoint.legacy is not None
            (found,) = steered.endpoint.legacy.sessions
            while not found.has_get_stream:
                await asyncio.sleep(0.01)

            async def flood() -> None:
                for _ in range(1000):
                    await found.notify("notifications/message", {"level": "info", "data": "x" * 100_000})

            flooding = asyncio.ensure_future(flood())
            await asyncio.sleep(0.3)
            assert not flooding.done()
            other = await open_session(port)
            reader = await Client.connect(port)
            await reader.send(http({**legacy_headers(other), "accept": "text/event-stream"}, b"", "GET"))
            assert (await reader.head())[0] == 200
        assert (await reader.ended()).endswith(b"0\r\n\r\n")
    flooding.cancel()
    await asyncio.gather(flooding, return_exceptions=True)


async def test_a_call_that_does_not_end_is_cut_off_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """The drain is bounded, and a shutdown is no reason for a stack trace per request."""
    steered = Steered()
    with caplog.at_level(logging.WARNING):
        async with steered.serving(HttpLimits(drain_s=0)) as port:
            callers = [await Client.connect(port) for _ in range(3)]
            for caller in callers:
                await caller.send(post(tool("slow")))
            await steered.begun(3)
    assert steered.log == ["finally"] * 3
    assert [record.exc_info for record in caplog.records if record.exc_info] == []
    assert len(caplog.messages) == 1


PROGRAM = """
import sys
from ferrule import MCPServer
app = MCPServer("p", version="1")

@app.tool
async def echo(text: str) -> str:
    "Echo."
    return text

app.run("http", port=0, on_started=lambda host, port: print(port, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_ends_the_program_quietly(sign: signal.Signals, tmp_path: Path) -> None:
    """Exit code 0, nothing on stderr, and the loop really was uvloop's."""
    program = PROGRAM.replace("return text", "import asyncio; return type(asyncio.get_running_loop()).__module__")
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        client = await Client.connect(port)
        _, _, body = await client.ask(post(tool("echo", text="x")))
        assert json.loads(body)["result"]["content"][0]["text"] == "uvloop"
        os.kill(process.pid, sign)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, errors) == (0, "")


NOTICE = """
from ferrule import MCPServer
from ferrule.transports.hosting.uvicorn_server import HttpLimits, log_to_stderr
from ferrule.transports.hosting.running import run_async
app = MCPServer("p", version="1")

@app.tool
async def echo(text: str) -> str:
    "Echo."
    return text

if __name__ == "__main__":
    app.run(
        "http", port=0, workers=WORKERS, stateless=True, limits=HttpLimits(notice_s=60),
        on_started=lambda host, port: print(port, flush=True),
    )
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("workers", [1, 2])
async def test_after_sigterm_it_says_that_it_leaves_and_serves_on(workers: int, tmp_path: Path) -> None:
    """A load balancer learns of the end before requests are lost, and clients close their connections."""
    script = tmp_path / "program.py"
    script.write_text(NOTICE.replace("WORKERS", str(workers)))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    probe = http({"host": "10.0.0.1"}, b"", "GET", "/readyz")
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        status, headers, _ = await (await Client.connect(port)).ask(probe)
        assert (status, headers.get("connection")) == (200, None)
        process.terminate()
        in_a_row = 0
        async with asyncio.timeout(30):
            while in_a_row < 20:  # every worker says so
                client = await Client.connect(port)
                in_a_row = in_a_row + 1 if (await client.ask(probe))[0] == 503 else 0
                client.abort()
        status, headers, body = await (await Client.connect(port)).ask(probe)
        assert (status, headers["connection"], body) == (503, "close", b'{"status":"draining"}')
        status, headers, body = await (await Client.connect(port)).ask(post(tool("echo", text="late")))
        assert (status, headers["connection"]) == (200, "close")
        assert b"late" in body
        process.send_signal(signal.SIGINT)  # the operator has waited long enough
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.communicate()


async def test_a_request_that_is_on_its_way_at_shutdown_is_served() -> None:
    """On a new connection, and on one that waits for its next request."""
    steered = Steered()

    async def ask(client: Client, rest: bytes) -> tuple[int, str]:
        await steered.drained.wait()
        status, headers, _ = await client.ask(rest)
        return status, headers["connection"]

    async with steered.serving() as port:
        idle, fresh = await Client.connect(port), await Client.connect(port)
        await idle.ask(post(tool("echo", text="a")))
        request = post(tool("echo", text="b"))
        await fresh.send(request[:10])
        served = asyncio.gather(ask(idle, request), ask(fresh, request[10:]))
    assert await served == [(200, "close")] * 2


# --- abuse ----------------------------------------------------------------------------------------------------------


async def test_clients_that_vanish_anywhere_leave_nothing() -> None:
    """In mid-head, mid-body and mid-answer, 60 of each."""
    steered = Steered()
    async with steered.serving() as port:
        raw = post(tool("slow"))
        for cut in (20, len(raw) - 5, len(raw)):
            clients = [await Client.connect(port) for _ in range(60)]
            for client in clients:
                await client.send(raw[:cut])
            if cut == len(raw):
                await steered.begun(60)
            else:
                await asyncio.sleep(0.05)
            for client in clients:
                client.abort()
        async with asyncio.timeout(30):
            while len(steered.log) < 60:
                await asyncio.sleep(0.02)
        await assert_alive(port)
    gc.collect()
    assert len(steered.log) == 60


async def test_ids_in_flight_are_refused_over_the_socket() -> None:
    """One big client that numbers every request 1."""
    steered = Steered()
    async with steered.serving() as port:
        session = await open_session(port)
        slow = json.dumps(request(1, "tools/call", {"name": "slow", "arguments": {}})).encode()
        fast = json.dumps(request(1, "tools/call", {"name": "echo", "arguments": {"text": "fast"}})).encode()
        first = await Client.connect(port)
        await first.send(http(legacy_headers(session), slow))
        await asyncio.wait_for(steered.started.wait(), 30)
        clients = [await Client.connect(port) for _ in range(12)]
        answers = await asyncio.gather(*(client.ask(http(legacy_headers(session), fast)) for client in clients))
        assert {status for status, _, _ in answers} == {409}
        steered.release.set()
        _, headers = await first.head()
        assert b"slow" in await first.body(headers)
        assert (await first.ask(http(legacy_headers(session), fast)))[0] == 200


# --- what is said -----------------------------------------------------------------------------------------------------

SAYING = """
import sys
from ferrule import MCPServer
app = MCPServer("p", version="1")

@app.tool
async def broken() -> str:
    "Raise."
    raise ValueError("of no use")

app.run("http", port=int(sys.argv[1]), **eval(sys.argv[2]))
"""


async def said_by(tmp_path: Path, port: int, options: str) -> str:
    """Return the stderr of a server that is stopped after one call of a tool that fails."""
    program = tmp_path / "saying.py"
    program.write_text(SAYING)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(program), str(port), options, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            first = (await process.stderr.readline()).decode()
            if first.startswith("Serving"):
                found = int(first.split("127.0.0.1:")[1].split("/")[0])
                client = await Client.connect(found)
                await client.ask(post(tool("broken")))
                client.abort()
                process.terminate()
            return first + (await process.stderr.read()).decode()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_server_whose_output_is_redirected_says_where_it_serves(tmp_path: Path) -> None:
    """And when something happened; requests are logged on demand."""
    plain = await said_by(tmp_path, 0, "{}")
    assert plain.startswith("Serving http://127.0.0.1:")
    line = next(line for line in plain.splitlines() if "broken" in line and "ERROR" in line)
    assert line[:4].isdigit()
    assert "POST /mcp" not in plain
    assert re.search(
        r"^Try it: ferrule dev (http://127.0.0.1:\d+/mcp); .*ferrule install HOST \1$", plain, re.MULTILINE
    )
    logged = await said_by(tmp_path, 0, "{'access_log': True}")
    assert 'POST /mcp HTTP/1.1" 200' in logged
    assert "ERROR" not in await said_by(tmp_path, 0, "{'log_level': 'critical'}")


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:1/mcp"), ("::", "http://[::1]:1/mcp"), ("a.example", "http://a.example:1/mcp")],
)
async def test_the_address_to_try_can_be_reached(host: str, url: str) -> None:
    """0.0.0.0 is no address to connect to."""
    assert f"ferrule dev {url};" in how_to_connect(host, 1, "/mcp")


async def test_the_access_log_has_no_query_and_is_on_where_logging_is_configured(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Tokens stand in queries, and a program whose own level is WARNING has asked for these lines."""
    access = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(access, "level", logging.NOTSET)
    monkeypatch.setattr(access, "filters", [])
    caplog.handler.setLevel(logging.INFO)
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        Steered().app.run_async(
            "http", port=0, on_started=lambda host, port: bound.set_result(port), log_level=None, access_log=True
        )
    )
    client = await Client.connect(await asyncio.wait_for(bound, 30))
    await client.send(b"GET /mcp?token=s3cret HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    await client.head()
    client.abort()
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    assert "GET /mcp HTTP/1.1" in caplog.text
    assert "s3cret" not in caplog.text


async def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    """The last line of the traceback is all that many read."""
    async with Steered().serving() as port:
        said = await said_by(tmp_path, port, "{}")
    assert f"cannot listen on 127.0.0.1:{port}" in said.splitlines()[-1]
    assert "port=0" in said.splitlines()[-1]


async def test_run_in_a_running_loop_names_what_works_there() -> None:
    """In a notebook a loop runs; ``run_async`` serves in it until it is cancelled, and leaves signals alone."""
    steered = Steered()
    with pytest.raises(RuntimeError, match="run_async"):
        steered.app.run("http", port=0)
    with pytest.raises(RuntimeError, match="run_async"):
        steered.app.run("stdio")
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    before = signal.getsignal(signal.SIGTERM)
    serving = asyncio.ensure_future(
        steered.app.run_async("http", port=0, on_started=lambda host, port: bound.set_result(port), log_level=None)
    )
    await assert_alive(await asyncio.wait_for(bound, 30))
    assert signal.getsignal(signal.SIGTERM) is before
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    with pytest.raises(TypeError):
        await steered.app.run_async("http", prot=1)  # type: ignore[call-arg]


async def test_a_low_level_server_runs_in_a_running_loop_too() -> None:
    """As `run` does for it."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        run_async(Steered().app.lowlevel, "http", port=0, on_started=lambda host, port: bound.set_result(port))
    )
    await assert_alive(await asyncio.wait_for(bound, 30))
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize("port", [-1, 65_536, "8000", True])
async def test_a_port_that_does_not_exist_is_refused(port: Any) -> None:
    """The operating system takes 70000 for 4464, where clients would not connect."""
    with pytest.raises(ValueError, match="from 0 to 65535"):
        bind("127.0.0.1", port)


async def test_a_host_without_an_address_is_named() -> None:
    """The resolver's own error has neither host nor port."""
    with pytest.raises(OSError, match=r"cannot listen on no\.such\.host\.invalid:8000"):
        bind("no.such.host.invalid", 8000)


async def test_a_tls_file_that_is_missing_is_named(tmp_path: Path) -> None:
    """OpenSSL's own error does not name the file."""
    with pytest.raises(FileNotFoundError, match=r"missing\.pem"):
        await Steered().app.run_async("http", port=0, ssl_certfile=str(tmp_path / "missing.pem"))


async def test_an_unknown_log_level_is_refused() -> None:
    """Before anything listens."""
    with pytest.raises(ValueError, match="log_level='loud'"):
        log_to_stderr("loud")


ROUNDS = int(os.environ.get("FERRULE_SHUTDOWN_ROUNDS", "2"))
"""How often a process is ended with a call under way; more of them look for what happens once in a hundred times."""

LONG_CALL = """
import anyio
from ferrule import MCPServer
from ferrule.transports.hosting.uvicorn_server import HttpLimits, log_to_stderr
from ferrule.transports.hosting.running import run_async
app = MCPServer("p", version="1")

@app.tool
async def sleep() -> str:
    "Take a minute."
    print("sleeping", flush=True)
    await anyio.sleep(600)
    return "slept"

app.run("http", port=0, limits=HttpLimits(drain_s=1), on_started=lambda host, port: print(port, flush=True))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
async def test_a_process_ends_with_a_long_call_under_way(tmp_path: Path) -> None:
    """Whenever the signal comes, several processes side by side."""
    program = tmp_path / "long_call.py"
    program.write_text(LONG_CALL)

    async def one(number: int) -> int:
        process = await asyncio.create_subprocess_exec(sys.executable, str(program), stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None
        try:
            async with asyncio.timeout(120):
                client = await Client.connect(int(await process.stdout.readline()))
                await client.send(post(tool("sleep")))
                await process.stdout.readline()
                await asyncio.sleep(0.001 * (number % 50))
                process.terminate()
                await process.stdout.read()
                client.abort()
                return await process.wait()
        except TimeoutError:
            pytest.fail(f"round {number}: alive long after SIGTERM")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    for start in range(0, ROUNDS, 4):
        assert set(await asyncio.gather(*map(one, range(start, min(start + 4, ROUNDS))))) == {0}
