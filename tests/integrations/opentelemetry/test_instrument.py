"""One call for servers, clients, gateways and groups."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from ferrule import Client, ClientGroup, MCPServer, Secret, proxy
from ferrule.client.gateway.gateway import Gateway
from ferrule.integrations.opentelemetry import Tracing, instrument
from tests.integrations.opentelemetry.support import Telemetry, parent_of

pytestmark = pytest.mark.anyio

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry()


def foundry(**options: Any) -> MCPServer:
    app = MCPServer("foundry", **options)

    @app.tool
    async def melt(metal: str) -> str:
        return f"{metal} is liquid"

    return app


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_gateway_is_a_server_and_a_client(telemetry: Telemetry, mode: str) -> None:
    """Four spans in a line: sent, received and sent again by the gateway, received."""
    gateway = instrument(Gateway({"foundry": instrument(foundry(), **telemetry.providers)}), **telemetry.providers)
    async with instrument(Client(gateway, mode=mode), **telemetry.providers) as client:
        await client.list_tools()
        await client.call_tool("foundry_melt", {"metal": "brass"})
    span = telemetry.span("tools/call melt", "SERVER")
    line: list[tuple[str, str]] = []
    while span is not None:
        line.append((span.name, span.kind.name))
        span = parent_of(span, telemetry.spans())
    assert line == [
        ("tools/call melt", "SERVER"),
        ("tools/call melt", "CLIENT"),
        ("tools/call foundry_melt", "SERVER"),
        ("tools/call foundry_melt", "CLIENT"),
    ]
    assert telemetry.points("mcp.client.operation.duration")


async def test_a_proxy_is_both_as_well(telemetry: Telemetry) -> None:
    """The server that `proxy` makes sends what it receives."""
    front = instrument(proxy(foundry()), **telemetry.providers)
    async with Client(front) as client:
        await client.call_tool("melt", {"metal": "brass"})
    assert {span.kind.name for span in telemetry.spans("tools/call melt")} == {"SERVER", "CLIENT"}


async def test_a_group_has_it_on_each_of_its_clients(telemetry: Telemetry) -> None:
    async with instrument(ClientGroup({"a": foundry(), "b": foundry()}), **telemetry.providers) as group:
        await group.call_tool("a_melt", {"metal": "brass"})
        await group.call_tool("b_melt", {"metal": "brass"})
    assert [span.kind.name for span in telemetry.spans("tools/call melt")] == ["CLIENT", "CLIENT"]


async def test_a_connected_client_can_be_instrumented(telemetry: Telemetry) -> None:
    """Its next call has a span, although calls of this tool took the fast path before."""
    async with Client(foundry()) as client:
        await client.call_tool("melt", {"metal": "brass"})
        assert client.call_counts.fast == 1
        instrument(client, **telemetry.providers)
        await client.call_tool("melt", {"metal": "brass"})
    assert len(telemetry.spans("tools/call melt")) == 1


async def test_a_server_keeps_the_fast_path(telemetry: Telemetry) -> None:
    """Without payloads: these are not decoded there."""
    app = instrument(foundry(), **telemetry.providers)
    async with Client(app) as client:
        await client.call_tool("melt", {"metal": "brass"})
    assert (app.tools.fast_calls, len(telemetry.spans("tools/call melt"))) == (1, 1)
    app = instrument(foundry(), payloads=True, **telemetry.providers)
    async with Client(app) as client:
        await client.call_tool("melt", {"metal": "brass"})
    assert app.tools.fast_calls == 0
    assert telemetry.spans("tools/call melt")[1].attributes["gen_ai.tool.call.arguments"] == '{"metal":"brass"}'


@pytest.mark.parametrize("is_client", [False, True])
async def test_payloads_have_no_secret_arguments(telemetry: Telemetry, is_client: bool) -> None:
    """By the schema, whatever their names: of the component in a server, of the list in a client."""
    app = foundry()

    @app.tool
    def sign_in(word: Secret[str], user: str) -> str:
        return user

    client = Client(app)
    instrument(client if is_client else app, payloads=True, **telemetry.providers)
    async with client:
        if is_client:
            await client.list_tools()
        await client.call_tool("sign_in", {"word": "hunter2", "user": "ada"})
    (span,) = telemetry.spans("tools/call sign_in")
    assert json.loads(span.attributes["gen_ai.tool.call.arguments"]) == {"word": "(masked)", "user": "ada"}


def test_it_is_the_outermost_and_only_once(telemetry: Telemetry) -> None:
    """What another middleware refuses is recorded, and no request has two spans."""

    async def other(ctx: Any, call_next: Any) -> Any:
        return await call_next(ctx)

    app = foundry(middleware=[other])
    assert instrument(app, **telemetry.providers) is app
    assert isinstance(app.lowlevel.middleware[0], Tracing)
    assert app.lowlevel.middleware[-1] is other
    with pytest.raises(ValueError, match="already"):
        instrument(app, **telemetry.providers)
    client = instrument(Client(app), **telemetry.providers)
    with pytest.raises(ValueError, match="already"):
        instrument(client, **telemetry.providers)
    with pytest.raises(TypeError, match="not str"):
        instrument("http://127.0.0.1/mcp")
