"""The test kit."""

# --8<-- [start:conversation]
from pathlib import Path

from ferrule.testing import load_conversation, run_conversation, runs_of

HERE = Path(__file__).parent


async def replay(app) -> int:
    """Every revision, on every carrier: direct, memory, bytes split everywhere, and ASGI."""
    conversation = load_conversation(HERE / "testing" / "weather.conv")
    runs = list(runs_of(conversation))
    for revision, carrier in runs:
        await run_conversation(conversation, app.lowlevel, revision=revision, carrier=carrier)
    return len(runs)


# --8<-- [end:conversation]


# --8<-- [start:clock]
from ferrule import Client, MCPServer
from ferrule.middleware import RateLimit
from ferrule.testing import ManualClock


async def an_hour_in_no_time() -> None:
    clock = ManualClock()
    app = MCPServer("limited", middleware=[RateLimit(1, per_s=3600, clock=clock)])
    app.add_tool(lambda: "pong", name="ping")
    async with Client(app) as client:
        await client.call_tool("ping")
        clock.advance(3600)
        await client.call_tool("ping")


# --8<-- [end:clock]


# --8<-- [start:connected]
from ferrule.testing import connected


async def raw(app) -> dict:
    """One request as it stands on the wire, without a client's help."""
    async with connected(app.lowlevel) as peer:
        await peer.send_raw_request(
            "initialize",
            {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
        )
        await peer.notify("notifications/initialized")
        return await peer.send_raw_request("tools/list")


# --8<-- [end:connected]


# --8<-- [start:pair]
import anyio

from ferrule.testing import pair


async def two_peers() -> dict:
    """Two dispatchers that talk to each other: for code that speaks JSON-RPC without a server."""
    one, other = pair()

    async def on_request(ctx, method, params):
        return {"method": method, "params": params}

    async def on_notify(ctx, method, params):
        pass

    async with anyio.create_task_group() as tasks:
        for side in (one, other):
            await tasks.start(side.run, on_request, on_notify)
        answer = await one.send_raw_request("ping", {"n": 1})
        tasks.cancel_scope.cancel()
    return answer


# --8<-- [end:pair]


# --8<-- [start:contract]
from ferrule.stores.blobs import BlobStore
from ferrule.testing.contracts import BlobStoreContract


class MyBlobs:
    """A store of your own …"""

    def __init__(self, clock) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[bytes, float]] = {}

    async def put(self, key: str, value: bytes, *, ttl_s: float) -> None:
        self._kept[key] = value, self._clock() + ttl_s

    async def get(self, key: str) -> bytes | None:
        value, end = self._kept.get(key, (None, 0.0))
        return value if self._clock() < end else None


class TestMyBlobs(BlobStoreContract):
    """… passes the contract, or pytest says where it does not."""

    def setup_method(self) -> None:
        self.clock = ManualClock()

    async def make(self) -> BlobStore:
        return MyBlobs(self.clock)

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)


# --8<-- [end:contract]


async def check(mode: str) -> None:
    """The kit does what the page says; a conversation that differs says where."""
    import pytest

    from ferrule.testing import ConversationMismatch

    app = MCPServer("weather")

    @app.tool
    def weather(city: str) -> dict[str, str | float]:
        return {"city": city, "celsius": 21.5}

    assert await replay(app) > 5
    await an_hour_in_no_time()
    assert [tool["name"] for tool in (await raw(app))["tools"]] == ["weather"]
    assert await two_peers() == {"method": "ping", "params": {"n": 1}}
    contract = TestMyBlobs()
    for name in dir(contract):
        if name.startswith("test_"):
            contract.setup_method()
            await getattr(contract, name)()
    app.remove_tool("weather")
    app.add_tool(lambda city: "rain", name="weather")
    with pytest.raises(ConversationMismatch, match=r"weather.conv:5"):
        await replay(app)
