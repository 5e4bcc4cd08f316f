"""Servers and clients that many threads use at a time; a free-threaded Python runs them in parallel."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock
from typing import Any

import pytest

from ferrule import MCPServer, SyncClient
from tests.transports.asgi.support import modern

THREADS, CALLS = 8, 40
"""Threads, and the calls of each."""


class Tools:
    """A server with tools that run in threads, in the event loop, and fail; it counts the calls of its functions."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._lock = Lock()
        self.app = app = MCPServer[Any]("threads")
        app.add_tool(self.compute)
        app.add_tool(self.double)
        app.add_tool(self.fail)

    def _count(self, name: str) -> None:
        with self._lock:
            self.counts[name] = self.counts.get(name, 0) + 1

    def compute(self, number: int) -> int:
        self._count("compute")
        return sum(range(number))

    async def double(self, number: int) -> dict[str, int]:
        self._count("double")
        return {"number": number, "double": 2 * number}

    def fail(self, number: int) -> str:
        self._count("fail")
        raise ValueError(f"no {number}")


EXPECTED: dict[str, Callable[[int], Any]] = {
    "compute": lambda number: sum(range(number)),
    "double": lambda number: {"number": number, "double": 2 * number},
    "fail": lambda number: None,
}


def all_together(call: Callable[[str, int], Any]) -> list[str]:
    """What was wrong in the answers of `THREADS` threads, which begin at the same time.

    Args:
        call: returns the structured content of a call of a tool with a number; ``None`` if the call failed.
    """
    begin = Barrier(THREADS)

    def run(thread: int) -> list[str]:
        begin.wait()
        wrong: list[str] = []
        for number in range(thread * CALLS, (thread + 1) * CALLS):
            name = ("compute", "double", "fail")[number % 3]
            answer = call(name, number)
            if isinstance(answer, dict) and "result" in answer:  # legacy results are objects
                answer = answer["result"]
            if answer != EXPECTED[name](number):
                wrong.append(f"{name} {number}: {answer}")
        return wrong

    with ThreadPoolExecutor(THREADS) as pool:
        return [problem for problems in pool.map(run, range(THREADS)) for problem in problems]


def expected_counts() -> dict[str, int]:
    numbers = range(THREADS * CALLS)
    return {name: sum(1 for number in numbers if number % 3 == at) for at, name in enumerate(EXPECTED)}


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_threads_that_share_a_client(mode: str) -> None:
    tools = Tools()
    with SyncClient(tools.app, mode=mode, raise_on_error=False) as client:
        assert all_together(lambda name, number: client.call_tool(name, {"number": number}).structured_content) == []
    assert tools.counts == expected_counts()


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_threads_with_a_client_each_share_a_server(mode: str) -> None:
    """Each client has an event loop of its own, in a thread of its own."""
    tools = Tools()

    def call(name: str, number: int) -> Any:
        with SyncClient(tools.app, mode=mode, raise_on_error=False) as client:
            return client.call_tool(name, {"number": number}).structured_content

    assert all_together(call) == []
    assert tools.counts == expected_counts()


def test_threads_of_a_wsgi_server_share_an_endpoint() -> None:
    """Requests that run in the thread of the host."""
    tools = Tools()
    endpoint = tools.app.wsgi()

    def call(name: str, number: int) -> Any:
        message = modern(number, "tools/call", {"name": name, "arguments": {"number": number}})
        body = json.dumps(message).encode()
        statuses: list[str] = []
        environ = {
            "REQUEST_METHOD": "POST",
            "SCRIPT_NAME": "",
            "PATH_INFO": "/",
            "QUERY_STRING": "",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "80",
            "SERVER_PROTOCOL": "HTTP/1.1",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_HOST": "127.0.0.1",
            "HTTP_ACCEPT": "application/json, text/event-stream",
            "HTTP_MCP_PROTOCOL_VERSION": "2026-07-28",
            "HTTP_MCP_METHOD": "tools/call",
            "HTTP_MCP_NAME": name,
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
        }
        answer = json.loads(b"".join(endpoint(environ, lambda status, headers, *rest: statuses.append(status))))
        assert statuses == ["200 OK"], answer
        assert answer["id"] == number
        assert answer["result"].get("isError", False) is (name == "fail")
        return answer["result"].get("structuredContent")

    assert all_together(call) == []
    assert tools.counts == expected_counts()
