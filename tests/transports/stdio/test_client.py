"""Server processes of the client: their start, streams, last words, and an end that leaves nothing behind.

`stdio_program.py` is the server; misbehaving ones are one-liners. On asyncio and trio.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.kernel.dispatch import StreamMessage
from ferrule.transports.stdio.client import (
    SAFE_ENVIRONMENT,
    ServerProcess,
    ServerProcessEnded,
    ServerStartFailed,
    StdioServer,
    connect_stdio,
    safe_environment,
)
from ferrule.wire.jsonrpc import JsonRpcNotification, JsonRpcRequest

PROGRAM = Path(__file__).parent / "stdio_program.py"
INIT = JsonRpcRequest(
    0,
    "initialize",
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


def script(code: str, **options: Any) -> StdioServer:
    """A server that is a few lines of Python."""
    return StdioServer(sys.executable, ["-c", code], **options)


@asynccontextmanager
async def running(server: StdioServer) -> AsyncIterator[ServerProcess]:
    """A process that is ended whatever happens."""
    process = await connect_stdio(server)
    try:
        yield process
    finally:
        await process.aclose()


@asynccontextmanager
async def program(**options: Any) -> AsyncIterator[ServerProcess]:
    """`stdio_program.py`, past its handshake."""
    async with running(StdioServer(sys.executable, [str(PROGRAM)], **options)) as process:
        await send(process, INIT)
        assert "result" in await receive(process)
        await send(process, JsonRpcNotification("notifications/initialized"))
        yield process


async def send(process: ServerProcess, message: Any) -> None:
    """One message to the server."""
    await process.write_stream.send(StreamMessage(message))


async def receive(process: ServerProcess) -> Any:
    """The server's next message."""
    with anyio.fail_after(30):
        return (await process.read_stream.receive()).message


async def call(process: ServerProcess, name: str, **arguments: Any) -> str:
    """The text that a call answers with."""
    await send(process, JsonRpcRequest(name, "tools/call", {"name": name, "arguments": arguments}))
    answer = await receive(process)
    return str(answer["result"]["content"][0]["text"])


def lives(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat")
        if stat.parent.parent.joinpath("self").exists():
            return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"
        os.kill(pid, 0)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return True


async def until_dead(pid: int) -> None:
    """Wait for a process that we did not start."""
    with anyio.fail_after(30):
        while lives(pid):
            await anyio.sleep(0.01)


# -- messages -----------------------------------------------------------------------------------------------------


async def test_messages_pass_in_both_directions() -> None:
    """Small ones, and one larger than every buffer on the way."""
    async with program() as process:
        assert await call(process, "echo", text="🎉") == "🎉"
        text = "0123456789" * 300_000
        assert await call(process, "echo", text=text) == text
        assert process.returncode is None
    assert process.returncode == 0


async def test_a_server_that_writes_a_lot_to_stderr_is_not_blocked() -> None:
    """If stderr is not read, its pipe fills, and the call never ends."""
    async with program() as process:
        assert await call(process, "stderr", n=1 << 20) == "done"
        with anyio.fail_after(30):
            while not process.stderr_tail:
                await anyio.sleep(0.01)
        assert set(process.stderr_tail) <= {"e", "\n"}
        assert len(process.stderr_tail) <= 17 * 1024


async def test_lines_that_are_no_messages_are_named_once_per_kind_and_skipped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The author of a server that prints must find the line, and the log must not fill."""
    code = """
import json, sys
print("Starting up!"); print("Starting still"); print("[1, 2]"); print("17"); print("{'a': 1}"); print("x" * 5000)
print(json.dumps({"jsonrpc": "2.0", "method": "n"}))
print(json.dumps([{"jsonrpc": "2.0", "method": "batched"}]))
"""
    with caplog.at_level(logging.WARNING, "ferrule.client.stdio"):
        async with running(script(code, max_message_bytes=1000)) as process:
            assert await receive(process) == {"jsonrpc": "2.0", "method": "n"}
            assert await receive(process) == [{"jsonrpc": "2.0", "method": "batched"}]
    named = [record.getMessage() for record in caplog.records]
    assert len(named) == 3
    assert "not JSON" in named[0]
    assert "b'Starting up!'" in named[0]
    assert "no message" in named[1]
    assert "longer than" in named[2]


@pytest.mark.parametrize(
    "before", [b"\xef\xbb\xbf", b"Server ready. ", b"\x1b[2J\x1b[H", b"{not json} {", b"\xff\xfe"], ids=repr
)
async def test_an_answer_behind_a_greeting_without_a_line_end_is_taken(before: bytes) -> None:
    """Some programs write a byte order mark or a banner before their first answer; the call must not wait for ever."""
    code = f"""
import json, sys
out = sys.stdout.buffer
out.write({before!r} + json.dumps({{"jsonrpc": "2.0", "id": 1, "result": {{}}}}).encode() + b"\\n")
out.write({before!r} + json.dumps({{"jsonrpc": "2.0", "id": 2, "result": {{}}}}).encode() + b"\\n")
out.write(json.dumps({{"jsonrpc": "2.0", "id": 3, "result": {{}}}}).encode() + b"\\n")
"""
    async with running(script(code)) as process:
        assert (await receive(process))["id"] == 1
        assert (await receive(process))["id"] == 3


async def test_a_request_that_a_greeting_quotes_is_not_taken() -> None:
    """A program that logs what it receives to its stdout must not be answered for it."""
    code = """
import json
print("<-", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize"}))
print("{" * 100)
print(json.dumps({"jsonrpc": "2.0", "id": 1, "result": {}}))
"""
    async with running(script(code)) as process:
        assert (await receive(process)) == {"jsonrpc": "2.0", "id": 1, "result": {}}


async def test_a_server_that_closes_its_stdin_has_ended() -> None:
    """No call can reach it any more: those in flight fail at once, and the error names the closed end."""
    code = 'import os, time; os.close(0); print(\'{"jsonrpc": "2.0", "method": "n"}\', flush=True); time.sleep(60)'
    async with running(script(code, close_s=0.1)) as process:
        assert (await receive(process))["method"] == "n"
        with suppress(anyio.BrokenResourceError):  # trio writes at once, asyncio a moment later
            await send(process, INIT)
        with pytest.raises(anyio.EndOfStream) as caught:
            await receive(process)
        assert isinstance(caught.value.__cause__, ServerProcessEnded)
        assert "closed its input" in str(caught.value.__cause__)


async def test_stderr_lines_can_be_received() -> None:
    """A host shows them to its user; a failing listener must not end the connection."""
    heard: list[str] = []

    def listen(line: str) -> None:
        heard.append(line)
        raise ValueError("listener")

    code = "import sys; print('a\\nb', file=sys.stderr); sys.stdin.read()"
    async with running(script(code, stderr=listen)):
        with anyio.fail_after(30):
            while len(heard) < 2:
                await anyio.sleep(0.01)
    assert heard == ["a", "b"]


async def test_stderr_lines_are_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    """Capturing must not mean losing."""
    with caplog.at_level(logging.DEBUG, "ferrule.client.stdio"):
        async with running(script("import sys; print('said', file=sys.stderr); sys.stdin.read()")) as process:
            with anyio.fail_after(30):
                while "said" not in caplog.text:
                    await anyio.sleep(0.01)
    assert process.server.label in caplog.text


# -- the server's own end -----------------------------------------------------------------------------------------


async def test_a_server_that_ends_is_reported_at_once_with_its_stderr() -> None:
    """The call waited for ever. The error carries the exit status and the last lines of stderr."""
    async with program() as process:
        await send(process, JsonRpcRequest(1, "tools/call", {"name": "die", "arguments": {"status": 7}}))
        with pytest.raises(anyio.EndOfStream) as caught:
            await receive(process)
        why = caught.value.__cause__
        assert isinstance(why, ServerProcessEnded)
        assert (why.returncode, why.stderr) == (7, "last words")
        assert "exit status 7" in str(why)
        assert "last words" in str(why)
        with pytest.raises(anyio.BrokenResourceError) as refused:
            await send(process, INIT)
        assert isinstance(refused.value.__cause__, ServerProcessEnded)
        with pytest.raises(anyio.EndOfStream):
            await receive(process)


async def test_what_a_dying_server_wrote_is_still_received() -> None:
    """The answer was written before the end; both arrive, in this order."""
    code = 'import os; os.write(1, b\'{"jsonrpc":"2.0","method":"n"}\\n\'); os.kill(os.getpid(), 9)'
    async with running(script(code)) as process:
        assert await receive(process) == {"jsonrpc": "2.0", "method": "n"}
        with pytest.raises(anyio.EndOfStream) as caught:
            await receive(process)
        assert "SIGKILL" in str(caught.value.__cause__)


async def test_a_dead_server_whose_child_holds_the_pipe_is_dead() -> None:
    """Its stdout does not end, so its death must be seen otherwise."""
    code = "import os, subprocess, time; os.fork() and os._exit(3); time.sleep(1000)"
    async with running(script(code, terminate_s=5)) as process:
        with pytest.raises(anyio.EndOfStream) as caught:
            await receive(process)
        assert "exit status 3" in str(caught.value.__cause__)


async def test_a_server_that_closes_its_stdout_has_ended() -> None:
    """It may live on, but it will not answer; the error does not claim an exit status."""
    code = "import os, time; os.close(1); time.sleep(1000)"
    async with running(script(code, close_s=0.1)) as process:
        with pytest.raises(anyio.EndOfStream) as caught:
            await receive(process)
        assert "closed its output" in str(caught.value.__cause__)


# -- closing ------------------------------------------------------------------------------------------------------


async def test_an_obedient_server_ends_when_its_stdin_closes() -> None:
    """No signal is needed, and its clean-up runs."""
    heard: list[str] = []
    async with program(stderr=heard.append) as process:
        pass
    assert process.returncode == 0
    assert heard == ["lifespan closed", "program over"]


async def test_a_message_sent_before_closing_arrives() -> None:
    """A cancellation is often the last message."""
    code = "import sys; sys.stderr.write(sys.stdin.readline())"
    async with running(script(code)) as process:
        await send(process, JsonRpcNotification("last"))
    assert '"last"' in process.stderr_tail


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("import time; time.sleep(1000)", -signal.SIGTERM),
        ("import signal, time; signal.signal(15, signal.SIG_IGN); print('{}', flush=True); time.sleep(1000)", -9),
    ],
)
async def test_a_server_that_ignores_its_end_is_ended(code: str, returncode: int) -> None:
    """First SIGTERM, then SIGKILL, within the stated waits."""
    process = await connect_stdio(script(code, close_s=0.1, terminate_s=0.3))
    if returncode == -9:
        assert await receive(process) == {}  # now it ignores SIGTERM
    with anyio.fail_after(30):
        await process.aclose()
    assert process.returncode == returncode
    assert not lives(process.pid)


async def test_closing_ends_the_whole_tree() -> None:
    """Launchers end and leave the real server running; both ignore the signals that can be ignored."""
    code = """
import os, signal, sys, time
signal.signal(15, signal.SIG_IGN)
child = os.fork()
if child:
    print('{"pid": %d}' % child, flush=True)
time.sleep(1000)
"""
    process = await connect_stdio(script(code, close_s=0.1, terminate_s=0.2))
    child = (await receive(process))["pid"]
    with anyio.fail_after(30):
        await process.aclose()
    await until_dead(child)
    assert not lives(process.pid)


@pytest.mark.parametrize("manners", ["lambda *_: (os.write(2, b'asked'), os._exit(0))", "signal.SIG_IGN"])
async def test_closing_ends_children_whose_leader_is_dead_already(manners: str) -> None:
    """The children stay in the process group after its leader has ended."""
    code = f"""
import os, signal, time
heard, said = os.pipe()
child = os.fork()
if child:
    os.read(heard, 1)
    os.write(1, b'{{"pid": %d}}\\n' % child)
    os._exit(0)
signal.signal(signal.SIGTERM, {manners})
os.write(said, b'x')
time.sleep(1000)
"""
    async with running(script(code, terminate_s=0.3)) as process:
        child = (await receive(process))["pid"]
        with pytest.raises(anyio.EndOfStream):
            await receive(process)
        assert lives(child)
        with anyio.fail_after(30):
            await process.aclose()
    await until_dead(child)
    assert process.stderr_tail == ("asked" if "asked" in manners else "")


@pytest.mark.skipif(sys.platform != "linux", reason="adopts orphans as only Linux can")
async def test_closing_does_not_wait_for_dead_orphans() -> None:
    """If process 1 reaps no children, as in many containers, a dead child stays in its group for ever."""
    code = """
import os, time
child = os.fork()
if child:
    os.write(1, b'{"pid": %d}\\n' % child)
    os._exit(0)
time.sleep(1000)
"""
    pr_set_child_subreaper = 36
    prctl = ctypes.CDLL(None).prctl
    assert prctl(pr_set_child_subreaper, 1, 0, 0, 0) == 0
    try:
        process = await connect_stdio(script(code, terminate_s=100))
        child = (await receive(process))["pid"]
        with anyio.fail_after(30):
            await process.aclose()
        assert os.waitpid(child, os.WNOHANG)[1] == signal.SIGTERM
    finally:
        prctl(pr_set_child_subreaper, 0, 0, 0, 0)


async def test_a_server_with_answers_to_write_can_end() -> None:
    """Its stdout is full and not read any more; closing must not wait for SIGTERM."""
    code = "import os, sys; os.write(1, (b'x' * 1000 + b'\\n') * 3000); sys.stdin.read()"
    process = await connect_stdio(script(code, close_s=1000))
    with anyio.fail_after(60):
        await process.aclose()
    assert process.returncode == 0


async def test_closing_twice_and_at_once_is_one_end() -> None:
    """A client and its group may both close."""
    process = await connect_stdio(script("import sys; sys.stdin.read()"))
    async with anyio.create_task_group() as group:
        group.start_soon(process.aclose)
        group.start_soon(process.aclose)
    await process.aclose()
    assert process.returncode == 0


async def test_a_cancelled_close_kills() -> None:
    """Also a cancelled close leaves no process."""
    process = await connect_stdio(script("import time; time.sleep(1000)", close_s=1000))
    with anyio.move_on_after(0.05) as scope:
        await process.aclose()
    assert scope.cancelled_caught
    await until_dead(process.pid)


async def test_our_own_close_is_no_failure_of_the_server() -> None:
    """A receiver that waits when this side closes gets a plain end, without a reason."""
    process = await connect_stdio(script("import sys; sys.stdin.read()"))
    ends: list[BaseException | None] = []

    async def wait() -> None:
        try:
            await process.read_stream.receive()
        except anyio.EndOfStream as end:
            ends.append(end.__cause__)

    async with anyio.create_task_group() as group:
        group.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        await process.aclose()
    assert ends == [None]
    with pytest.raises(anyio.ClosedResourceError):
        await send(process, INIT)


# -- the start ----------------------------------------------------------------------------------------------------


async def test_a_missing_program_is_named() -> None:
    """The most frequent mistake in a configuration."""
    with pytest.raises(ServerStartFailed, match=r"'no-such-program-here'.*no such program in PATH"):
        await connect_stdio(StdioServer("no-such-program-here"))


async def test_a_missing_folder_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    """Python reports both with the same error."""
    with pytest.raises(ServerStartFailed, match=r"folder .*gone' does not exist"):
        await connect_stdio(StdioServer(sys.executable, cwd=tmp_path / "gone"))


async def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    """No permission to execute."""
    (tmp_path / "data").write_text("x")
    with pytest.raises(ServerStartFailed, match="ermission"):
        await connect_stdio(StdioServer(str(tmp_path / "data")))


async def test_the_environment_is_a_short_list_and_what_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's keys must not reach every server that it starts."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    monkeypatch.setenv("WANTED", "yes")
    monkeypatch.setenv("LANG", "() { :; }; echo function")
    async with program(env={"ADDED": "1"}, inherit_env=["WANTED", "ABSENT"]) as process:
        found = json.loads(await call(process, "environ"))
    assert (found["ADDED"], found["WANTED"], found["PATH"]) == ("1", "yes", os.environ["PATH"])
    assert not {"SECRET_TOKEN", "LANG", "ABSENT"} & set(found)
    assert set(found) <= {*SAFE_ENVIRONMENT, "ADDED", "WANTED"}
    assert safe_environment(inherit=True)["SECRET_TOKEN"] == "s3cret"


def test_the_label_shows_no_secret() -> None:
    """It goes into logs and error messages; arguments may be keys."""
    assert StdioServer("/usr/bin/python", ["server.py", "--key", "s3cret"]).label == "python server.py"
    assert StdioServer("tool", ["--key=s3cret"]).label == "tool"


# -- nothing leaks ------------------------------------------------------------------------------------------------


def open_descriptors() -> set[str]:
    """Numbers of the descriptors of this process."""
    return set(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts through /proc")
async def test_nothing_is_left_of_many_processes() -> None:
    """Descriptors, zombies and warnings; ended by themselves, by closing and by signals."""
    codes = ["import sys; sys.stdin.read()", "pass", "import time; time.sleep(1000)"]
    await (await connect_stdio(script(codes[0]))).aclose()  # what the loop opens once
    before = open_descriptors()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        processes = [await connect_stdio(script(code, close_s=0.1)) for code in codes * 3]
        async with anyio.create_task_group() as group:
            for process in processes:
                group.start_soon(process.aclose)
        del process
        pids = [process.pid for process in processes]
        processes.clear()
        gc.collect()
    assert open_descriptors() == before
    for pid in pids:
        with pytest.raises(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def test_one_task_opens_and_another_closes() -> None:
    """Any task may close, in any order, and no task is left over."""

    async def opens() -> list[ServerProcess]:
        return [await connect_stdio(script("import sys; sys.stdin.read()")) for _ in range(5)]

    async def main() -> None:
        processes = await asyncio.create_task(opens())
        await asyncio.gather(*(asyncio.create_task(process.aclose()) for process in reversed(processes)))
        assert [process.returncode for process in processes] == [0] * 5
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(main())
        gc.collect()
