"""Legacy sessions on two processes with one store: whatever begins on one goes on on the other, also when one dies.

With Redis, with PostgreSQL, and with one SQLite file.
"""

from __future__ import annotations

import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """
import sys
import anyio
from ferrule import Context, MCPServer

from ferrule.transports.asgi.legacy import shared

shared._HEARTBEAT_TTL_S, shared._HEARTBEAT_INTERVAL_S = 2.0, 0.5  # so that a dead worker is detected soon
app = MCPServer("many", store=sys.argv[1])

@app.tool
def keep(ctx: Context, value: str) -> str:
    ctx.session_state["value"] = value
    return "kept"

@app.tool
def kept(ctx: Context) -> str:
    return str(ctx.session_state.get("value"))

@app.tool
async def ask(ctx: Context) -> str:
    return str((await ctx.elicit("name?", str)).data)

@app.tool
async def slow(ctx: Context, seconds: float) -> str:
    await ctx.progress(1, 2)
    await anyio.sleep(seconds)
    return "slow"

@app.tool
async def touch(ctx: Context, uri: str) -> str:
    await ctx.notify_resource_updated(uri)
    return "touched"

@app.resource("note://{name}")
def note(name: str) -> str:
    return name

@app.tool
async def change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "changed"

if __name__ == "__main__":
    app.run("http", port=0, on_started=lambda host, port: print(port, flush=True))
"""


class Server:
    """One process, and requests of one legacy client to it."""

    def __init__(self, script: Path, store: str) -> None:
        self.process = subprocess.Popen([sys.executable, str(script), store], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def open(self, method: str, session: str | None, body: Any = None, **more: str) -> tuple[Any, Any]:
        """``(connection, response)`` of one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        headers = {"content-type": "application/json", "accept": "application/json, text/event-stream", **more}
        if method == "GET":
            headers = {"accept": "text/event-stream", **more}
        if session is not None:
            headers["mcp-session-id"] = session
            headers["mcp-protocol-version"] = "2025-11-25"
        connection.request(method, "/mcp", None if body is None else json.dumps(body), headers)
        return connection, connection.getresponse()

    def send(self, session: str | None, body: Any) -> tuple[int, Any, Any]:
        """Status, headers and the JSON of an answer; of a stream the last message."""
        connection, response = self.open("POST", session, body)
        try:
            raw = response.read().decode()
            if response.headers.get("content-type", "").startswith("text/event-stream"):
                raw = [line[6:] for line in raw.splitlines() if line.startswith("data: ")][-1]
            return response.status, response.headers, json.loads(raw) if raw else None
        finally:
            connection.close()

    def call(self, session: str, name: str, **arguments: Any) -> Any:
        """The text of a tool's result."""
        body = {"jsonrpc": "2.0", "id": secrets.randbits(40), "method": "tools/call"}
        status, _, answer = self.send(session, {**body, "params": {"name": name, "arguments": arguments}})
        assert status == 200, answer
        return answer["result"]["content"][0]["text"]

    def initialize(self) -> str:
        """The id of a new session."""
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        }
        _, headers, _ = self.send(None, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        session: str = headers["mcp-session-id"]
        status, _, _ = self.send(session, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert status == 202
        return session


def two_on(store: str, folder: Path) -> Generator[tuple[Server, Server]]:
    """Two processes on one store, until the generator is asked again."""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    servers = (Server(script, store), Server(script, store))
    yield servers
    for server in servers:
        server.close()


@pytest.fixture(scope="module", params=["redis", "postgres", "sqlite"])
def two(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, new_store: Callable[[str], str]
) -> Generator[tuple[Server, Server]]:
    """Shared by all tests but one: each has a session of its own."""
    folder = tmp_path_factory.mktemp("two")
    store = f"sqlite:///{folder}/store.db" if request.param == "sqlite" else new_store(request.param)
    yield from two_on(store, folder)


def events(response: Any) -> Generator[tuple[str | None, Any]]:
    """``(id, message)`` of a stream, as they come."""
    id: str | None = None
    for raw in response:
        line = raw.decode().rstrip("\r\n")
        if line.startswith("id: "):
            id = line[4:]
        elif line.startswith("data: ") and len(line) > 6:
            yield id, json.loads(line[6:])


def in_background(function: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a thread; the result when called."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()

    def result() -> Any:
        thread.join(30)
        assert found, "no result"
        return found[0]

    return result


def test_a_session_works_where_it_was_not_opened_and_its_state_goes_along(two: tuple[Server, Server]) -> None:
    """ "Session not found" behind a load balancer is the most repeated complaint of the field."""
    one, other = two
    session = one.initialize()
    assert other.call(session, "keep", value="brass") == "kept"
    assert one.call(session, "kept") == "brass"
    assert one.call(session, "keep", value="iron") == "kept"
    assert other.call(session, "kept") == "iron"


def test_an_answer_that_arrives_elsewhere_reaches_its_question(two: tuple[Server, Server]) -> None:
    """A question is sent on the stream of its call; the answer is a POST, which any worker may receive."""
    one, other = two
    session = one.initialize()
    body = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "ask", "arguments": {}}}
    connection, response = one.open("POST", session, body)
    stream = events(response)
    _, question = next(stream)
    assert question["method"] == "elicitation/create"
    answer = {"action": "accept", "content": {"value": "Ann"}}
    status, _, _ = other.send(session, {"jsonrpc": "2.0", "id": question["id"], "result": answer})
    assert status == 202
    _, result = next(stream)
    assert result["result"]["content"][0]["text"] == "Ann"
    connection.close()


def test_a_session_that_is_deleted_on_one_is_deleted_on_both(two: tuple[Server, Server]) -> None:
    """404, so that the client initializes again."""
    one, other = two
    session = one.initialize()
    assert other.call(session, "kept") == "None"
    connection, response = other.open("DELETE", session)
    assert response.status == 204
    connection.close()
    for server in two:
        status, _, _ = server.send(session, {"jsonrpc": "2.0", "id": 9, "method": "ping"})
        assert status == 404


def test_a_change_on_one_reaches_the_stream_on_the_other(two: tuple[Server, Server]) -> None:
    """Changes of lists, made in either worker."""
    one, other = two
    session = one.initialize()
    connection, response = other.open("GET", session)
    assert response.status == 200
    heard = in_background(lambda: next(events(response)))
    assert one.call(session, "change") == "changed"
    assert heard()[1]["method"] == "notifications/tools/list_changed"
    connection.close()


def test_a_subscription_on_one_reaches_the_stream_on_the_other(two: tuple[Server, Server]) -> None:
    """The worker of the stream gets no other request of the session; the change is made in another session."""
    one, other = two
    session, second = one.initialize(), one.initialize()
    connection, response = other.open("GET", session)
    assert response.status == 200
    seen = events(response)
    for uri in ("note://a", "note://b"):
        subscribe = {"jsonrpc": "2.0", "id": secrets.randbits(40), "method": "resources/subscribe"}
        status, _, answer = one.send(session, {**subscribe, "params": {"uri": uri}})
        assert (status, answer.get("result")) == (200, {}), answer
        # One update comes at once, and one with the change: the second of the first URI may follow here.
        heard = in_background(lambda uri=uri: next(each for _, each in seen if each["params"]["uri"] == uri))
        assert one.call(second, "touch", uri=uri) == "touched"
        assert heard()["method"] == "notifications/resources/updated"
    connection.close()


def test_a_stream_is_resumed_where_it_did_not_begin(two: tuple[Server, Server]) -> None:
    """``Last-Event-ID`` at another worker, while the call still runs on the first."""
    one, other = two
    session = one.initialize()
    params = {"name": "slow", "arguments": {"seconds": 1.0}, "_meta": {"progressToken": "p"}}
    connection, response = one.open(
        "POST", session, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    )
    id, message = next(events(response))
    assert message["method"] == "notifications/progress"
    connection.close()
    assert id is not None
    connection, response = other.open("GET", session, **{"last-event-id": id})
    assert response.status == 200
    _, message = next(events(response))
    assert message["result"]["content"][0]["text"] == "slow"
    assert response.read().strip() == b""
    connection.close()


def test_a_cancellation_that_arrives_elsewhere_stops_the_call(two: tuple[Server, Server]) -> None:
    """The call ends without an answer, long before its time."""
    one, other = two
    session = one.initialize()
    params = {"name": "slow", "arguments": {"seconds": 60}, "_meta": {"progressToken": "p"}}
    connection, response = one.open(
        "POST", session, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    )
    next(events(response))
    other.send(session, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}})
    assert response.read().strip() == b""
    connection.close()


@pytest.fixture(params=["redis", "postgres", "sqlite"])
def two_to_kill(
    request: pytest.FixtureRequest, tmp_path: Path, new_store: Callable[[str], str]
) -> Generator[tuple[Server, Server]]:
    store = f"sqlite:///{tmp_path}/store.db" if request.param == "sqlite" else new_store(request.param)
    yield from two_on(store, tmp_path)


def test_a_killed_worker_costs_its_calls_in_flight_and_no_session(two_to_kill: tuple[Server, Server]) -> None:
    """The session continues; a stream of the killed worker ends with an error and is not resumed for ever."""
    one, other = two_to_kill
    session = one.initialize()
    assert one.call(session, "keep", value="brass") == "kept"
    params = {"name": "slow", "arguments": {"seconds": 60}, "_meta": {"progressToken": "p"}}
    connection, response = one.open(
        "POST", session, {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    )
    id, _ = next(events(response))
    os.kill(one.process.pid, signal.SIGKILL)
    connection.close()
    assert other.call(session, "kept") == "brass"
    connection, response = other.open("GET", session, **{"last-event-id": str(id)})
    (last,) = [line for line in response.read().splitlines() if line.startswith(b"data: {")]  # comments may be
    connection.close()
    answer = json.loads(last[6:])
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
