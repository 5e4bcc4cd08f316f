"""An ASGI client without a socket, and a low-level server whose tools the tests can steer."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio

from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.transports.asgi.endpoint import HttpEndpoint
from ferrule.transports.asgi.options import HttpOptions
from ferrule.wire.sse import EventReader, ServerSentEvent

MODERN, LEGACY = "2026-07-28", "2025-11-25"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
ACCEPT = "application/json, text/event-stream"


@dataclass
class Answer:
    """One HTTP response as far as it has come."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    chunks: list[bytes] = field(default_factory=list)
    complete: bool = False
    sends: int = 0

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def events(self) -> list[ServerSentEvent]:
        return [event for event in EventReader(1 << 20).feed(self.body) if isinstance(event, ServerSentEvent)]

    @property
    def messages(self) -> list[Any]:
        """The JSON-RPC messages of a body or of a stream, in order."""
        if self.headers.get("content-type") == "text/event-stream":
            return [json.loads(event.data) for event in self.events if event.data]
        return [self.json] if self.body else []


class Call:
    """One HTTP request in progress against an ASGI callable."""

    def __init__(
        self,
        app: Any,
        method: str = "POST",
        path: str = "/mcp",
        *,
        headers: dict[str, str] | list[tuple[str, str]] | None = None,
        body: bytes | list[bytes] = b"",
        root_path: str = "",
        client: tuple[str, int] = ("127.0.0.1", 50000),
    ) -> None:
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers or [])
        self.app = app
        self.answer = Answer()
        self.scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "root_path": root_path,
            "scheme": "http",
            "query_string": b"",
            "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs],
            "client": client,
            "server": ("127.0.0.1", 8000),
        }
        self._parts = list(body) if isinstance(body, list) else [body]
        self._gone = anyio.Event()
        self._changed = anyio.Event()
        self.read_bytes = 0

    async def receive(self) -> dict[str, Any]:
        if self._parts:
            part = self._parts.pop(0)
            self.read_bytes += len(part)
            return {"type": "http.request", "body": part, "more_body": bool(self._parts)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        answer = self.answer
        answer.sends += 1
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            answer.chunks.append(message.get("body", b""))
            if not message.get("more_body", False):
                answer.complete = True
                self._gone.set()  # as servers do: after the response there is nothing more to receive
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    def disconnect(self) -> None:
        """The client goes away."""
        self._gone.set()

    async def run(self) -> Answer:
        await self.app(self.scope, self.receive, self.send)
        return self.answer

    async def until(self, condition: Any) -> Answer:
        """Wait until the answer satisfies a condition."""
        with anyio.fail_after(30):
            while not condition(self.answer):
                await self._changed.wait()
        return self.answer

    async def message_count(self, count: int) -> list[Any]:
        """Wait for so many messages on the stream."""
        answer = await self.until(lambda a: len(a.messages) >= count)
        return answer.messages


@asynccontextmanager
async def running(call: Call) -> AsyncIterator[Call]:
    """A call in a task of its own; at the end the client disconnects and the call is waited for."""
    done = anyio.Event()

    async def run() -> None:
        try:
            await call.run()
        finally:
            done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield call
        call.disconnect()
        with anyio.fail_after(30):
            await done.wait()


def request(id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    """A legacy request."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "id": id, "method": method}
    if params is not None:
        message["params"] = params
    return message


def modern(id: Any, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    """A modern request with its envelope."""
    return request(id, method, {**(params or {}), "_meta": {**META, **meta}})


def modern_headers(message: dict[str, Any], **changes: str | None) -> dict[str, str]:
    """The headers that go with a modern message; ``None`` leaves one out."""
    headers: dict[str, str | None] = {
        "host": "127.0.0.1:8000",
        "content-type": "application/json",
        "accept": ACCEPT,
        "mcp-protocol-version": MODERN,
        "mcp-method": message["method"],
    }
    params = message.get("params", {})
    if message["method"] in ("tools/call", "prompts/get"):
        headers["mcp-name"] = params["name"]
    elif message["method"] == "resources/read":
        headers["mcp-name"] = params["uri"]
    headers.update({name.replace("_", "-"): value for name, value in changes.items()})
    return {name: value for name, value in headers.items() if value is not None}


def legacy_headers(session_id: str | None = None, version: str | None = LEGACY, **changes: str) -> dict[str, str]:
    """The headers of a legacy POST."""
    headers = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": ACCEPT}
    if session_id is not None:
        headers["mcp-session-id"] = session_id
    if version is not None:
        headers["mcp-protocol-version"] = version
    return {**headers, **{name.replace("_", "-"): value for name, value in changes.items()}}


def modern_call(app: Any, message: dict[str, Any], **changes: str | None) -> Call:
    """A modern POST."""
    return Call(app, headers=modern_headers(message, **changes), body=json.dumps(message).encode())


def legacy_call(app: Any, message: Any, session_id: str | None = None, **changes: Any) -> Call:
    """A legacy POST."""
    return Call(app, headers=legacy_headers(session_id, **changes), body=json.dumps(message).encode())


def get_call(app: Any, session_id: str | None, **changes: str) -> Call:
    """A legacy GET for a stream."""
    headers = legacy_headers(session_id, **changes)
    del headers["content-type"]
    return Call(app, "GET", headers={"accept": "text/event-stream", **headers})


async def open_session(
    app: Any, version: str = LEGACY, capabilities: dict[str, Any] | None = None, **headers: str
) -> str:
    """The legacy handshake; returns the session id."""
    params = {
        "protocolVersion": version,
        "capabilities": capabilities or {},
        "clientInfo": {"name": "test", "version": "1"},
    }
    answer = await legacy_call(app, request("init", "initialize", params), version=None, **headers).run()
    assert answer.status == 200, answer.body
    session_id = answer.headers["mcp-session-id"]
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = await legacy_call(app, initialized, session_id, version=version, **headers).run()
    assert answer.status == 202, answer.body
    return session_id


class Steered:
    """A low-level server whose slow tools wait for the test.

    Tools: ``echo(text)``; ``slow`` waits for ``release``; ``speak`` sends a log message, waits for ``release``, sends
    another, answers; ``progress`` reports three times; ``ask`` elicits and returns the action; ``fail``; ``stubborn``
    swallows cancellation; ``close`` closes its stream, waits, answers; ``headers`` returns a request header.
    """

    def __init__(self, **server_options: Any) -> None:
        self.server: Server[Any] = Server("steered", version="1", logging=True, **server_options)
        self.server.add_request_handler("tools/list", self.list_tools)
        self.server.add_request_handler("tools/call", self.call_tool)
        self.started = anyio.Event()
        self.release = anyio.Event()
        self.log: list[str] = []

    def endpoint(self, **options: Any) -> HttpEndpoint:
        return HttpEndpoint(self.server, HttpOptions(**{"disconnect_grace_s": 0.0, **options}))

    async def list_tools(self, ctx: ServerRequestContext[Any]) -> Any:
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}

    async def call_tool(self, ctx: ServerRequestContext[Any]) -> Any:
        name = ctx.params.name
        arguments = ctx.params.arguments or {}
        text = await getattr(self, f"tool_{name}")(ctx, arguments)
        return {"content": [{"type": "text", "text": text}]}

    async def tool_echo(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        return str(arguments.get("text", ""))

    async def tool_slow(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        self.started.set()
        try:
            await self.release.wait()
        except BaseException:
            self.log.append("cancelled")
            raise
        finally:
            self.log.append("finally")
        return str(arguments.get("text", "slow"))

    async def tool_speak(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        await ctx.session.dispatch.notify("notifications/message", {"level": "info", "data": "one"})
        self.started.set()
        try:
            await self.release.wait()
            await ctx.session.dispatch.notify("notifications/message", {"level": "info", "data": "two"})
        finally:
            self.log.append("finally")
        return "spoken"

    async def tool_progress(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        for value in (0, 50, 100):
            await ctx.session.progress(value, 100)
        return "done"

    async def tool_ask(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        result = await ctx.session.send_request(
            "elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        )
        return str(result["action"])

    async def tool_fail(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        raise ValueError("a secret of the inside")

    async def tool_stubborn(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        self.started.set()
        while not self.release.is_set():
            try:
                with anyio.CancelScope(shield=True):
                    await self.release.wait()
            except BaseException as exc:
                self.log.append(type(exc).__name__)
        self.log.append("ended")
        return "stubborn"

    async def tool_close(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        await ctx.session.dispatch.close_stream(arguments.get("retry_ms"))  # type: ignore[attr-defined]
        self.started.set()
        await self.release.wait()
        return "after the close"

    async def tool_headers(self, ctx: ServerRequestContext[Any], arguments: Any) -> str:
        return str(ctx.transport.headers.get(arguments["header"]))  # type: ignore[attr-defined]


def tool(name: str, id: Any = 1, meta: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": name, "arguments": arguments}
    if meta is not None:
        params["_meta"] = meta
    return request(id, "tools/call", params)


def cancelled(id: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
