"""Start a server, load it over raw pipes or sockets, and read from ``/proc`` what it cost.

Nothing here knows any library under measurement; a candidate is a command line.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEGACY, MODERN = "2025-11-25", "2026-07-28"
TEXT = "hello world"
LIMIT_S = 60.0

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class MeasurementError(Exception):
    """A server did not start, did not answer, or answered wrong."""


# --- /proc --------------------------------------------------------------------------------------------------------


def process_tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, pending = [], [root]
    while pending:
        found.append(pending.pop())
        pending += children.get(found[-1], [])
    return found


def cpu_s(root: int) -> float:
    """Seconds that all threads of a process tree have spent on a CPU."""
    total_ns = 0
    for pid in process_tree(root):
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total_ns += int(thread.read_text().split()[0])
            except OSError:
                continue
    return total_ns / 1e9


def resident_mb(root: int) -> float:
    """Resident memory of a process tree in megabytes."""
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in process_tree(root)) * _PAGE_BYTES / 1e6


def split_cpus() -> tuple[set[int], set[int]]:
    """A CPU for the server and one for the load; the same where there is only one."""
    cpus = sorted(os.sched_getaffinity(0))
    return {cpus[0]}, {cpus[1] if len(cpus) > 1 else cpus[0]}


def start(command: list[str], **streams: Any) -> subprocess.Popen[bytes]:
    """A server process pinned to its CPU, without our environment's Python settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    process = subprocess.Popen[bytes](command, env=environment, stderr=subprocess.DEVNULL, **streams)
    os.sched_setaffinity(process.pid, split_cpus()[0])
    return process


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server, politely at first."""
    if process.stdin is not None:
        process.stdin.close()
    else:
        process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


# --- messages -----------------------------------------------------------------------------------------------------

_CLIENT = {"name": "bench", "version": "1"}


def message(number: int, method: str, params: dict[str, Any], revision: str) -> bytes:
    """A request of a revision as JSON bytes."""
    if revision == MODERN:
        prefix = "io.modelcontextprotocol/"
        envelope = {
            f"{prefix}protocolVersion": MODERN,
            f"{prefix}clientInfo": _CLIENT,
            f"{prefix}clientCapabilities": {},
        }
        params = {**params, "_meta": envelope}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def echo_call(number: int, revision: str) -> bytes:
    """A call of the echo tool."""
    return message(number, "tools/call", {"name": "echo", "arguments": {"text": TEXT}}, revision)


INITIALIZE = message(0, "initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}, LEGACY)
INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'

_ANSWER_ID = re.compile(rb'"id"\s*:\s*(\d+)')


# --- stdio --------------------------------------------------------------------------------------------------------


class StdioServer:
    """A server on two pipes, and the calls we measure."""

    def __init__(self, command: list[str], revision: str) -> None:
        self.revision = revision
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._buffer = bytearray()
        self._next = 1
        if revision == LEGACY:
            self.write(INITIALIZE)
            self.read_line()
            self.write(INITIALIZED)

    def write(self, payload: bytes) -> None:
        """One message, or several joined by newlines."""
        assert self.process.stdin is not None
        rest = memoryview(payload + b"\n")
        while rest:
            rest = rest[self.process.stdin.write(rest) :]

    def read_line(self) -> bytes:
        """The next message of the server."""
        assert self.process.stdout is not None
        while (end := self._buffer.find(b"\n")) < 0:
            chunk = self.process.stdout.read(1 << 20)
            if not chunk:
                raise MeasurementError(f"the server ended: {self.process.args}")
            self._buffer += chunk
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        return line

    def read_answer(self) -> bytes:
        """The next message that answers something."""
        while True:
            line = self.read_line()
            if _ANSWER_ID.search(line) and b'"result"' in line:
                return line
            if b'"error"' in line:
                raise MeasurementError(line[:300].decode(errors="replace"))

    def call_once(self) -> None:
        """One echo, waited for."""
        self.write(echo_call(self._next, self.revision))
        self._next += 1
        if TEXT.encode() not in self.read_answer():
            raise MeasurementError("the echo came back without its text")

    def keep_outstanding(self, depth: int, seconds: float) -> int:
        """Hold so many calls unanswered for some seconds; how many were answered."""
        answered, end = 0, time.perf_counter() + seconds
        self.write(b"\n".join(echo_call(self._next + n, self.revision) for n in range(depth)))
        self._next += depth
        open_calls = depth
        while open_calls:
            if TEXT.encode() not in self.read_answer():
                raise MeasurementError("the echo came back without its text")
            answered += 1
            open_calls -= 1
            # Whatever else has arrived already is answered by one write, as a busy peer would.
            batch = 1
            while b"\n" in self._buffer:
                if TEXT.encode() not in self.read_answer():
                    raise MeasurementError("the echo came back without its text")
                answered += 1
                open_calls -= 1
                batch += 1
            if time.perf_counter() < end:
                self.write(b"\n".join(echo_call(self._next + n, self.revision) for n in range(batch)))
                self._next += batch
                open_calls += batch
        return answered

    def list_tools(self) -> int:
        """Follow the pages of tools/list to the end; how many tools there are."""
        count, cursor = 0, None
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            self.write(message(self._next, "tools/list", params, self.revision))
            self._next += 1
            result = json.loads(self.read_answer())["result"]
            count += len(result["tools"])
            cursor = result.get("nextCursor")
            if cursor is None:
                return count


@contextmanager
def stdio_server(command: list[str], revision: str) -> Iterator[StdioServer]:
    """A started server that has given its first answer, ended afterwards."""
    server = StdioServer(command, revision)
    try:
        server.call_once()
        yield server
    finally:
        stop(server.process)


def cpu_ms_per_call(pid: int, load: Callable[[], int]) -> float:
    """Milliseconds of CPU that each call of a load costs a process tree."""
    before = cpu_s(pid)
    calls = load()
    return (cpu_s(pid) - before) / calls * 1e3


def sequential(server: StdioServer, seconds: float) -> Callable[[], int]:
    """A load of one call at a time."""

    def load() -> int:
        calls, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            server.call_once()
            calls += 1
        return calls

    return load


# --- HTTP ---------------------------------------------------------------------------------------------------------


def free_port() -> int:
    """A port that is free at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def http_request(port: int, body: bytes, *headers: str) -> bytes:
    """A POST to the server's endpoint."""
    head = [
        "POST /mcp HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *headers,
    ]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@dataclass
class Answer:
    """A whole HTTP response."""

    status: int
    headers: dict[str, str]
    body: bytes


def take_answer(buffer: bytearray) -> Answer | None:
    """Cut one whole response off the front of a buffer; nothing while it is incomplete."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    first, *rest = bytes(buffer[:end]).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in rest)}
    begin = end + 4
    if "content-length" in headers:
        stop_at = begin + int(headers["content-length"])
        if len(buffer) < stop_at:
            return None
    elif headers.get("transfer-encoding") == "chunked":
        last = buffer.find(b"0\r\n\r\n", begin)
        while last > begin and buffer[last - 2 : last] != b"\r\n":
            last = buffer.find(b"0\r\n\r\n", last + 1)
        if last < 0:
            return None
        stop_at = last + 5
    else:
        stop_at = begin
    answer = Answer(int(first.split()[1]), headers, bytes(buffer[begin:stop_at]))
    del buffer[:stop_at]
    return answer


class HttpServer:
    """A server behind a port, and the calls we measure."""

    def __init__(self, command: list[str], revision: str) -> None:
        self.port = free_port()
        self.process = start([*command, str(self.port)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self._wait()
        if revision == MODERN:
            head = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo"]
        else:
            opened = self.exchange(http_request(self.port, INITIALIZE))
            head = [f"MCP-Protocol-Version: {LEGACY}"]
            if session := opened.headers.get("mcp-session-id"):
                head.append(f"Mcp-Session-Id: {session}")
            self.exchange(http_request(self.port, INITIALIZED, *head))
        self._revision, self._head = revision, head

    def _wait(self) -> None:
        end = time.perf_counter() + LIMIT_S
        while time.perf_counter() < end and self.process.poll() is None:
            try:
                self.connect().close()
                return
            except OSError:
                time.sleep(0.01)
        raise MeasurementError(f"nothing listens on port {self.port}: {self.process.args}")

    def connect(self) -> socket.socket:
        """A connection to the server."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def exchange(self, request: bytes) -> Answer:
        """One request on a connection of its own."""
        with self.connect() as connection:
            connection.sendall(request)
            buffer = bytearray()
            while (answer := take_answer(buffer)) is None:
                chunk = connection.recv(1 << 20)
                if not chunk:
                    raise MeasurementError("the server closed the connection without an answer")
                buffer += chunk
        if answer.status >= 400:
            raise MeasurementError(f"HTTP {answer.status}: {answer.body[:300].decode(errors='replace')}")
        return answer

    def call(self, number: int) -> bytes:
        """A request that calls the echo tool. Within a legacy session two open calls may not have the same number."""
        return http_request(self.port, echo_call(number, self._revision), *self._head)

    def keep_connections(self, count: int, seconds: float) -> int:
        """Hold one call open on each of so many connections for some seconds; how many were answered."""
        answered, end = 0, time.perf_counter() + seconds
        with selectors.DefaultSelector() as selector:
            for number in range(1, count + 1):
                connection, call = self.connect(), self.call(number)
                selector.register(connection, selectors.EVENT_READ, (call, bytearray()))
                connection.sendall(call)
            open_calls = count
            while open_calls:
                for key, _ in selector.select(LIMIT_S):
                    connection: Any = key.fileobj
                    chunk = connection.recv(1 << 18)
                    if not chunk:
                        raise MeasurementError("the server closed a connection under load")
                    call, buffer = key.data
                    buffer += chunk
                    answer = take_answer(buffer)
                    if answer is None:
                        continue
                    if answer.status != 200 or TEXT.encode() not in answer.body:
                        raise MeasurementError(f"HTTP {answer.status}: {answer.body[:300].decode(errors='replace')}")
                    answered += 1
                    open_calls -= 1
                    if time.perf_counter() < end:
                        connection.sendall(call)
                        open_calls += 1
            for key in list(selector.get_map().values()):
                selected: Any = key.fileobj
                selected.close()
        return answered


@contextmanager
def http_server(command: list[str], revision: str) -> Iterator[HttpServer]:
    """A started server that answers, ended afterwards."""
    server = HttpServer(command, revision)
    try:
        server.keep_connections(1, 0)
        yield server
    finally:
        stop(server.process)


# --- processes ----------------------------------------------------------------------------------------------------


def python_cpu_ms(python: str, statement: str) -> float:
    """Milliseconds of CPU of an interpreter that runs one statement, its start included."""
    before = os.times()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    subprocess.run([python, "-c", statement], check=True, env=environment, stdout=subprocess.DEVNULL)
    after = os.times()
    return (after.children_user - before.children_user + after.children_system - before.children_system) * 1e3


def first_answer_ms(command: list[str], revision: str) -> float:
    """Milliseconds from the start of a process to its first answer over stdio."""
    begin = time.perf_counter()
    with stdio_server(command, revision):
        return (time.perf_counter() - begin) * 1e3
