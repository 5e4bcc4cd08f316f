"""Middleware of a client: what it sees, what it may change, and what it is told of sessions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.client.connection.connector import Session
from ferrule.client.settings import OutgoingRequest, SendRequest
from ferrule.protocol.errors import LocalError

pytestmark = pytest.mark.anyio


def server() -> MCPServer:
    app = MCPServer("x")

    @app.tool
    async def echo(text: str, ctx: Context) -> str:
        return f"{text} {ctx.request.meta.get('example.com/tag', '-')}"

    return app


class Watch:
    """A middleware that notes what it sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None]] = []
        self.ids: list[Any] = []
        self.sessions: list[tuple[str, str | None]] = []

    async def __call__(self, request: OutgoingRequest, call_next: SendRequest, /) -> Any:
        self.seen.append((request.method, request.version))
        return await call_next(replace(request, options={**request.options, "on_id": self.ids.append}))

    def session_opened(self, session: Session) -> None:
        self.sessions.append(("opened", None))

    def session_closed(self, session: Session, error: str | None) -> None:
        self.sessions.append(("closed", error))


@pytest.mark.parametrize(("mode", "first"), [("legacy", "initialize"), ("auto", "server/discover")])
async def test_it_sees_every_request_with_its_id(mode: str, first: str, any_backend: Any) -> None:
    """The handshake first, while no revision is settled; plain calls of tools, which leave the fast path."""
    watch = Watch()
    async with Client(server(), mode=mode, middleware=[watch]) as client:
        await client.call_tool("echo", {"text": "a"})
        assert client.call_counts.fast == 0
        version = client.protocol_version
    methods = [method for method, _ in watch.seen]
    assert (methods[0], "tools/call" in methods) == (first, True)
    assert watch.seen[0][1] is None
    assert ("tools/call", version) in watch.seen
    assert len(set(watch.ids)) == len(watch.seen)
    assert watch.sessions == [("opened", None), ("closed", None)]


async def test_the_first_is_the_outermost_and_may_change_what_goes_out() -> None:
    """A `_meta` of its own reaches the server's code."""
    order: list[str] = []

    async def outer(request: OutgoingRequest, call_next: SendRequest) -> Any:
        order.append("outer")
        meta = {**(request.params or {}).get("_meta", {}), "example.com/tag": "x"}
        return await call_next(replace(request, params={**(request.params or {}), "_meta": meta}))

    async def inner(request: OutgoingRequest, call_next: SendRequest) -> Any:
        order.append("inner")
        return await call_next(request)

    async with Client(server(), middleware=(outer, inner)) as client:
        order.clear()
        assert (await client.call_tool("echo", {"text": "a"})).text == "a x"
    assert order == ["outer", "inner"]


async def test_it_may_answer_or_refuse_in_place_of_the_server() -> None:
    """What it returns is the raw result; what it raises reaches the caller."""

    async def instead(request: OutgoingRequest, call_next: SendRequest) -> Any:
        if request.method != "tools/call":
            return await call_next(request)
        if (request.params or {})["arguments"]["text"] == "no":
            raise LocalError("not today")
        return {"content": [{"type": "text", "text": "mine"}]}

    async with Client(server(), middleware=[instead]) as client:
        assert (await client.call_tool("echo", {"text": "a"})).text == "mine"
        with pytest.raises(LocalError, match="not today"):
            await client.call_tool("echo", {"text": "no"})


async def test_a_middleware_may_come_and_go_while_the_client_is_connected() -> None:
    """The next call takes the fast path again."""
    watch = Watch()
    async with Client(server()) as client:
        client.middleware.append(watch)
        await client.call_tool("echo", {"text": "a"})
        assert (client.call_counts.fast, [method for method, _ in watch.seen]) == (0, ["tools/call"])
        client.middleware.clear()
        await client.call_tool("echo", {"text": "a"})
        assert client.call_counts.fast == 1
    assert watch.sessions == []
