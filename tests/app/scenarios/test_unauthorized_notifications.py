"""A client that may not read a resource gets no notifications of it, and no suggestions for hidden components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.auth.server.refusals import InsufficientScope
from ferrule.kernel import standard_methods
from ferrule.kernel.changes.bus import Event, ListenFilter
from ferrule.kernel.standard_methods import granted_filter
from ferrule.protocol.errors import InvalidParams, MCPError
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS
from ferrule.wire.types import SubscriptionFilter
from tests.app.support import V1125, From, ask, connection_of

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Somebody:
    """A principal."""

    id: str
    scopes: frozenset[str] = frozenset()


ADA = Somebody("ada", frozenset({"notes"}))
BOB = Somebody("bob")


def made() -> MCPServer:
    """A server with resources that only some clients may read."""
    app = MCPServer("x")

    @app.resource("data://open/{name}")
    async def open_(name: str) -> str:
        return name

    @app.resource("data://owned/{owner}", allow=lambda principal: principal == ADA)
    async def owned(owner: str) -> str:
        return owner

    @app.resource("data://noted/{name}", scopes="notes")
    async def noted(name: str) -> str:
        return name

    @app.resource("data://by-owner/{owner}/x", scopes=lambda principal, arguments: [f"of:{arguments['owner']}"])
    async def by_owner(owner: str) -> str:
        return owner

    @app.resource("data://broken", allow=lambda principal: bool(1 // 0))
    async def broken() -> str:
        return ""

    @app.prompt(scopes="notes")
    async def ask_for(name: str) -> str:
        return name

    @app.prompt(scopes=lambda principal, arguments: [f"of:{arguments['owner']}"])
    async def ask_owner(owner: str, name: str) -> str:
        return owner + name

    for prompt in (ask_for, ask_owner):
        app.complete(prompt, "name")(lambda typed: ["secret"])
    app.complete("data://noted/{name}", "name")(lambda typed: ["secret"])
    return app


HEARD = {
    "data://open/a": (True, True),
    "data://owned/ada": (True, False),
    "data://noted/a": (True, False),
    "data://by-owner/ada/x": (False, False),
    "data://broken": (False, False),
    "data://nobody": (True, True),  # no component serves it, so that no guard applies
}


@pytest.mark.parametrize("is_mounted", [False, True])
async def test_a_subscription_reports_only_resources_that_its_owner_may_read(is_mounted: bool) -> None:
    """Also one of a parent, which covers URIs that its owner could not even name."""
    app = made()
    if is_mounted:
        host = MCPServer("host")
        host.mount(app)
        app = host
    app.lowlevel.resource_updates = True
    for who, principal in enumerate((ADA, BOB)):
        connection = connection_of(V1125, listener=app.lowlevel.bus.listen(ListenFilter()))
        await ask(
            app, "resources/subscribe", {"uri": "data:/"}, version=V1125, connection=connection,
            dispatch=From(principal),
        )  # fmt: skip
        for uri in HEARD:
            app.notify_resource_updated(uri)
        heard = [event.topic for event in connection.listener.drain()]
        assert heard == [uri for uri, may in HEARD.items() if may[who]]


async def test_on_stdio_all_updates_are_delivered() -> None:
    """There the peer started this program."""
    app = made()
    app.lowlevel.resource_updates = True
    connection = connection_of(V1125, listener=app.lowlevel.bus.listen(ListenFilter()))
    await ask(app, "resources/subscribe", {"uri": "data:/"}, version=V1125, connection=connection)
    for uri in HEARD:
        app.lowlevel.bus.publish(Event.resource_updated(uri))
    assert [event.topic for event in connection.listener.drain()] == list(HEARD)


async def completed(app: MCPServer, ref: dict[str, Any], principal: Any, **context: str) -> list[str]:
    """Suggestions for ``name``."""
    params = {"ref": ref, "argument": {"name": "name", "value": ""}, "context": {"arguments": context}}
    return (await ask(app, "completion/complete", params, dispatch=From(principal)))["completion"]["values"]


async def test_suggestions_need_the_scopes_of_what_they_are_for() -> None:
    """A completer reads what the component reads. A scope by an argument counts once the argument is there."""
    app = made()
    for ref in ({"type": "ref/prompt", "name": "ask_for"}, {"type": "ref/resource", "uri": "data://noted/{name}"}):
        assert await completed(app, ref, ADA) == ["secret"]
        with pytest.raises(InsufficientScope):
            await completed(app, ref, BOB)
    by_owner = {"type": "ref/prompt", "name": "ask_owner"}
    assert await completed(app, by_owner, BOB) == []
    with pytest.raises(InsufficientScope):
        await completed(app, by_owner, BOB, owner="ada")
    assert await completed(app, by_owner, Somebody("ada", frozenset({"of:ada"})), owner="ada") == ["secret"]


async def test_what_a_connection_subscribes_to_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server remembers it for as long as the session lives, and the client chooses how much it is."""
    monkeypatch.setattr(standard_methods, "MAX_SUBSCRIBED", 3)
    monkeypatch.setattr(standard_methods, "MAX_ALL_SUBSCRIBED_CHARS", 15_000)
    app = made()
    app.add_resource("a:{name}", lambda name: name)
    app.lowlevel.resource_updates = True
    connection = connection_of(V1125, listener=app.lowlevel.bus.listen(ListenFilter()))

    async def subscribe(uri: str) -> None:
        await ask(app, "resources/subscribe", {"uri": uri}, version=V1125, connection=connection)

    for uri in ("a:1", "a:" + "2" * 7000, "a:1"):
        await subscribe(uri)
    for uri in ("a:" + "x" * 8000, "a:" + "x" * 7996):
        with pytest.raises(InvalidParams):
            await subscribe(uri)
    await subscribe("a:3")
    with pytest.raises(InvalidParams):
        await subscribe("a:4")
    await ask(app, "resources/unsubscribe", {"uri": "a:1"}, version=V1125, connection=connection)
    await subscribe("a:4")


@pytest.mark.parametrize(
    "uris",
    [
        [f"a:{number}" for number in range(10_001)],
        ["a:1"] * 10_001,
        ["a:" + "x" * 8000],
        [f"a:{number}" + "x" * 1000 for number in range(1100)],
    ],
    ids=["many", "one many times", "long", "long in all"],
)
async def test_what_a_modern_subscription_holds_is_bounded(uris: list[str]) -> None:
    """It is kept for as long as its stream is open, and the client chooses how much it is (200,000 held 25 MB)."""
    app = made()
    app.lowlevel.resource_updates = True
    with pytest.raises(InvalidParams):
        await ask(app, "subscriptions/listen", {"notifications": {"resourceSubscriptions": uris}})
    assert len(app.lowlevel.bus) == 0


async def test_what_all_subscriptions_of_a_server_hold_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many clients with an allowed number each would fill the memory all the same. What ends makes room."""
    monkeypatch.setattr(standard_methods, "MAX_SUBSCRIBED_OF_SERVER", 5)
    monkeypatch.setattr(standard_methods, "MAX_SUBSCRIBED_CHARS_OF_SERVER", 100)
    monkeypatch.setattr(standard_methods, "MAX_STREAMS", 3)
    app = made()
    app.add_resource("a:{name}", lambda name: name)
    bus = app.lowlevel.bus
    app.lowlevel.resource_updates = True
    other = bus.listen(ListenFilter(uris=["a:1", "a:2", "a:3", "a:4"]))
    connection = connection_of(V1125, listener=bus.listen(ListenFilter()))

    async def subscribe(uri: str) -> None:
        await ask(app, "resources/subscribe", {"uri": uri}, version=V1125, connection=connection)

    async def refused(wanted: dict[str, Any]) -> None:
        with pytest.raises(MCPError, match="Too many subscriptions") as error:
            await ask(app, "subscriptions/listen", {"notifications": wanted})
        assert (error.value.code, error.value.http_status) == (-32603, 503)  # type: ignore[attr-defined]

    await refused({"resourceSubscriptions": ["a:1", "a:2"]})
    with pytest.raises(MCPError, match="Too many subscriptions"):
        await subscribe("a:" + "x" * 90)
    await subscribe("a:5")
    await subscribe("a:5")
    with pytest.raises(MCPError, match="Too many subscriptions"):
        await subscribe("a:6")
    other.discard_uri("a:1")
    await subscribe("a:6")
    with bus.listen(ListenFilter(["tools"])):
        await refused({"toolsListChanged": True})
    other.end()
    await subscribe("a:" + "x" * 90)


async def test_a_modern_subscription_of_allowed_size_is_granted() -> None:
    """10,000 URIs of a hundred characters."""
    app = made()
    app.lowlevel.resource_updates = True
    uris = [f"a:{number}".ljust(100, "x") for number in range(10_000)]
    granted, heard = granted_filter(
        app.lowlevel, SubscriptionFilter(resource_subscriptions=uris), REVISIONS[LATEST_MODERN_VERSION]
    )
    assert (granted["resourceSubscriptions"], len(heard.uris)) == (uris, 10_000)


@pytest.mark.parametrize("depth", [0, 1])
async def test_only_a_resource_that_is_there_can_be_subscribed_to(depth: int) -> None:
    """Or what has one below it; what is disabled is not there."""
    app, prefix = made(), ""
    if depth:
        host = MCPServer("host")
        host.mount(app, prefix="p")
        app, prefix = host, "p/"
    connection = connection_of(V1125, listener=app.lowlevel.bus.listen(ListenFilter()))
    for uri in (f"data://{prefix}open/x", f"data://{prefix}open", f"data://{prefix}open/"):
        await ask(app, "resources/subscribe", {"uri": uri}, version=V1125, connection=connection)
    for uri in ("data://none", f"data://{prefix}openly/x/y", "other://x"):
        with pytest.raises(MCPError) as refused:
            await ask(app, "resources/subscribe", {"uri": uri}, version=V1125, connection=connection)
        assert (refused.value.code, refused.value.data) == (-32002, {"uri": uri})
    app.disable(resource=f"data://{prefix}open/{{name}}")
    with pytest.raises(MCPError):
        await ask(app, "resources/subscribe", {"uri": f"data://{prefix}open/y"}, version=V1125, connection=connection)
