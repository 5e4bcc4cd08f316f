"""ferrule.testing: a pair of dispatchers, and a client connected to a server in the same process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

import ferrule.testing
from ferrule.kernel.dispatch import DispatchContext
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.errors import ConnectionClosed, RemoteError
from ferrule.testing import connected, pair

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_a_pair_talks_both_ways() -> None:
    """Two dispatchers without a wire: each sends a request and answers one."""
    one, other = pair()

    async def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        return {"method": method, "params": params}

    async def on_notify(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        return

    async with anyio.create_task_group() as tasks:
        for side in (one, other):
            await tasks.start(
                lambda *, task_status, side=side: side.run(on_request, on_notify, task_status=task_status)
            )
        assert await one.send_raw_request("a", {"x": 1}) == {"method": "a", "params": {"x": 1}}
        assert await other.send_raw_request("b", None) == {"method": "b", "params": None}
        tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_a_connected_client_is_served_and_the_server_ends_with_it() -> None:
    """The lifespan is entered and left; afterwards calls fail at once."""
    life: list[str] = []

    def lifespan(_: Server[Any]) -> Any:
        class Life:
            async def __aenter__(self) -> dict[str, Any]:
                life.append("in")
                return {}

            async def __aexit__(self, *_: object) -> None:
                life.append("out")

        return Life()

    server: Server[Any] = Server("s", version="1", lifespan=lifespan)

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        await ctx.session.progress(1)
        return {"content": []}

    server.add_request_handler("tools/call", call)
    told: list[str] = []

    async def on_notify(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        told.append(method)

    async with connected(server, on_notify=on_notify) as client:
        result = await client.send_raw_request("tools/call", {"name": "x", "_meta": {**META, "progressToken": "t"}})
        assert result["resultType"] == "complete"
        with pytest.raises(RemoteError) as caught:
            await client.send_raw_request("no/such", {"_meta": META})
        assert caught.value.code == -32601
        assert life == ["in"]
    assert life == ["in", "out"]
    assert told == ["notifications/progress"]
    with pytest.raises(ConnectionClosed):
        await client.send_raw_request("tools/call", {"name": "x", "_meta": META})


@pytest.mark.anyio
async def test_a_question_to_a_connected_client_is_refused_unless_it_answers() -> None:
    """The default client has no handler."""
    server: Server[Any] = Server("s", version="1")

    async def call(ctx: ServerRequestContext[Any]) -> Any:
        roots = await ctx.session.list_roots()
        return {"content": [{"type": "text", "text": str(len(roots.roots))}]}

    server.add_request_handler("tools/call", call)
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }

    async def on_request(dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        return {"roots": [{"uri": "file:///a"}]}

    async with connected(server) as client:
        await client.send_raw_request("initialize", hello)
        with pytest.raises(RemoteError) as caught:
            await client.send_raw_request("tools/call", {"name": "x"})
        assert caught.value.code == -32601
    async with connected(server, on_request) as client:
        await client.send_raw_request("initialize", hello)
        assert (await client.send_raw_request("tools/call", {"name": "x"}))["content"][0]["text"] == "1"


def test_the_kit_names_what_it_has() -> None:
    """Names load when they are used; each listed one is there, and no other."""
    for name in ferrule.testing.__all__:
        assert getattr(ferrule.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such"):
        _ = ferrule.testing.no_such


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_a_failure_inside_connected_is_raised_as_it_is() -> None:
    """A test that fails in there shows its own assertion, not a group of exceptions around it."""
    with pytest.raises(KeyError, match="mine"):
        async with connected(Server("x")):
            raise KeyError("mine")
