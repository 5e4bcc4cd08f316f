"""The stdio server as hosts see it: a process with pipes, files, terminals and sockets for stdin and stdout.

Every test runs a real process (`stdio_program.py`). Waiting is done by reading the pipes; time limits only turn a
hang into a failure.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ferrule.kernel.dispatch import StreamMessage
from ferrule.transports.stdio import server as stdio
from ferrule.transports.stdio.server import ParentWatch
from ferrule.types import JsonRpcNotification

PROGRAM = Path(__file__).parent / "stdio_program.py"
INIT = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def command(**options: Any) -> list[str]:
    """The command line of the program with options of `run_stdio` (and ``loop``)."""
    return [sys.executable, "-X", "dev", str(PROGRAM), json.dumps(options)]


def line(message: Any) -> bytes:
    """A message as its line."""
    return json.dumps(message).encode() + b"\n"


def call(id: Any, name: str, **arguments: Any) -> dict[str, Any]:
    """A tools/call request."""
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


def ping(id: Any) -> dict[str, Any]:
    """A ping."""
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def text_of(answer: dict[str, Any]) -> str:
    """The text that a call answered with."""
    return str(answer["result"]["content"][0]["text"])


class Host:
    """A host at the other end of the pipes."""

    def __init__(self, *, init: bool = True, env: dict[str, str] | None = None, **options: Any) -> None:
        self.process = subprocess.Popen(
            command(**options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=None if env is None else {**os.environ, **env},
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self.stdin, self.stdout, self.stderr = self.process.stdin, self.process.stdout, self.process.stderr
        self._rest = b""
        if init:
            self.send(INIT, INITIALIZED)
            assert "result" in self.receive()

    def send(self, *messages: dict[str, Any] | bytes) -> None:
        """Write messages, or bytes as they are."""
        self.stdin.write(b"".join(m if isinstance(m, bytes) else line(m) for m in messages))

    def receive(self) -> dict[str, Any]:
        """The next message of the server."""
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([self.stdout], [], [], 20)
            assert ready, "the server is silent"
            chunk = os.read(self.stdout.fileno(), 1 << 20)
            assert chunk, "the server closed its stdout"
            pieces.append(chunk)
        found, _, self._rest = b"".join(pieces).partition(b"\n")
        message: dict[str, Any] = json.loads(found)
        return message

    def end(self, timeout_s: float = 20) -> tuple[int, str]:
        """Close stdin; exit status and stderr."""
        self.stdin.close()
        return self.wait(timeout_s)

    def wait(self, timeout_s: float = 20) -> tuple[int, str]:
        """Exit status and stderr, without closing stdin."""
        stderr = self.stderr.read().decode()
        return self.process.wait(timeout_s), stderr

    def close(self) -> None:
        """Whatever happened, leave nothing."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


@pytest.fixture
def host() -> Iterator[Callable[..., Host]]:
    """Starts hosts and ends them."""
    hosts: list[Host] = []

    def start(**options: Any) -> Host:
        hosts.append(Host(**options))
        return hosts[-1]

    yield start
    for each in hosts:
        each.close()


# -- the end of input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["own", "asyncio", "trio"])
def test_requests_in_a_file_are_all_answered(tmp_path: Path, loop: str) -> None:
    """The answers of calls that still run at the end of input were lost, with exit status 0."""
    calls = [call(i, "sleep", s=0.2) for i in (1, 2, 3)]
    requests = tmp_path / "in"
    requests.write_bytes(b"".join(map(line, [INIT, INITIALIZED, *calls])).rstrip(b"\n"))  # the last line has no end
    with requests.open("rb") as stdin, (tmp_path / "out").open("wb") as stdout:
        done = subprocess.run(
            command(loop=loop), stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=30, check=False
        )
    answers = [json.loads(x) for x in (tmp_path / "out").read_bytes().splitlines()]
    assert sorted(answer["id"] for answer in answers) == [0, 1, 2, 3]
    assert all("result" in answer for answer in answers)
    assert (done.returncode, done.stderr) == (0, b"lifespan closed\nprogram over\n")


@pytest.mark.parametrize(
    ("loop", "name"), [("own", "sleep"), ("own", "stubborn"), ("own", "block"), ("asyncio", "sleep"), ("trio", "sleep")]
)
def test_a_handler_that_never_ends_is_abandoned(host: Callable[..., Host], loop: str, name: str) -> None:
    """Case 12's variant: waiting, refusing its cancellation, or stuck in a thread; the others are still answered."""
    server = host(drain_s=0.3, loop=loop)
    server.send(call(1, name, s=1000), call(2, "sleep", s=0.05))
    server.stdin.close()
    assert server.receive()["id"] == 2
    status, stderr = server.wait()
    assert status == 0
    assert "Abandoned 1 requests" in stderr
    assert "program over" in stderr
    assert "Traceback" not in stderr


def test_no_input_at_all_is_a_quiet_end() -> None:
    """The null device for stdin, as service managers give it."""
    done = subprocess.run(command(), stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"lifespan closed\nprogram over\n")


def test_a_closed_stdin_is_an_end_of_input() -> None:
    """Started with ``<&-`` there is nothing to read and nothing to crash on."""
    closing = ["sh", "-c", 'exec "$@" <&-', "sh"]
    done = subprocess.run([*closing, *command()], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"lifespan closed\nprogram over\n")


# -- bad input ----------------------------------------------------------------------------------------------------

BAD = [
    (b'{"id": 99, "method": "ping"}', 99, -32600),
    (b'{"jsonrpc": "2.0", "id": 99, "method": ""}', 99, -32600),
    (b'{"jsonrpc": "2.0", "id": 99}', 99, -32600),
    (b'[{"jsonrpc": "2.0", "id": 99, "method": "ping"}]', None, -32600),
    (b'{"jsonrpc": "2.0", "id": 99, "method": "pi', None, -32700),
    (b"NOT JSON", None, -32700),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', None, -32600),
    (b'{"jsonrpc": "2.0", "id": 99, "method": "ping", "params": []}', 99, -32602),
    (b'{"jsonrpc": "2.0", "id": 99, "method": "no/such"}', 99, -32601),
    (b"[" * 10_000 + b"]" * 10_000, None, -32700),
    (b'{"jsonrpc": "2.0", "id": 99, "method": "\xff\xfe"}', None, -32700),
    (b'"' + b"x" * 200_000 + b'"', None, -32600),
    (b"\x00\x01\x02", None, -32700),
    (b"17", None, -32600),
]


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_bad_lines_are_answered_and_the_next_message_works(host: Callable[..., Host], loop: str) -> None:
    """One bad line killed the server or left its client waiting."""
    server = host(max_message_bytes=100_000, loop=loop)
    for number, (bad, id, code) in enumerate(BAD):
        server.send(bad + b"\n", ping(f"after {number}"))
        answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}  # in either order
        assert answers[id]["error"]["code"] == code, bad[:60]
        assert answers[f"after {number}"] == {"jsonrpc": "2.0", "id": f"after {number}", "result": {}}
    assert server.end()[0] == 0


def test_blank_lines_and_other_line_ends_are_no_messages(host: Callable[..., Host]) -> None:
    """Windows programs write CR LF, some begin with a byte order mark, and people type empty lines."""
    server = host(init=False)
    server.send(b"\xef\xbb\xbf" + line(INIT).rstrip() + b"\r\n\n  \r\n", line(INITIALIZED), ping(1))
    assert [server.receive()["id"] for _ in range(2)] == [0, 1]


def test_a_message_beyond_the_limit_is_answered_before_it_ends(host: Callable[..., Host]) -> None:
    """Without a bound a peer fills the memory; without an early answer one that sends no newline waits for ever."""
    server = host(max_message_bytes=1000)
    for _ in range(300):  # 20 MB without a newline
        server.send(b"x" * 65536)
    answer = server.receive()
    assert (answer["id"], answer["error"]["code"]) == (None, -32600)
    assert "1000 bytes" in answer["error"]["message"]
    server.send(b"x\n", ping(1))
    assert server.receive()["id"] == 1


def test_any_chunking_is_the_same_input(host: Callable[..., Host]) -> None:
    """Two frames in one write, and one frame in single bytes."""
    server = host()
    server.send(line(ping(1)) + line(ping(2)))
    assert [server.receive()["id"] for _ in range(2)] == [1, 2]
    for i, byte in enumerate(line(ping(3))):
        server.send(bytes([byte]))
        if i % 7 == 0:
            time.sleep(0.001)  # so that they arrive apart; nothing depends on it
    assert server.receive()["id"] == 3


LOCALES = [{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, {"PYTHONIOENCODING": "cp1252"}]


@pytest.mark.parametrize("env", LOCALES)
def test_text_is_exact_in_any_locale(host: Callable[..., Host], env: dict[str, str]) -> None:
    """The wire is UTF-8 on every platform, with separators and characters beyond the BMP."""
    server = host(env=env)
    text = "🎉 中文 \u2028\u2029 \x7f é"
    server.send(json.dumps(call(1, "echo", text=text), ensure_ascii=False).encode() + b"\n", call(2, "print"))
    assert text_of(server.receive()) == text
    assert text_of(server.receive()) == "done"
    assert server.end()[0] == 0


def test_a_lone_surrogate_never_ends_the_session(host: Callable[..., Host]) -> None:
    """UTF-8 has no half of a pair, in a result or in a request."""
    server = host()
    server.send(call(1, "surrogate"), rb'{"jsonrpc":"2.0","id":2,"method":"ping","params":{"x":"\ud83d"}}' + b"\n")
    assert text_of(server.receive()) == "cut \ufffd here"
    assert server.receive()["id"] == 2


def test_ready_made_json_with_line_ends_stays_one_line(host: Callable[..., Host]) -> None:
    """An application may answer with JSON from a file; a newline inside would be two frames."""
    server = host()
    server.send(call(1, "pretty"), ping(2))
    answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}
    assert answers[1]["result"]["content"] == []


# -- the wire is private ------------------------------------------------------------------------------------------


def test_prints_and_children_cannot_touch_the_wire(host: Callable[..., Host]) -> None:
    """Prints, raw writes, a child process that reads stdin and one that writes to stdout."""
    server = host()
    for id, name in enumerate(("print", "shout", "cat"), start=1):
        server.send(call(id, name))
        answer = server.receive()
        assert answer["id"] == id
        assert text_of(answer) == ("b''" if name == "cat" else "done")
    server.send(ping("still here"))
    assert server.receive()["id"] == "still here"
    status, stderr = server.end()
    assert status == 0
    assert stderr == "printed 中\nwritten to fd 1\nshouted\nagain\nlifespan closed\nprogram over\n"


CHATTY = """
import logging, sys
logging.basicConfig(stream=sys.stdout, level=logging.DEBUG)  # asyncio says which selector it uses
print("before, and not flushed", end="")
from ferrule import MCPServer
app = MCPServer("x")
app.tool(name="t")(lambda: print("in a tool"))
app.run("stdio")
print("after")
logging.warning("later")
"""


def test_what_a_program_prints_before_at_the_start_and_after_is_not_on_the_wire() -> None:
    """A host reads until the pipe ends, and one line that is not a message may end the session for it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", CHATTY],
        input=b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n',
        capture_output=True,
        env=environment,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    for text in (b"before, and not flushed", b"selector", b"after", b"later"):
        assert text in done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("loop", ["own", "trio"])
def test_a_tool_may_use_multiprocessing(host: Callable[..., Host], method: str, loop: str) -> None:
    """If workers inherit the pipe, the tool hangs for ever."""
    server = host(loop=loop)
    server.send(call(1, "worker", method=method), ping(2))
    answers = {answer["id"]: answer for answer in (server.receive(), server.receive())}
    assert text_of(answers[1]) == "0"
    status, stderr = server.end()
    assert status == 0
    assert stderr.count("from a worker") == 1


def test_a_child_that_outlives_the_server_does_not_hold_the_pipe(host: Callable[..., Host]) -> None:
    """The host waits for the end of stdout; a background process of a tool must not keep it from seeing that."""
    server = host()
    server.send(call(1, "child", code="import time; time.sleep(1000)"))
    child = int(text_of(server.receive()))
    try:
        server.stdin.close()
        ready, _, _ = select.select([server.stdout], [], [], 20)
        assert ready
        assert os.read(server.stdout.fileno(), 100) == b""
        assert server.process.wait(30) == 0
    finally:
        os.kill(child, signal.SIGKILL)


# -- full and broken pipes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_a_full_pipe_does_not_stop_the_loop(host: Callable[..., Host], loop: str) -> None:
    """A blocking write of a large answer would stop everything; here a short sleep still ends during it."""
    server = host(loop=loop)
    server.send(call(1, "big", n=5_000_000))
    time.sleep(0.2)  # let it fill the pipe; nothing depends on it
    server.send(*(ping(i) for i in range(2, 40)), call(40, "sleep", s=0.01))
    answers = [server.receive() for _ in range(40)]
    assert sorted(answer["id"] for answer in answers) == list(range(1, 41))
    assert len(text_of(answers[0])) == 5_000_000
    assert server.end()[0] == 0


def test_the_loop_runs_while_the_pipe_is_full(host: Callable[..., Host]) -> None:
    """Nothing is read from stdout here, and another tool still does its work."""
    server = host()
    server.send(call(1, "big", n=5_000_000), call(2, "stderr", n=10))
    assert select.select([server.stderr], [], [], 20)[0]
    assert os.read(server.stderr.fileno(), 10) == b"e" * 10


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_answers_larger_than_the_pipe_are_written_out_after_the_end_of_input(
    host: Callable[..., Host], loop: str
) -> None:
    """The handlers have ended long before their answers are out: a pipe holds a megabyte at most, these are two."""
    server = host(loop=loop)
    server.send(call(1, "big", n=1_000_000), call(2, "big", n=1_000_000))
    server.stdin.close()
    time.sleep(0.3)  # let the handlers end; nothing depends on it
    assert [len(text_of(server.receive())) for _ in range(2)] == [1_000_000] * 2
    assert server.wait() == (0, "lifespan closed\nprogram over\n")


def test_a_large_message_passes_in_both_directions(host: Callable[..., Host]) -> None:
    """10 MB, larger than every buffer on the way."""
    server = host()
    text = "0123456789" * 1_000_000
    server.send(call(1, "echo", text=text))
    assert text_of(server.receive()) == text


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_a_peer_that_stops_reading_ends_the_server(host: Callable[..., Host], loop: str) -> None:
    """A host that died leaves a broken pipe: no traceback, no waiting for input that cannot be answered."""
    server = host(loop=loop)
    server.stdout.close()
    server.send(ping(1))
    status, stderr = server.wait()
    assert status == 0
    assert stderr == "lifespan closed\nprogram over\n"


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_answers_to_a_host_that_does_not_read_are_given_up_after_the_bound(
    host: Callable[..., Host], loop: str
) -> None:
    """End of input with a full stdout: the answers wait for ``drain_s`` and no longer."""
    server = host(drain_s=0.3, loop=loop)
    server.send(call(1, "big", n=5_000_000))
    assert server.end()[0] == 0


# -- other kinds of stdin and stdout ------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_sockets_serve_as_stdin_and_stdout(loop: str) -> None:
    """Node gives its children sockets; a closed one must be the end of input and not a busy loop."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        end = theirs.fileno()
        process = subprocess.Popen(command(loop=loop), stdin=end, stdout=end, stderr=subprocess.PIPE)
        theirs.close()
        ours.sendall(line(INIT) + line(INITIALIZED) + line(call(1, "big", n=2_000_000)))
        with ours.makefile("rb") as answers:
            assert json.loads(answers.readline())["id"] == 0
            assert len(text_of(json.loads(answers.readline()))) == 2_000_000
        ours.shutdown(socket.SHUT_WR)
        assert process.communicate(timeout=30)[1] == b"lifespan closed\nprogram over\n"
        assert process.returncode == 0


def run_at_terminal(act: Callable[[int, int], object], **options: Any) -> tuple[int, str]:
    """The program with a terminal for stdin, stdout and as controlling terminal; exit status and stderr."""
    master, slave = pty.openpty()
    stderr_read, stderr_write = os.pipe()
    process = subprocess.Popen(
        command(**options),
        stdin=slave,
        stdout=slave,
        stderr=stderr_write,
        start_new_session=True,
        preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
    )
    os.close(slave)
    os.close(stderr_write)
    with os.fdopen(stderr_read, "rb") as stderr:
        greeting = b""
        while b"Ctrl-C" not in greeting:
            chunk = os.read(stderr.fileno(), 4096)
            assert chunk, greeting
            greeting += chunk
        act(master, process.pid)
        said = greeting + stderr.read()
    status = process.wait(30)
    os.close(master)
    return status, said.decode()


def test_the_printed_host_configuration_works_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user copies the line; the host starts the server from another folder and would not find `calculator.py`."""
    (tmp_path / "calculator.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "orig_argv", ["python", "-u", "calculator.py", "stdio"])
    found = stdio._own_command()  # pyright: ignore[reportPrivateUsage]
    assert found == [sys.executable, "-u", str(tmp_path / "calculator.py"), "stdio"]


@pytest.mark.parametrize("loop", ["own", "trio"])
def test_at_a_terminal_it_explains_itself_and_serves(loop: str) -> None:
    """People start a server by hand and see nothing; the text goes to stderr and messages can be typed."""

    def act(master: int, _: int) -> None:
        os.write(master, line(INIT))
        seen = b""
        while b'"serverInfo"' not in seen:
            seen += os.read(master, 4096)
        os.write(master, b"\x04")  # Ctrl-D: end of input

    status, said = run_at_terminal(act, loop=loop)
    assert status == 0
    assert said.startswith("program is an MCP server")
    assert '"mcpServers": {"program": {"command":' in said
    assert said.endswith("lifespan closed\nprogram over\n")


def test_ctrl_c_is_quiet() -> None:
    """No traceback; 130 is what shells expect. Clean-up runs."""
    status, said = run_at_terminal(lambda master, _: os.write(master, b"\x03"))
    assert status == 130
    assert said.endswith("Ctrl-C ends it.\nlifespan closed\n")


def test_a_second_ctrl_c_ends_a_server_that_is_stuck() -> None:
    """Clean-up that hangs must not need a kill from another terminal."""

    def act(master: int, _: int) -> None:
        os.write(master, line(INIT) + line(INITIALIZED) + line(call(1, "stubborn")) + line(ping(2)))
        seen = b""
        while b'"id":2' not in seen:
            seen += os.read(master, 4096)
        os.write(master, b"\x03")
        time.sleep(0.2)  # two signals at once are one
        os.write(master, b"\x03")

    status, said = run_at_terminal(act)
    assert status == 130
    assert "lifespan closed" not in said


# -- signals and parents ------------------------------------------------------------------------------------------


def test_sigterm_ends_it_cleanly(host: Callable[..., Host]) -> None:
    """Hosts send it when closing stdin did not suffice; a handler in the middle is cancelled and clean-up runs."""
    server = host()
    server.send(call(1, "sleep", s=1000), ping(2))
    assert server.receive()["id"] == 2
    server.process.terminate()
    status, stderr = server.wait()
    assert (status, stderr) == (0, "lifespan closed\nprogram over\n")


LAUNCHER = """
import subprocess, sys, os, time
child = subprocess.Popen(sys.argv[1:])
os.write(2, b"%d\\n" % child.pid)
time.sleep(1000)
"""


def test_it_ends_when_its_parent_ends_and_leaves_the_pipe_open() -> None:
    """A host may end while another process keeps the pipe open; the server must not stay behind."""
    wrapped = [sys.executable, "-c", LAUNCHER, sys.executable, "-c", FAST_WATCH.format(program=str(PROGRAM))]
    parent = subprocess.Popen(wrapped, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0)
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stderr is not None
    with parent.stdin, parent.stdout, parent.stderr:
        assert parent.stderr.readline().strip().isdigit()
        parent.stdin.write(line(INIT))
        assert b'"serverInfo"' in parent.stdout.readline()
        parent.kill()
        parent.wait()
        said = parent.stderr.read()  # ends when the server, the only other holder, has ended
    assert b"The parent process has ended" in said
    assert said.endswith(b"lifespan closed\n")


FAST_WATCH = """
import importlib.util, sys
from ferrule.kernel.dispatch import StreamMessage
from ferrule.transports.stdio import server as stdio
stdio.PARENT_POLL_S = 0.05
watch = stdio.ParentWatch
stdio.ParentWatch = lambda: watch(launcher_s=0)
spec = importlib.util.spec_from_file_location("program", {program!r})
program = importlib.util.module_from_spec(spec)
spec.loader.exec_module(program)
stdio.run_stdio(program.server)
"""


class Parent:
    """A parent process and a clock to play with."""

    def __init__(self) -> None:
        self.id, self.now = 100, 0.0
        self.watch = ParentWatch(lambda: self.id, lambda: self.now, launcher_s=10)


def test_a_dead_parent_is_an_orphan_only_after_a_second_look() -> None:
    """One look later with no message in between: the host is gone."""
    parent = Parent()
    parent.now = 60
    assert not parent.watch.is_orphaned(5)
    parent.id = 1
    assert not parent.watch.is_orphaned(5)
    assert parent.watch.is_orphaned(5)


@pytest.mark.parametrize(("now", "received"), [(3, 5), (60, 0)])
def test_a_launcher_that_ends_early_is_not_the_host(now: float, received: int) -> None:
    """Hosts start servers through launchers that fork twice and leave; the pipe is open for a good reason."""
    parent = Parent()
    parent.now, parent.id = now, 1
    for later in (0, 10, 1000):
        parent.now = now + later
        assert not parent.watch.is_orphaned(received)
    parent.id = 2  # the adoptive parent is watched from then on
    assert not parent.watch.is_orphaned(7)
    assert parent.watch.is_orphaned(7)


def test_a_host_that_goes_on_talking_is_alive() -> None:
    """The ended process was not the host, since messages still arrive."""
    parent = Parent()
    parent.now, parent.id = 60, 1
    assert not parent.watch.is_orphaned(5)
    assert not parent.watch.is_orphaned(6)
    assert not parent.watch.is_orphaned(6)
    assert not parent.watch.is_orphaned(6)


# -- functions ----------------------------------------------------------------------------------------------------

APP = """
import subprocess, time
from ferrule import MCPServer
app = MCPServer("app", version="1")

@app.tool
def cat() -> str:
    print("in a thread")
    return subprocess.run(["cat"], capture_output=True, text=True, check=True).stdout

@app.tool
def sleeps() -> None:
    time.sleep(1000)

app.run("stdio", drain_s=0.3)
print("over")
"""


def test_an_app_of_plain_functions_keeps_the_same_promises() -> None:
    """Sync functions run in threads: their prints, their children, and one that never returns."""
    requests = [INIT, INITIALIZED, call(1, "cat"), call(2, "sleeps")]
    program = [sys.executable, "-X", "dev", "-c", APP]
    done = subprocess.run(program, input=b"".join(map(line, requests)), capture_output=True, timeout=30, check=False)
    assert done.returncode == 0
    answers = {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines()[:2])}
    assert text_of(answers[1]) == ""
    assert done.stdout.splitlines()[2:] == []
    assert b"over" in done.stderr  # after `run`, too, nothing but messages is on the wire
    assert done.stderr.startswith(b"in a thread\n")
    assert b"Traceback" not in done.stderr


# -- idle ---------------------------------------------------------------------------------------------------------


def cpu_ticks(pid: int) -> int:
    """Processor time of a process so far, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts through /proc")
@pytest.mark.parametrize("loop", ["own", "trio"])
@pytest.mark.parametrize("state", ["idle", "full", "full before", "draining"])
def test_waiting_costs_nothing(host: Callable[..., Host], state: str, loop: str) -> None:
    """An idle server must not use the processor. A busy loop would use about thirty ticks here."""
    server = host(loop=loop, drain_s=100)
    if state.startswith("full"):
        server.send(call(1, "big", n=5_000_000))
    if state == "full before":
        server.receive()
    if state == "draining":
        server.send(call(1, "sleep", s=1000))
        server.stdin.close()
    for _ in range(20):  # the first windows may still hold the end of its start
        before = cpu_ticks(server.process.pid)
        time.sleep(0.3)
        if cpu_ticks(server.process.pid) - before <= 3:
            return
    pytest.fail("it is never idle")


def test_a_subscription_that_the_server_ends_is_answered_and_then_withdrawn(host: Callable[..., Host]) -> None:
    """Two pages of the revision require the result and the notification; the result has to come first."""
    prefix = "io.modelcontextprotocol/"
    meta = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
    params = {"notifications": {"toolsListChanged": True}, "_meta": meta}
    peer = host(init=False)
    peer.send({"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": params})
    assert peer.receive()["method"] == "notifications/subscriptions/acknowledged"
    peer.stdin.close()
    answer, told = peer.receive(), peer.receive()
    assert (answer["id"], answer["result"]["resultType"]) == ("ear", "complete")
    own = {f"{prefix}subscriptionId": "ear"}
    assert (told["method"], told["params"]) == ("notifications/cancelled", {"requestId": "ear", "_meta": own})
    assert peer.wait()[0] == 0


# -- what leaves when ----------------------------------------------------------------------------------------------


class Pipe:
    """A write stream over a pipe whose reading end the test holds."""

    def __init__(self) -> None:
        self.far, target = os.pipe()
        source, self.input = os.pipe()
        self.reading, self.writing = stdio.stdio_streams(source, target)

    def read(self) -> list[Any]:
        """The messages that are in the pipe now; waits if there is none."""
        return [json.loads(part) for part in os.read(self.far, 1 << 16).splitlines()]

    async def aclose(self) -> None:
        await self.writing.aclose()
        await self.reading.aclose()
        os.close(self.far)
        os.close(self.input)


@pytest.fixture
async def wire(any_backend: str) -> AsyncIterator[Pipe]:
    """A pipe in the running loop."""
    opened = Pipe()
    yield opened
    await opened.aclose()


@pytest.mark.anyio
async def test_a_notification_is_in_the_pipe_when_send_returns(wire: Pipe) -> None:
    """A handler that computes after a report would hold it back until the loop runs again."""
    await wire.writing.send(StreamMessage(JsonRpcNotification("notifications/progress", {"progress": 1})))
    assert [message["method"] for message in wire.read()] == ["notifications/progress"]


@pytest.mark.anyio
async def test_waiting_until_read_ends_when_the_peer_has_read(wire: Pipe, monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks again and again, and not longer than needed."""
    looks = 0
    unread = wire.writing._writer.unread_bytes

    def look() -> int | None:
        nonlocal looks
        looks += 1
        if looks == 3:
            wire.read()
        return unread()

    await wire.writing.send(StreamMessage(JsonRpcNotification("n", None)))
    monkeypatch.setattr(wire.writing._writer, "unread_bytes", look)
    await wire.writing.wait_until_read()
    assert looks == 3
    await wire.writing.wait_until_read()
    assert looks == 4


@pytest.mark.anyio
async def test_waiting_until_read_gives_up_on_a_peer_that_does_not_read(wire: Pipe) -> None:
    """The answer of a call is delayed, never withheld."""
    await wire.writing.send(StreamMessage(JsonRpcNotification("n", None)))
    await wire.writing.wait_until_read()
    assert [message["method"] for message in wire.read()] == ["n"]
