"""ferrule.transports.sse.server: the deprecated HTTP+SSE transport."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ferrule.transports.asgi import HttpContext, HttpOptions
from ferrule.transports.sse import server as sse
from ferrule.transports.sse.server import SseEndpoint
from tests.transports.asgi.support import Call, Steered, request, running

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

VERSION = "2024-11-05"


def endpoint(steered: Steered | None = None, **options: Any) -> SseEndpoint:
    return SseEndpoint((steered or Steered()).server, HttpOptions(**options))


class Session:
    """A client of one stream."""

    def __init__(self, app: SseEndpoint, stream: Call, address: str, headers: dict[str, str]) -> None:
        self.app, self.stream, self.headers = app, stream, headers
        self.path, _, self.query = address.partition("?")

    def messages(self) -> list[Any]:
        return [json.loads(event.data) for event in self.stream.answer.events if event.event == "message"]

    async def post(self, message: Any, **headers: str) -> Any:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        call = Call(
            self.app, path=self.path, headers={"content-type": "application/json", **self.headers, **headers}, body=body
        )
        call.scope["query_string"] = self.query.encode()
        return await call.run()

    async def ask(self, id: Any, method: str, params: dict[str, Any] | None = None) -> Any:
        assert (await self.post(request(id, method, params))).status == 202
        await self.stream.until(lambda _: any(message.get("id") == id for message in self.messages()))
        return next(message for message in self.messages() if message.get("id") == id)

    async def handshake(self, capabilities: dict[str, Any] | None = None) -> Any:
        client = {"name": "test", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": capabilities or {}, "clientInfo": client}
        answer = await self.ask("init", "initialize", params)
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer


@asynccontextmanager
async def connected(app: SseEndpoint, root_path: str = "", **headers: str) -> AsyncIterator[Session]:
    stream = Call(
        app, "GET", f"{root_path}/sse", headers={"accept": "text/event-stream", **headers}, root_path=root_path
    )
    async with running(stream):
        await stream.until(lambda answer: len(answer.events) > 0)
        first = stream.answer.events[0]
        assert first.event == "endpoint"
        yield Session(app, stream, first.data.decode(), headers)


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": arguments}


async def test_a_client_of_the_first_revision_is_served() -> None:
    """The stream names the endpoint for POST; answers come on the stream."""
    app = endpoint()
    async with connected(app) as session:
        answer = await session.handshake()
        assert answer["result"]["protocolVersion"] == VERSION
        answer = await session.ask(1, "tools/call", tool("echo", text="hi"))
        assert answer["result"]["content"] == [{"type": "text", "text": "hi"}]
        assert (await session.ask(2, "nothing/such"))["error"]["code"] == -32601
        assert len(app) == 1
    assert len(app) == 0


async def test_the_address_includes_the_mounting_prefix() -> None:
    """Clients resolve it against the stream's URL."""
    async with connected(endpoint(), root_path="/old server") as session:
        assert session.path == "/old%20server/messages"


async def test_calls_run_at_once_and_can_be_cancelled() -> None:
    """A slow call does not hold up the stream."""
    steered = Steered()
    async with connected(endpoint(steered)) as session:
        await session.handshake()
        await session.post(request(5, "tools/call", tool("slow")))
        await steered.started.wait()
        await session.ask(6, "tools/call", tool("echo", text="x"))
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        assert (await session.post(cancelled)).status == 202
        await session.ask(7, "ping")
        assert steered.log == ["cancelled", "finally"]
        assert all(message.get("id") != 5 for message in session.messages())


async def test_the_end_of_the_stream_ends_what_runs_on_it() -> None:
    """The stream is the session."""
    steered = Steered()
    app = endpoint(steered)
    async with connected(app) as session:
        await session.handshake()
        await session.post(request(5, "tools/call", tool("slow")))
        await steered.started.wait()
    assert steered.log == ["cancelled", "finally"]
    assert (await session.post(request(6, "ping"))).status == 404


async def test_the_client_can_be_asked() -> None:
    """Questions go on the stream, answers come by POST."""
    steered = Steered()

    async def ask(ctx: Any, arguments: Any) -> str:
        result = await ctx.session.send_request("roots/list")
        return str(result["roots"])

    steered.tool_roots = ask  # type: ignore[attr-defined]
    async with connected(endpoint(steered)) as session:
        await session.handshake({"roots": {}})
        await session.post(request(1, "tools/call", tool("roots")))
        await session.stream.until(lambda _: any("method" in message for message in session.messages()))
        question = next(message for message in session.messages() if "method" in message)
        await session.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
        await session.stream.until(lambda _: any(message.get("id") == 1 for message in session.messages()))


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [(b"NOT JSON", 400, -32700), (b"[]", 400, -32600), (b'{"jsonrpc":"2.0","id":9,"method":""}', 400, -32600)],
)
async def test_a_bad_message_is_refused_and_the_next_one_served(body: bytes, status: int, code: int) -> None:
    """By the POST that brought it."""
    async with connected(endpoint(max_body_bytes=1000)) as session:
        await session.handshake()
        answer = await session.post(body)
        assert (answer.status, answer.json["error"]["code"]) == (status, code)
        assert (await session.post(b"x" * 1001)).status == 413
        assert (await session.post(request(1, "ping"), **{"content-type": "text/plain"})).status == 415
        await session.ask(2, "ping")


async def test_each_path_has_its_verb() -> None:
    """405 with what there is; 404 elsewhere."""
    app = endpoint()
    for path, verb, status in (
        ("/sse", "POST", 405),
        ("/messages", "GET", 405),
        ("/", "GET", 404),
        ("/mcp", "POST", 404),
    ):
        assert (await Call(app, verb, path).run()).status == status
    assert (await Call(app, "GET", "/sse", headers={"accept": "application/json"}).run()).status == 406
    assert (await Call(app, "POST", "/messages").run()).status == 404


async def test_the_same_security_as_anywhere() -> None:
    """Origin, Host, and the principal of the session."""

    async def authenticate(context: HttpContext) -> str | None:
        return context.headers.get("authorization")

    app = endpoint(loopback=True, authenticate=authenticate)
    assert (await Call(app, "GET", "/sse", headers={"origin": "https://evil.example.com"}).run()).status == 403
    assert (await Call(app, "GET", "/sse", headers={"host": "evil.example.com"}).run()).status == 403
    async with connected(app, authorization="alice") as session:
        assert (await session.post(request(1, "ping"), authorization="bob")).status == 404
        assert (await session.post(request(1, "ping"))).status == 202


async def test_streams_are_bounded_in_number() -> None:
    """503 beyond."""
    app = endpoint(max_sessions=1)
    async with connected(app):
        answer = await Call(app, "GET", "/sse", headers={"accept": "text/event-stream"}).run()
        assert answer.status == 503
    async with connected(app):
        pass


async def test_a_shutdown_ends_the_streams() -> None:
    """So that the server can go down."""
    app = endpoint()
    async with connected(app) as session:
        await app.drain()
        await session.stream.until(lambda answer: answer.complete)
        with anyio.fail_after(30):
            while len(app):
                await anyio.sleep(0.001)


async def test_a_prefix_that_a_trusted_proxy_took_off_is_in_the_address() -> None:
    """The client posts to what the first event names, through the same proxy."""
    app = endpoint(trusted_proxies=["127.0.0.1"])
    async with connected(app, **{"x-forwarded-prefix": "/tools"}) as session:
        assert session.path == "/tools/messages"
    async with connected(endpoint(), **{"x-forwarded-prefix": "/tools"}) as session:
        assert session.path == "/messages"


async def test_an_answer_pauses_after_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The TypeScript client loses the progress that comes out of the same read as the answer."""
    steered = Steered()
    app = endpoint(steered)
    async with connected(app) as session:
        await session.handshake()
        held: list[list[Any]] = []

        async def hold(writer: Any) -> None:
            held.append([message.get("method") for message in session.messages()][1:])

        monkeypatch.setattr(sse._EventWriter, "wait_until_read", hold)
        await session.ask(1, "tools/call", {"name": "progress", "arguments": {}, "_meta": {"progressToken": "t"}})
        assert held == [["notifications/progress"] * 3]
        await session.ask(2, "tools/call", {"name": "echo", "arguments": {}, "_meta": {"progressToken": "t"}})
        assert len(held) == 1


async def test_a_websocket_is_closed() -> None:
    """As by `HttpEndpoint`: the host would report an application that returns without an answer as failed."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    await endpoint()({"type": "websocket", "path": "/sse", "headers": []}, receive, send)
    assert sent == [{"type": "websocket.close", "code": 1008}]
