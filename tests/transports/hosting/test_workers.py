"""Workers on one port, as real processes: started, lost, replaced, ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule.transports.hosting.workers import backoff_s

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="sockets are not inherited there"),
]

PROGRAM = """
import os, time
from ferrule import Context, MCPServer

app = MCPServer("many"{settings})

@app.tool
def pid() -> int:
    return os.getpid()

@app.tool
async def slow() -> str:
    import anyio
    print("began", flush=True)
    await anyio.sleep(1)
    return "slow"

@app.tool
async def ask(ctx: Context) -> str:
    return str((await ctx.elicit("sure?", bool, key="sure")).data) + str(os.getpid())

if __name__ == "__main__":
    app.run("http", port=0, workers=2, on_started=lambda host, port: print(port, flush=True){options})
"""


@contextmanager
def running(
    tmp_path: Path, settings: str = "", options: str = ", stateless=True", begins: str = ""
) -> Generator[tuple[Any, int]]:
    """The program, its process and its port; ``begins`` stands before it."""
    script = tmp_path / "program.py"
    script.write_text(f"import os\n{begins}" + PROGRAM.format(settings=settings, options=options))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    try:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
    finally:
        process.terminate()
        process.wait(30)
        if process.stdout is not None:
            process.stdout.close()


def modern(name: str, **more: Any) -> tuple[bytes, dict[str, str]]:
    """Body and headers of one modern call."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": {}, "_meta": meta, **more},
    }
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
    }
    return json.dumps(body).encode(), headers


def call(port: int, name: str, **more: Any) -> Any:
    """One modern call on a connection of its own; the result."""
    body, headers = modern(name, **more)
    request = urllib.request.Request(f"http://127.0.0.1:{port}/mcp", body, {**headers, "connection": "close"})
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response)["result"]


def pids(port: int, wanted: int) -> set[int]:
    """Return the ids of the workers that respond; repeat requests until there are so many."""
    found: set[int] = set()
    deadline = time.monotonic() + 30
    while len(found) < wanted and time.monotonic() < deadline:
        found.add(call(port, "pid")["structuredContent"])
    return found


def test_workers_share_a_port_and_a_lost_one_is_replaced(tmp_path: Path) -> None:
    """``kill -9`` costs the calls in flight there, and nothing else."""
    with running(tmp_path) as (process, port):
        before = pids(port, 2)
        assert len(before) == 2
        assert process.pid not in before
        victim = before.pop()
        os.kill(victim, signal.SIGKILL)
        deadline = time.monotonic() + 30
        now: set[int] = set()
        while len(now - {victim}) < 2 and time.monotonic() < deadline:
            try:
                now.add(call(port, "pid")["structuredContent"])
            except OSError:  # a connection that the dead one had accepted
                continue
        assert len(now - {victim}) == 2


REFUSES_ONCE = """
import subprocess
popen, refused = subprocess.Popen, []

def refuse_once(*arguments, **options):
    if os.path.exists("served") and not refused:
        refused.append(True)
        print("refused", flush=True)
        raise BlockingIOError(11, "no process left")
    return popen(*arguments, **options)

if __name__ == "__main__":
    subprocess.Popen = refuse_once
"""


@pytest.mark.parametrize("how", ["killed", "hangup"])
def test_the_others_serve_while_the_system_refuses_a_process(tmp_path: Path, how: str) -> None:
    """A lack of memory often is why a worker was killed; it must not end the others."""
    with running(tmp_path, begins=REFUSES_ONCE) as (process, port):
        before = pids(port, 2)
        (tmp_path / "served").touch()
        if how == "killed":
            os.kill(max(before), signal.SIGKILL)
        else:
            process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "refused\n"
        wanted = 1 if how == "killed" else 2
        deadline = time.monotonic() + 30
        now: set[int] = set()
        while len(now - before) < wanted and time.monotonic() < deadline:
            with contextlib.suppress(OSError):  # a connection that the dead one had accepted
                now.add(call(port, "pid")["structuredContent"])
        assert len(now - before) == wanted
        assert process.poll() is None


def test_the_pause_after_many_failures_is_bounded() -> None:
    """A worker that cannot start is tried for days, while the others serve."""
    assert [backoff_s(failures, 30.0) for failures in (2, 3, 20, 10**6)] == [0.4, 0.8, 30.0, 30.0]


def test_rounds_of_a_call_may_go_through_different_workers(tmp_path: Path) -> None:
    """The key of the state is the workers' common one, without being configured."""
    with running(tmp_path) as (_, port):
        answered: set[str] = set()
        for _ in range(8):
            first = call(port, "ask")
            answer = {"sure": {"action": "accept", "content": {"value": True}}}
            result = call(port, "ask", inputResponses=answer, requestState=first["requestState"])
            text = result["content"][0]["text"]
            assert text.startswith("True")
            answered.add(text)
        assert answered


def test_a_hangup_replaces_each_worker_and_serves_all_the_while(tmp_path: Path) -> None:
    """A rolling restart: no request is lost, neither one on a new connection nor one on a connection that was idle."""
    with running(tmp_path) as (process, port):
        before = pids(port, 2)
        kept = [Kept(port) for _ in range(4)]
        fresh = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 30
        while any(is_alive(pid) for pid in before) and time.monotonic() < deadline:
            assert call(port, "pid")["structuredContent"]
            for one in kept:
                one.ask()
            time.sleep(0.02)
        now = pids(port, 2)
        for connection in (*kept, *fresh):
            connection.close()
        assert len(now) == 2
        assert not now & before


class Kept:
    """A client that keeps its connection as long as the server lets it, and never sends a request twice."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self.ask()

    def ask(self) -> None:
        """One call; ``http.client`` connects anew only where the last answer said that the connection closes."""
        self.connection.request("POST", "/mcp", *modern("pid"))
        answer = self.connection.getresponse()
        assert answer.status == 200
        answer.read()

    def close(self) -> None:
        """Leave."""
        self.connection.close()


def is_alive(pid: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_signal_ends_all(tmp_path: Path) -> None:
    """No worker outlives its supervisor."""
    with running(tmp_path) as (process, port):
        found = pids(port, 2)
        process.terminate()
        assert process.wait(30) == 0
        for pid in found:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


def test_control_c_reaches_each_worker_once(tmp_path: Path) -> None:
    """A terminal sends it to the whole group; a second signal would cut off the call in flight."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(settings="", options=", stateless=True"))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(call, port, "slow")
            assert process.stdout.readline() == "began\n"
            os.killpg(process.pid, signal.SIGINT)
            assert answer.result(30)["content"][0]["text"] == "slow"
        assert process.wait(30) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert errors == ""


def test_workers_do_not_outlive_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    """The port must be free for the next supervisor, and no other process would end them."""
    with running(tmp_path) as (process, port):
        found = pids(port, 2)
        process.kill()
        deadline = time.monotonic() + 30
        while any(is_alive(pid) for pid in found) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(is_alive(pid) for pid in found)


@pytest.mark.parametrize(
    ("settings", "options", "said"),
    [
        ("", "", "store='redis://"),
        ("", "", "store='sqlite:///"),
        ("", ", legacy=False", None),
        (", extensions=[__import__('ferrule.extensions.tasks', fromlist=['x']).Tasks()]", ", legacy=False", "Tasks"),
        ("", ", stateless=True, authenticate=lambda ctx: None", "cannot be given"),
    ],
)
def test_what_would_break_is_refused_with_what_to_set(
    tmp_path: Path, settings: str, options: str, said: str | None
) -> None:
    """A session that exists on one worker of two is a 404 every other time."""
    if said is None:
        with running(tmp_path, settings, options) as (_, port):
            assert pids(port, 1)
        return
    script = tmp_path / "program.py"
    script.write_text(PROGRAM.format(settings=settings, options=options))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=30)
    assert done.returncode != 0
    assert said in done.stderr
