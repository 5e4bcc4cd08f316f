"""The methods that every server answers by itself."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.kernel import standard_methods
from ferrule.kernel.changes.bus import Event, ListenFilter
from ferrule.kernel.connection import Connection
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import Server
from ferrule.kernel.standard_methods import granted_filter
from ferrule.protocol.errors import InvalidParams, MethodNotFound
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS, SubscriptionFilter
from ferrule.wire.codec import decode
from ferrule.wire.revisions import REVISIONS
from tests.kernel.harness import DRIVERS, FakeDispatch, handshake, initialize, request, serving, settled
from tests.seed.test_kernel import legacy_runner, modern_runner

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


async def test_discovery_lists_revisions_and_capabilities() -> None:
    """Modern versions only; identity in `_meta`, hints as for every cacheable result."""
    served, dctx = modern_runner(Server("s", version="1", instructions="Do."))
    assert await served.on_request(dctx, "server/discover", {}) == {
        "supportedVersions": list(MODERN_PROTOCOL_VERSIONS),
        "capabilities": {},
        "instructions": "Do.",
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}},
    }


async def test_the_log_level_is_remembered_per_connection() -> None:
    """And the method exists only where the server declares logging."""
    served, dctx = legacy_runner(Server("s", logging=True))
    assert await served.on_request(dctx, "logging/setLevel", {"level": "error"}) == {}
    assert served.connection.log_level == "error"
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, "logging/setLevel", {"level": "loud"})
    assert served.connection.log_level == "error"
    served, dctx = legacy_runner(Server("s"))
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, "logging/setLevel", {"level": "error"})


@pytest.mark.parametrize("method", ["resources/subscribe", "resources/unsubscribe"])
async def test_subscriptions_exist_only_where_the_server_has_them(method: str) -> None:
    """What is not advertised is not there."""
    served, dctx = legacy_runner(Server("s"))
    with pytest.raises(MethodNotFound):
        await served.on_request(dctx, method, {"uri": "r://1"})


async def test_a_connection_without_a_channel_refuses_to_subscribe() -> None:
    """A promise that nothing could keep; unsubscribing from nothing is fine."""
    served, dctx = legacy_runner(Server("s", resource_updates=True))
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, "resources/subscribe", {"uri": "r://1"})
    assert await served.on_request(dctx, "resources/unsubscribe", {"uri": "r://1"}) == {}


async def test_unsubscribing_from_what_was_never_subscribed_is_fine() -> None:
    """2025-11-25 defines no error for it."""
    async with serving(Server("s", resource_updates=True)) as peer:
        await handshake(peer)
        assert await peer.result(request(1, "resources/unsubscribe", {"uri": "r://1"})) == {}


async def test_any_of_them_may_be_replaced() -> None:
    """They are ordinary handlers."""
    server: Server[Any] = Server("s")

    async def own(ctx: Any) -> dict[str, Any]:
        return {"supportedVersions": ["own"], "capabilities": {}}

    server.add_request_handler("server/discover", own)
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    found = await ServerRunner(server, connection, None).on_request(FakeDispatch(), "server/discover", {})
    assert found["supportedVersions"] == ["own"]


@pytest.mark.parametrize("driver", DRIVERS)
async def test_what_arrives_before_the_handshake_is_refused_however_soon_that_follows(driver: Any) -> None:
    """Order of arrival decides, not the order in which tasks get their turn."""
    async with serving(Server("s"), driver) as peer:
        peer.send(request(1, "logging/setLevel", {"level": "info"}), request(2, "ping"), initialize(3), request(4, "x"))
        answers = {answer["id"]: answer for answer in await peer.waiting()}
    assert "came before initialize" in answers[1]["error"]["message"]
    assert answers[2]["result"] == {}
    assert "result" in answers[3]
    assert answers[4]["error"]["code"] == -32601


def publishing() -> Server[Any]:
    """A server whose resource ``r://secret`` only Ada may see."""
    server: Server[Any] = Server("s", resource_updates=True)
    server.resource_visibility = lambda principal: lambda uri: principal == "ada" or uri != "r://secret"
    return server


SENDERS = [
    (TransportContext("http", is_network=True, principal="ada"), ["r://open", "r://secret"]),
    (TransportContext("http", is_network=True, principal="bob"), ["r://open"]),
    (TransportContext("http", is_network=True), ["r://open"]),
    (TransportContext("stdio"), ["r://open", "r://secret"]),
]


@pytest.mark.parametrize(("transport", "heard"), SENDERS)
async def test_a_legacy_subscriber_gets_changes_of_what_it_may_see(
    transport: TransportContext, heard: list[str]
) -> None:
    """Off the network the peer owns the process and may see all."""
    server = publishing()
    served, dctx = legacy_runner(server)
    dctx.transport = transport
    with server.bus.listen(ListenFilter()) as listener:
        served.connection.listener = listener
        for uri in ("r://open", "r://secret"):
            assert await served.on_request(dctx, "resources/subscribe", {"uri": uri}) == {}
        for uri in ("r://open", "r://secret", "r://other"):
            server.bus.deliver(Event.resource_updated(uri))
        assert [event.params["uri"] for event in listener.drain()] == heard


@pytest.mark.parametrize(("transport", "heard"), SENDERS)
async def test_a_modern_listener_gets_changes_of_what_it_may_see(transport: TransportContext, heard: list[str]) -> None:
    """By the principal of its own request."""
    server = publishing()
    served, dctx = modern_runner(server)
    dctx.transport = transport
    wanted = {"notifications": {"resourceSubscriptions": ["r://open", "r://secret"]}}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(served.on_request, dctx, "subscriptions/listen", wanted)
        await settled()
        for uri in ("r://open", "r://secret", "r://other"):
            server.bus.deliver(Event.resource_updated(uri))
        await settled()
        tasks.cancel_scope.cancel()
    sent = [params["uri"] for method, params in dctx.told if method == "notifications/resources/updated"]
    assert sent == heard


async def test_a_listener_keeps_the_rule_it_was_given_first() -> None:
    """A later subscription over the same connection does not widen what it may see."""
    server = publishing()
    served, dctx = legacy_runner(server)
    with server.bus.listen(ListenFilter()) as listener:
        served.connection.listener = listener
        for principal in ("bob", "ada"):
            dctx.transport = TransportContext("http", is_network=True, principal=principal)
            await served.on_request(dctx, "resources/subscribe", {"uri": "r://secret"})
        server.bus.deliver(Event.resource_updated("r://secret"))
        assert listener.drain() == []


class Scoped:
    """A principal whose tokens have different scopes, as after a refresh."""

    def __init__(self, name: str, *scopes: str) -> None:
        self.name = name
        self.scopes = scopes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scoped) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


async def test_a_refreshed_token_changes_what_a_listener_may_see() -> None:
    """The scopes of the newest subscription hold: fewer after a refresh, more after a step-up."""
    server = publishing()
    server.resource_visibility = lambda principal: lambda uri: uri.removeprefix("r://") in principal.scopes
    served, dctx = legacy_runner(server)
    with server.bus.listen(ListenFilter()) as listener:
        served.connection.listener = listener
        for scopes, heard in ((("a", "b"), ["r://a", "r://b"]), (("a",), ["r://a"]), (("b", "a"), ["r://a", "r://b"])):
            dctx.transport = TransportContext("http", is_network=True, principal=Scoped("ann", *scopes))
            for uri in ("r://a", "r://b"):
                await served.on_request(dctx, "resources/subscribe", {"uri": uri})
            for uri in ("r://a", "r://b"):
                server.bus.deliver(Event.resource_updated(uri))
            assert [event.params["uri"] for event in listener.drain()] == heard


@pytest.mark.parametrize(("size", "is_taken"), [(60_000, True), (70_000, False)])
async def test_what_a_client_says_of_itself_is_bounded(size: int, is_taken: bool) -> None:
    """Its session keeps it, and there may be ten thousand sessions; after a refusal the client may try again."""
    server: Server[Any] = Server("s")
    dctx = FakeDispatch()
    served = ServerRunner(server, Connection.for_loop(dctx), None)
    said = {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {"experimental": {"x": {"y": "x" * size}}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    if is_taken:
        await served.on_request(dctx, "initialize", said)
        return
    with pytest.raises(InvalidParams, match="bytes"):
        await served.on_request(dctx, "initialize", said)
    await served.on_request(dctx, "initialize", {**said, "capabilities": {}})


@pytest.mark.parametrize(
    ("uris", "is_taken"),
    [
        ([f"r://{n}" for n in range(10_000)], True),
        ([f"r://{n}" for n in range(10_001)], False),
        (["r://" + "x" * 7996], True),
        (["r://" + "x" * 7997], False),
        (["r://" + f"{n:04}" + "x" * 7992 for n in range(131)], True),
        (["r://" + f"{n:04}" + "x" * 7992 for n in range(132)], False),
    ],
    ids=["10000", "10001", "8000 characters", "8001 characters", "1 MiB in all", "more in all"],
)
async def test_what_a_peer_has_remembered_is_bounded(uris: list[str], is_taken: bool) -> None:
    """In number, in the length of one and in that of all; the same for a connection and for one listener."""
    server: Server[Any] = Server("s", resource_updates=True)
    served, dctx = legacy_runner(server)
    revision = REVISIONS[LATEST_MODERN_VERSION]
    wanted = SubscriptionFilter(resource_subscriptions=uris)
    with server.bus.listen(ListenFilter()) as listener:
        served.connection.listener = listener
        if is_taken:
            assert granted_filter(server, wanted, revision)[0] == {"resourceSubscriptions": uris}
        else:
            with pytest.raises(InvalidParams):
                granted_filter(server, wanted, revision)
        if len(uris) > 1000:
            listener.set_uris(uris[:-1])
            uris = uris[-1:]
        try:
            for uri in uris:
                await served.on_request(dctx, "resources/subscribe", {"uri": uri})
        except InvalidParams:
            assert not is_taken
        else:
            assert is_taken


@pytest.mark.parametrize("is_encoded", [False, True])
async def test_a_listener_gets_events_that_the_revision_does_not_define(is_encoded: bool) -> None:
    """Those of extensions, also where notifications are encoded once for many listeners."""

    class Encoding(FakeDispatch):
        """Takes encoded messages, too."""

        async def send_encoded(self, message: bytes) -> None:
            found = decode(message)
            self.told.append((found["method"], found["params"]))

    server: Server[Any] = Server("s", list_changed=["tools"])
    server.add_request_handler("tools/list", server_lists_nothing)

    async def grant(ctx: Any, value: Any) -> tuple[Any, list[tuple[str, str]]]:
        return value, [("x/changed", value)]

    server.filter_grants["x"] = grant
    dctx = Encoding() if is_encoded else FakeDispatch()
    served = ServerRunner(server, Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dctx), None)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(
            served.on_request, dctx, "subscriptions/listen", {"notifications": {"toolsListChanged": True, "x": "a"}}
        )
        await settled()
        for event in (Event("x/changed", "a", {"n": 1}), Event("x/changed", "b"), Event.list_changed("tools")):
            server.bus.deliver(event)
        await settled()
        sent = list(dctx.told)
        for _ in range(30):
            server.bus.deliver(Event.list_changed("tools"))
            await settled()
        tasks.cancel_scope.cancel()
    assert len(dctx.told) == len(sent) + 30
    assert len(server.bus.encoded) == (16 if is_encoded else 0)  # the latest of them
    meta = {"io.modelcontextprotocol/subscriptionId": 1}
    assert sent == [
        (
            "notifications/subscriptions/acknowledged",
            {"notifications": {"toolsListChanged": True, "x": "a"}, "_meta": meta},
        ),
        ("x/changed", {"n": 1, "_meta": meta}),
        ("notifications/tools/list_changed", {"_meta": meta}),
    ]


async def server_lists_nothing(ctx: Any) -> dict[str, Any]:
    return {"tools": []}


@pytest.mark.parametrize(("uris", "chars"), [(3, 1000), (1000, 12)])
async def test_what_one_server_keeps_for_all_clients_is_bounded(
    uris: int, chars: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In number and in characters; for connections and for listeners."""
    monkeypatch.setattr(standard_methods, "MAX_SUBSCRIBED_OF_SERVER", uris)
    monkeypatch.setattr(standard_methods, "MAX_SUBSCRIBED_CHARS_OF_SERVER", chars)
    server: Server[Any] = Server("s", resource_updates=True)
    served, dctx = legacy_runner(server)
    revision = REVISIONS[LATEST_MODERN_VERSION]
    with server.bus.listen(ListenFilter()) as listener:
        served.connection.listener = listener
        for uri in ("a:/1", "a:/2"):
            await served.on_request(dctx, "resources/subscribe", {"uri": uri})
        granted, _ = granted_filter(server, SubscriptionFilter(resource_subscriptions=["a:/3"]), revision)
        assert granted == {"resourceSubscriptions": ["a:/3"]}
        for too_many in (["a:/3", "a:/4"], ["a:/3", ""]) if uris == 3 else (["a:/34"],):
            with pytest.raises(standard_methods.TooManySubscriptions):
                granted_filter(server, SubscriptionFilter(resource_subscriptions=too_many), revision)
        await served.on_request(dctx, "resources/subscribe", {"uri": "a:/3"})
        for uri in ("a:/4", "b:"):
            with pytest.raises(standard_methods.TooManySubscriptions):
                await served.on_request(dctx, "resources/subscribe", {"uri": uri})
        await served.on_request(dctx, "resources/subscribe", {"uri": "a:/3"})
