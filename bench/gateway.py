"""Gateways: what a call costs through Ferrule's, fastmcp's proxy, PyPI ``mcp-proxy`` and two of Node, in one run.

python bench/gateway.py --fastmcp PYTHON --mcp-proxy PROGRAM --npm FOLDER [--rounds 3] [--seconds 2] [--output FILE]

PYTHON is an interpreter with fastmcp, PROGRAM the command ``mcp-proxy`` of PyPI, FOLDER a ``node_modules/.bin`` with
``mcp-proxy`` and ``supergateway``; what is not given is left out. What counts, written down before it was measured:

*Behind* is always the same server (``servers/ferrule_server.py``), over stdio, which all of them can, or over HTTP,
which Ferrule and fastmcp can. *In front* is always Streamable HTTP, revision 2025-11-25, one session, plain sockets.

*CPU per call* is the on-CPU time of all threads of a process tree over the number of calls, on one connection: of the
gateway alone (without the server behind), and of all together. Candidates take turns; the table has the least of the
rounds, since other work on the machine only adds. *Direct* is the server itself over HTTP with the same load.
*Latency* is the median time of one call, on 1 and on 16 connections. *Lists* are of 1,000 tools over HTTP, each answer
checked for its number of tools. *Memory* is the resident size of the gateway alone: after the first list of 10 and of
50 servers over HTTP, and after 1,000 sessions that have each made one call, beside its size before.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import (
    INITIALIZE,
    INITIALIZED,
    LEGACY,
    TEXT,
    Answer,
    HttpServer,
    MeasurementError,
    free_port,
    http_request,
    message,
    process_tree,
    split_cpus,
    stop,
    take_answer,
)

HERE = Path(__file__).parent
SERVER = str(HERE / "servers" / "ferrule_server.py")
PYTHON = sys.executable


@dataclass
class Gateway:
    """One gateway under measurement.

    Attributes:
        name: its name in the table.
        command: from the path of a configuration, the command of one server in it, and a port to a command line.
        takes_http: whether servers behind may be reached by URL, and several at once.
        path: of its endpoint.
        prefix: what the names of tools begin with where there is one server.
    """

    name: str
    command: Callable[[str, list[str], int], list[str]]
    takes_http: bool = False
    path: str = "/mcp"
    prefix: str = ""


class Front(HttpServer):
    """A running gateway, with one session."""

    def __init__(self, gateway: Gateway, config: str, behind: list[str], prefix: str | None = None) -> None:
        self.gateway = gateway
        self.tool = f"{gateway.prefix if prefix is None else prefix}echo"
        self.port, self._revision = free_port(), LEGACY
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment |= {"XDG_CACHE_HOME": str(Path(config).parent / "cache")}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            gateway.command(config, behind, self.port), env=environment, stdin=quiet, stdout=quiet, stderr=quiet
        )
        os.sched_setaffinity(self.process.pid, split_cpus()[0])
        self._wait()
        self._head: list[str] = []
        self._introduce()

    def _introduce(self) -> None:
        opened = self.exchange(http_request(self.port, INITIALIZE))
        self._head = [f"MCP-Protocol-Version: {LEGACY}", f"Mcp-Session-Id: {opened.headers['mcp-session-id']}"]
        self.exchange(http_request(self.port, INITIALIZED, *self._head))

    def exchange(self, request: bytes) -> Answer:
        return super().exchange(self._at_path(request))

    def _at_path(self, request: bytes) -> bytes:
        return request.replace(b"POST /mcp ", f"POST {self.gateway.path} ".encode(), 1)

    def call(self, number: int) -> bytes:
        return self._request(message(number, "tools/call", {"name": self.tool, "arguments": {"text": TEXT}}, LEGACY))

    def list_request(self, number: int, cursor: Any = None) -> bytes:
        """A request for one page of the tools."""
        return self._request(message(number, "tools/list", {} if cursor is None else {"cursor": cursor}, LEGACY))

    def _request(self, body: bytes) -> bytes:
        return self._at_path(http_request(self.port, body, *self._head))

    def latencies(self, connections: int, calls: int) -> list[float]:
        """Milliseconds of each of so many calls, with one open on each connection."""
        found: list[float] = []
        with selectors.DefaultSelector() as selector:
            for number in range(connections):
                connection = self.connect()
                request = self.call(number + 1)
                connection.sendall(request)
                selector.register(connection, selectors.EVENT_READ, [request, bytearray(), time.perf_counter()])
            sent = connections
            while len(found) < sent:
                ready = selector.select(20)
                if not ready:
                    raise MeasurementError(f"{self.gateway.name} left {sent - len(found)} calls without an answer")
                for key, _ in ready:
                    connection: Any = key.fileobj
                    chunk = connection.recv(1 << 18)
                    if not chunk:
                        raise MeasurementError("the gateway closed a connection")
                    key.data[1] += chunk
                    answer = take_answer(key.data[1])
                    if answer is None:
                        continue
                    if answer.status != 200 or TEXT.encode() not in answer.body:
                        raise MeasurementError(f"HTTP {answer.status}: {answer.body[:200]!r}")
                    found.append((time.perf_counter() - key.data[2]) * 1e3)
                    if sent < calls:
                        sent += 1
                        key.data[2] = time.perf_counter()
                        connection.sendall(key.data[0])
            for key in list(selector.get_map().values()):
                closed: Any = key.fileobj
                closed.close()
        return found

    def list_once(self, connection: Any, expected: int) -> None:
        """Read one whole list."""
        count, cursor, number = 0, None, 1
        while True:
            connection.sendall(self.list_request(number, cursor))
            buffer = bytearray()
            while (answer := take_answer(buffer)) is None:
                chunk = connection.recv(1 << 20)
                if not chunk:
                    raise MeasurementError("the gateway closed a connection")
                buffer += chunk
            body = answer.body
            start, end = body.find(b"{"), body.rfind(b"}")
            if answer.headers.get("transfer-encoding") == "chunked":
                body = _dechunked(answer.body)
                start, end = body.find(b"{"), body.rfind(b"}")
            result = json.loads(body[start : end + 1])["result"]
            count += len(result["tools"])
            cursor, number = result.get("nextCursor"), number + 1
            if cursor is None:
                break
        if not expected <= count <= expected + 2:  # a gateway may have a tool of its own
            raise MeasurementError(f"{count} tools instead of {expected}")

    def open_session(self) -> None:
        """Open a further session that makes one call and stays."""
        opened = self.exchange(http_request(self.port, INITIALIZE))
        head = [f"MCP-Protocol-Version: {LEGACY}", f"Mcp-Session-Id: {opened.headers['mcp-session-id']}"]
        self.exchange(http_request(self.port, INITIALIZED, *head))
        body = message(1, "tools/call", {"name": self.tool, "arguments": {"text": TEXT}}, LEGACY)
        if TEXT.encode() not in self.exchange(http_request(self.port, body, *head)).body:
            raise MeasurementError("a session's call came back without its text")

    # -- what it costs --------------------------------------------------------------------------------------------

    def own(self) -> list[int]:
        """Its processes without those of servers behind."""
        root = self.process.pid
        return [pid for pid in process_tree(root) if pid == root or b"ferrule_server.py" not in _command_line(pid)]

    def own_mb(self) -> float:
        """Resident megabytes of its own processes."""
        page = os.sysconf("SC_PAGE_SIZE")
        return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in self.own()) * page / 1e6


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _dechunked(body: bytes) -> bytes:
    made = bytearray()
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        made += rest[:length]
        body = rest[length + 2 :]
    return bytes(made)


def cpu_of(pids: list[int]) -> float:
    """Seconds that processes have spent on a CPU."""
    total = 0
    for pid in pids:
        for thread in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(thread.read_text().split()[0])
            except OSError:
                continue
    return total / 1e9


@contextmanager
def front(gateway: Gateway, config: str, behind: list[str], prefix: str | None = None) -> Iterator[Front]:
    """A started gateway that answers, ended afterwards."""
    print("start", gateway.name, file=sys.stderr, flush=True)
    running = Front(gateway, config, behind, prefix)
    try:
        running.latencies(1, 10)
        yield running
    finally:
        stop(running.process)


@contextmanager
def behind_http(tools: int) -> Iterator[HttpServer]:
    """The server behind over HTTP."""
    server = HttpServer([PYTHON, SERVER, "http", str(tools)], LEGACY)
    try:
        yield server
    finally:
        stop(server.process)


def write_config(folder: Path, servers: dict[str, Any]) -> str:
    path = folder / f"{time.monotonic_ns()}.json"
    path.write_text(json.dumps({"mcpServers": servers}))
    return str(path)


def gateways(options: argparse.Namespace) -> list[Gateway]:
    """The candidates that are given."""
    found = [
        Gateway(
            "ferrule",
            lambda config, _, port: [PYTHON, "-m", "ferrule", "gateway", config, "--port", str(port)],
            takes_http=True,
            prefix="bench_",
        )
    ]
    if options.fastmcp:
        program = str(HERE / "servers" / "fastmcp_gateway.py")
        found.append(
            Gateway("fastmcp", lambda config, _, port: [options.fastmcp, program, config, str(port)], takes_http=True)
        )
    if options.mcp_proxy:
        found.append(
            Gateway(
                "mcp-proxy (PyPI)",
                lambda _, behind, port: [options.mcp_proxy, "--host", "127.0.0.1", "--port", str(port), "--", *behind],
                path="/mcp/",
            )
        )
    if options.npm:
        found.append(
            Gateway(
                "mcp-proxy (npm)",
                lambda _, behind, port: [
                    *(f"{options.npm}/mcp-proxy", "--host", "127.0.0.1", "--port", str(port)),
                    *("--server", "stream", "--", *behind),
                ],
            )
        )
        found.append(
            Gateway(
                "supergateway (npm)",
                lambda _, behind, port: [
                    *(f"{options.npm}/supergateway", "--stdio", " ".join(behind), "--outputTransport"),
                    *("streamableHttp", "--stateful", "--logLevel", "none", "--port", str(port)),
                ],
            )
        )
    return found


def measure_calls(found: list[Gateway], options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """Rows of the cost of a call, over stdio and over HTTP behind, and of the server itself."""
    rows: dict[str, dict[str, Any]] = {}

    def note(name: str, **values: float) -> None:
        row = rows.setdefault(name, {"name": name})
        for key, value in values.items():
            row[key] = min(row.get(key, value), value)

    def load(running: Any, name: str, pids: Callable[[], list[int]], all_pids: Callable[[], list[int]]) -> None:
        alone, together = cpu_of(pids()), cpu_of(all_pids())
        calls = running.keep_connections(1, options.seconds)
        note(name, alone=(cpu_of(pids()) - alone) / calls * 1e6, together=(cpu_of(all_pids()) - together) / calls * 1e6)
        note(
            name,
            one=statistics.median(running.latencies(1, 100)),
            sixteen=statistics.median(running.latencies(16, 320)),
        )

    stdio = [PYTHON, SERVER, "stdio", "0"]
    with ExitStack() as stack:
        server = stack.enter_context(behind_http(0))
        url = f"http://127.0.0.1:{server.port}/mcp"
        over_stdio = write_config(folder, {"bench": {"command": stdio[0], "args": stdio[1:]}})
        over_http = write_config(folder, {"bench": {"url": url}})
        direct = Direct(server.port, server.process)
        started: list[tuple[str, Front, bool]] = []
        for gateway in found:
            started.append((f"{gateway.name}, stdio", stack.enter_context(front(gateway, over_stdio, stdio)), False))
            if gateway.takes_http:
                started.append((f"{gateway.name}, HTTP", stack.enter_context(front(gateway, over_http, [])), True))
        for _ in range(options.rounds):
            load(direct, "direct, HTTP", direct.pids, direct.pids)
            for name, running, is_http in started:
                print(name, file=sys.stderr, flush=True)
                beside = [server.process.pid] if is_http else []
                load(running, name, running.own, lambda run=running, more=beside: process_tree(run.process.pid) + more)
    return list(rows.values())


class Direct(Front):
    """The server behind itself, with the same load."""

    def __init__(self, port: int, process: Any) -> None:
        self.gateway = Gateway("direct", lambda config, behind, port: [])
        self.tool, self.port, self.process = "echo", port, process
        self._revision = LEGACY
        self._introduce()

    def pids(self) -> list[int]:
        """Its process."""
        return [self.process.pid]


def measure_lists(found: list[Gateway], options: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Milliseconds of CPU of a list of 1,000 tools, of the gateway alone."""
    made: dict[str, float] = {}
    stdio = [PYTHON, SERVER, "stdio", "999"]
    with ExitStack() as stack:
        server = stack.enter_context(behind_http(999))
        url = f"http://127.0.0.1:{server.port}/mcp"
        over_http = write_config(folder, {"bench": {"url": url}})
        over_stdio = write_config(folder, {"bench": {"command": stdio[0], "args": stdio[1:]}})
        started: list[Front] = []
        for gateway in found:
            config = over_http if gateway.takes_http else over_stdio
            started.append(stack.enter_context(front(gateway, config, stdio)))
        for _ in range(options.rounds):
            for running in started:
                with running.connect() as connection:
                    running.list_once(connection, 1000)
                    before = cpu_of(running.own())
                    for _ in range(10):
                        running.list_once(connection, 1000)
                    cost = (cpu_of(running.own()) - before) / 10 * 1e3
                made[running.gateway.name] = min(made.get(running.gateway.name, cost), cost)
    return made


def measure_memory(found: list[Gateway], options: argparse.Namespace, folder: Path) -> dict[str, dict[str, float]]:
    """Megabytes of each gateway with 10 and 50 servers over HTTP, and what 1,000 sessions add."""
    made: dict[str, dict[str, float]] = {gateway.name: {} for gateway in found}
    with behind_http(5) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        for gateway in found:
            if not gateway.takes_http:
                continue
            for count in (10, 50):
                config = write_config(folder, {f"s{number}": {"url": url} for number in range(count)})
                with front(gateway, config, [], prefix="s0_") as running, running.connect() as connection:
                    running.list_once(connection, count * 6)
                    made[gateway.name][f"servers {count}"] = running.own_mb()
        over_http = write_config(folder, {"bench": {"url": url}})
        stdio = [PYTHON, SERVER, "stdio", "5"]
        over_stdio = write_config(folder, {"bench": {"command": stdio[0], "args": stdio[1:]}})
        for gateway in found:
            config = over_http if gateway.takes_http else over_stdio
            with front(gateway, config, stdio) as running:
                before, begin = running.own_mb(), time.perf_counter()
                opened = 0
                try:
                    while opened < options.sessions and time.perf_counter() - begin < 120:
                        running.open_session()
                        opened += 1
                except (MeasurementError, OSError) as error:
                    print(f"{gateway.name}: {opened} sessions, then {error}", file=sys.stderr)
                made[gateway.name] |= {
                    "before": before,
                    "sessions": running.own_mb() - before,
                    "opened": opened,
                    "processes": len(process_tree(running.process.pid)),
                }
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fastmcp")
    parser.add_argument("--mcp-proxy")
    parser.add_argument("--npm")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--only", default="calls,lists,memory")
    parser.add_argument("--output")
    options = parser.parse_args()
    found = gateways(options)
    lines = [f"load {os.getloadavg()[0]:.1f} at the start", ""]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "calls" in options.only:
            lines += ["| | CPU alone, µs | CPU with the server, µs | to direct | 1 conn., ms | 16 conn., ms |"]
            lines += ["|---|---|---|---|---|---|"]
            rows = measure_calls(found, options, folder)
            direct = next(row["together"] for row in rows if row["name"].startswith("direct"))
            for row in rows:
                ratio = row["together"] / direct
                lines.append(
                    f"| {row['name']} | {row['alone']:.0f} | {row['together']:.0f} | {ratio:.1f} | {row['one']:.2f} "
                    f"| {row['sixteen']:.2f} |"
                )
            print("\n".join(lines), flush=True)
        if "lists" in options.only:
            lists = measure_lists(found, options, folder)
            more = ["", "| | list of 1,000 tools, CPU ms |", "|---|---|"]
            more += [f"| {name} | {cost:.1f} |" for name, cost in lists.items()]
            print("\n".join(more), flush=True)
            lines += more
        if "memory" in options.only:
            memory = measure_memory(found, options, folder)
            more = ["", "| | 10 servers, MB | 50 servers, MB | one server, MB | sessions | add, MB | processes |"]
            more += ["|---|---|---|---|---|---|---|"]
            for name, row in memory.items():
                ten, fifty = row.get("servers 10"), row.get("servers 50")
                more.append(
                    f"| {name} | {'–' if ten is None else f'{ten:.0f}'} | {'–' if fifty is None else f'{fifty:.0f}'} "
                    f"| {row['before']:.0f} | {row['opened']:.0f} | {row['sessions']:.0f} | {row['processes']:.0f} |"
                )
            print("\n".join(more), flush=True)
            lines += more
    lines += ["", f"load {os.getloadavg()[0]:.1f} at the end"]
    if options.output:
        Path(options.output).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
