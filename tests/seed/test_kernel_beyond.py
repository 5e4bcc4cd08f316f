"""The seven points where the kernel goes beyond the founding design."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.kernel import connection, dispatch, duplex, finish, runner, server, session, standard_methods
from ferrule.kernel.changes.bus import Event, SubscriptionBus
from ferrule.kernel.connection import Connection
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.legacy import change_forwarder as pump
from ferrule.kernel.runner import ServerRunner, serve_connection, serve_dual_era_loop, serve_loop
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import (
    CapabilityNotDeclared,
    InternalError,
    LocalError,
    MCPError,
    MissingRequiredClientCapability,
    NoBackChannel,
)
from ferrule.types import LATEST_MODERN_VERSION, InitializeResult, InputRequiredResult
from tests.kernel.harness import (
    DRIVERS,
    SUBSCRIPTION_ID,
    FakeDispatch,
    Peer,
    handshake,
    initialize,
    modern,
    note,
    request,
    result,
    serving,
    settled,
)
from tests.seed.test_kernel import CALL, legacy_runner, make_server, modern_runner

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Context = ServerRequestContext[Any]


# -- 1: initialize is an ordinary handler, and state never disagrees with the answer ----------------------------------


def rewriting(change: Any) -> Any:
    async def rewrite(ctx: Context, call_next: CallNext) -> Any:
        answer = await call_next(ctx)
        return change(answer) if ctx.method == "initialize" else answer

    return rewrite


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_rewritten_version_is_the_version_that_holds(driver: Any) -> None:
    """Middleware may answer another revision than the one that was negotiated."""
    seen: list[str] = []

    async def look(ctx: Context) -> Any:
        seen.append(ctx.protocol_version)
        return {"content": []}

    down = make_server(middleware=[rewriting(lambda answer: replace(answer, protocol_version="2025-03-26"))])
    down.add_request_handler("tools/call", look)
    async with serving(down, driver) as peer:
        assert (await handshake(peer, "2025-11-25"))["protocolVersion"] == "2025-03-26"
        await peer.result(request(1, "tools/call", CALL))
        peer.send([request(2, "ping")])
        assert (await peer.receive())["id"] == 2
    assert seen == ["2025-03-26"]


async def test_rewritten_params_are_the_ones_that_hold() -> None:
    """Result and committed state come from one negotiation."""

    async def rewrite(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method != "initialize":
            return await call_next(ctx)
        params = {**ctx.params, "protocolVersion": "2025-06-18", "capabilities": {"roots": {}}}
        return await call_next(replace(ctx, params=params))

    served, dctx = legacy_runner(make_server(middleware=[rewrite]), accepted=False)
    answer = await served.on_request(dctx, "initialize", initialize(version="2024-11-05")["params"])
    assert answer["protocolVersion"] == served.connection.protocol_version == "2025-06-18"
    assert served.connection.client_capabilities == {"roots": {}}
    assert served.connection.client_capabilities_raw == {"roots": {}}


async def test_a_veto_leaves_the_connection_as_it_was() -> None:
    """Before the handler or after it; a later attempt works."""
    vetoes = ["before", "after"]

    async def veto(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method != "initialize":
            return await call_next(ctx)
        if vetoes and vetoes[0] == "before":
            raise MCPError(vetoes.pop(0), code=77)
        answer = await call_next(ctx)
        if vetoes:
            raise MCPError(vetoes.pop(0), code=77)
        return answer

    served, dctx = legacy_runner(make_server(middleware=[veto]), accepted=False)
    params = initialize(version="2025-03-26")["params"]
    for _ in range(2):
        with pytest.raises(MCPError) as caught:
            await served.on_request(dctx, "initialize", params)
        assert caught.value.code == 77
        assert not served.connection.initialize_accepted
        assert served.connection.client_params is None
        await served.on_notify(dctx, "notifications/initialized", None)
        assert not served.connection.initialized.is_set()
    assert (await served.on_request(dctx, "initialize", params))["protocolVersion"] == "2025-03-26"
    assert served.connection.initialize_accepted


OWN_ANSWER = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "serverInfo": {"name": "mine", "version": "1"},
}


async def test_middleware_may_answer_initialize_alone() -> None:
    """The state then comes from its answer and the client's params; malformed params are still the client's fault."""

    async def answer(ctx: Context, call_next: CallNext) -> Any:
        return OWN_ANSWER if ctx.method == "initialize" else await call_next(ctx)

    served, dctx = legacy_runner(make_server(middleware=[answer]), accepted=False)
    with pytest.raises(MCPError) as caught:
        await served.on_request(dctx, "initialize", {"protocolVersion": 1})
    assert caught.value.code == -32602
    assert not served.connection.initialize_accepted
    assert await served.on_request(dctx, "initialize", initialize(sampling={})["params"]) == OWN_ANSWER
    assert served.connection.protocol_version == "2025-06-18"
    assert served.connection.client_capabilities == {"sampling": {}}


@pytest.mark.parametrize("version", [None, 5, "2099-01-01", LATEST_MODERN_VERSION])
async def test_an_answer_that_names_no_handshake_revision_is_not_given(version: Any) -> None:
    """Without the handshake the client gets an error at once, and not an unusable connection."""

    def change(answer: InitializeResult) -> dict[str, Any]:
        return {**OWN_ANSWER, "protocolVersion": version}

    served, dctx = legacy_runner(make_server(middleware=[rewriting(change)]), accepted=False)
    with pytest.raises(InternalError):
        await served.on_request(dctx, "initialize", initialize()["params"])
    assert not served.connection.initialize_accepted


async def test_a_server_may_replace_the_handler() -> None:
    """It is registered like any other, typed params and all."""

    async def own(ctx: Context) -> Any:
        assert ctx.params.client_info.name == "c"
        return OWN_ANSWER

    replaced = make_server()
    replaced.add_request_handler("initialize", own)
    served, dctx = legacy_runner(replaced, accepted=False)
    assert await served.on_request(dctx, "initialize", initialize()["params"]) == OWN_ANSWER
    assert served.connection.protocol_version == "2025-06-18"


async def test_nothing_else_can_pass_for_initialize() -> None:
    """A middleware that makes it of another request would get an answer that never holds."""

    async def disguise(ctx: Context, call_next: CallNext) -> Any:
        return await call_next(replace(ctx, method="initialize", params=initialize()["params"]))

    served, dctx = legacy_runner(make_server(middleware=[disguise]), accepted=False)
    with pytest.raises(MCPError) as caught:
        await served.on_request(dctx, "ping", None)
    assert caught.value.code == -32600
    assert not served.connection.initialize_accepted


# -- 2: no question during initialize ---------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
async def test_asking_while_initialize_is_handled_raises_at_once(driver: Any) -> None:
    """Through every door, from the handler's side and the middleware's; it cannot dead-lock; notifying works."""
    caught: list[LocalError] = []

    async def curious(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method != "initialize":
            return await call_next(ctx)
        its = ctx.session.connection
        doors = [
            lambda: ctx.session.list_roots(),
            lambda: ctx.session.ping(),
            lambda: ctx.session.send_request("roots/list"),
            lambda: ctx.session.dispatch.send_raw_request("roots/list", None),
            lambda: its.send_raw_request("roots/list", None),
            lambda: its.outbound.send_raw_request("roots/list", None),
        ]
        for ask in doors:
            try:
                await ask()
            except LocalError as error:
                caught.append(error)
        await ctx.session.log("info", "still here")
        return await call_next(ctx)

    async with serving(make_server(middleware=[curious]), driver) as peer:
        with anyio.fail_after(30):
            peer.send(initialize(0, roots={}))
            assert (await peer.receive())["method"] == "notifications/message"
            assert "result" in await peer.receive()
    assert len(caught) == 6
    assert all("initialize" in str(error) for error in caught)


async def test_asking_during_initialize_is_refused_in_process_too() -> None:
    """There it could work, and would then fail over a pipe."""
    caught: list[LocalError] = []

    async def curious(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method == "initialize":
            for ask in (ctx.session.dispatch.send_raw_request, ctx.session.connection.outbound.send_raw_request):
                try:
                    await ask("roots/list", None)
                except LocalError as error:
                    caught.append(error)
        return await call_next(ctx)

    ours, theirs = DirectDispatcher.pair()
    asked: list[str] = []

    async def answer(dctx: Any, method: str, params: Any) -> Any:
        asked.append(method)
        return {}

    async def nothing(*args: Any) -> None:
        return

    ours.serve(answer, nothing)
    async with anyio.create_task_group() as tasks:

        async def serve() -> None:
            server_ = make_server(middleware=[curious])
            await serve_connection(server_, theirs, connection=Connection.for_loop(theirs), lifespan_state=None)

        tasks.start_soon(serve)
        await ours.send_raw_request("initialize", initialize()["params"])
        ours.close()
    assert len(caught) == 2
    assert asked == []


# -- 3: eras side by side ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "module",
    [runner, server, session, connection, dispatch, duplex, finish, standard_methods, pump],
    ids=lambda m: m.__name__,
)
def test_the_kernel_compares_no_version(module: Any) -> None:
    """Eras are distinguished by the kind of connection, revisions by their tables: no version literal is used."""
    tree = ast.parse(inspect.getsource(module))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            assert not node.value.startswith(("2024-", "2025-", "2026-")), node.lineno
        if isinstance(node, ast.Compare) and any(
            isinstance(op, (ast.Eq, ast.NotEq, ast.Lt, ast.Gt)) for op in node.ops
        ):
            assert "version" not in ast.unparse(node), node.lineno


# -- 4: subscriptions/listen over a stream pair -----------------------------------------------------------------------

ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def listening(id: Any, **notifications: Any) -> dict[str, Any]:
    return modern(id, "subscriptions/listen", {"notifications": notifications})


def listen_server(**options: Any) -> Server[Any]:
    return make_server(list_changed=["tools", "prompts"], resource_updates=True, **options)


async def acknowledged(peer: Peer, id: Any, **notifications: Any) -> dict[str, Any]:
    """Listen and take the acknowledgement, which must be the first message."""
    peer.send(listening(id, **notifications))
    first = await peer.receive()
    assert first["method"] == "notifications/subscriptions/acknowledged"
    assert first["params"]["_meta"] == {SUBSCRIPTION_ID: id}
    return first["params"]["notifications"]


async def test_the_acknowledgement_comes_first_and_says_what_is_granted() -> None:
    """What the server does not have is left out; `false` and absent ask for nothing."""
    async with serving(listen_server(), serve_dual_era_loop) as peer:
        granted = await acknowledged(peer, "a", **ALL, resourceSubscriptions=["r://1", "r://1"])
        assert granted == {"toolsListChanged": True, "promptsListChanged": True, "resourceSubscriptions": ["r://1"]}
        assert await acknowledged(peer, 1, toolsListChanged=False) == {}
    async with serving(make_server(), serve_dual_era_loop) as peer:
        assert await acknowledged(peer, 1, **ALL, resourceSubscriptions=["r://1"]) == {}


async def test_only_what_was_asked_for_is_sent_under_the_id_of_its_listen() -> None:
    """Several at once, each with its filter and its id, whose JSON type is echoed."""
    bus = SubscriptionBus()
    async with serving(listen_server(bus=bus), serve_dual_era_loop) as peer:
        await acknowledged(peer, 1, toolsListChanged=True)
        await acknowledged(peer, "1", promptsListChanged=True, resourceSubscriptions=["r://1"])
        bus.publish(Event.list_changed("tools"))
        bus.publish(Event.list_changed("prompts"))
        bus.publish(Event.resource_updated("r://1/part"))
        bus.publish(Event.resource_updated("r://2"))
        bus.publish(Event.list_changed("resources"))
        told = [(m["method"], m["params"]) for m in await peer.waiting()]
        numbered = [entry for entry in told if type(entry[1]["_meta"][SUBSCRIPTION_ID]) is int]
        named = [entry for entry in told if entry not in numbered]
        assert numbered == [("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION_ID: 1}})]
        assert named == [
            ("notifications/prompts/list_changed", {"_meta": {SUBSCRIPTION_ID: "1"}}),
            ("notifications/resources/updated", {"uri": "r://1/part", "_meta": {SUBSCRIPTION_ID: "1"}}),
        ]
        assert await peer.result(modern(2, "tools/list")) is not None, "listening holds up nothing"


async def test_cancelling_ends_one_subscription_without_an_answer() -> None:
    """`notifications/cancelled` with the listen's id; the other listens on; nothing stays registered."""
    bus = SubscriptionBus()
    async with serving(listen_server(bus=bus), serve_dual_era_loop) as peer:
        await acknowledged(peer, 1, toolsListChanged=True)
        await acknowledged(peer, 2, toolsListChanged=True)
        peer.send(note("notifications/cancelled", {"requestId": 1}))
        await settled()
        assert len(bus) == 1
        bus.publish(Event.list_changed("tools"))
        assert [m["params"]["_meta"] for m in await peer.waiting()] == [{SUBSCRIPTION_ID: 2}]
    assert len(bus) == 0


async def test_the_server_ends_a_subscription_with_its_result() -> None:
    """Going down: what waits is delivered, then the listen request is answered with its id in `_meta`."""
    bus = SubscriptionBus()
    async with serving(listen_server(bus=bus), serve_dual_era_loop) as peer:
        await acknowledged(peer, 1, toolsListChanged=True)
        bus.publish(Event.list_changed("tools"))
        bus.end_all()
        changed, answer = await peer.waiting()
        assert changed["method"] == "notifications/tools/list_changed"
        assert answer["result"]["resultType"] == "complete"
        assert answer["result"]["_meta"][SUBSCRIPTION_ID] == 1
        assert len(bus) == 0


async def test_a_listener_that_cannot_keep_up_is_ended() -> None:
    """A client that subscribes again knows that it may have missed events."""
    bus = SubscriptionBus(max_events=3)
    async with serving(listen_server(bus=bus), serve_dual_era_loop, buffer=0) as peer:
        peer.send(listening(1, resourceSubscriptions=["r://"]))
        assert (await peer.receive())["method"] == "notifications/subscriptions/acknowledged"
        await settled()
        for number in range(10):
            bus.publish(Event.resource_updated(f"r://{number}"))
        assert len(bus) == 0
        told = [await peer.receive() for _ in range(4)]
        assert [message.get("params", {}).get("uri") for message in told] == ["r://0", "r://1", "r://2", None]
        assert told[3]["result"]["_meta"][SUBSCRIPTION_ID] == 1


@pytest.mark.parametrize("pipelined", [True, False])
async def test_the_end_of_input_ends_subscriptions_at_once(pipelined: bool) -> None:
    """The drain must not wait for them, also when they arrive together with the end."""
    async with serving(listen_server(), serve_dual_era_loop, drain_s=3600) as peer:
        peer.send(listening(1, toolsListChanged=True))
        if not pipelined:
            await peer.receive()
        await peer.finish()
        answer = (await peer.waiting())[-1]
        assert answer["result"]["_meta"][SUBSCRIPTION_ID] == 1


@pytest.mark.parametrize("driver", DRIVERS)
async def test_a_legacy_client_gets_changes_outside_requests(driver: Any) -> None:
    """From `initialized` on, list changes unasked, resources once it subscribed; the drain does not wait for it."""
    bus = SubscriptionBus()
    async with serving(listen_server(bus=bus), driver, drain_s=3600) as peer:
        await peer.result(initialize(0))
        bus.publish(Event.list_changed("tools"))
        peer.send(note("notifications/initialized"))
        assert await peer.waiting() == []
        bus.publish(Event.list_changed("tools"))
        assert await peer.receive() == note("notifications/tools/list_changed")
        bus.publish(Event.list_changed("resources"))
        bus.publish(Event.resource_updated("r://1"))
        assert await peer.waiting() == []
        assert await peer.result(request(1, "resources/subscribe", {"uri": "r://1"})) == {}
        bus.publish(Event.resource_updated("r://1"))
        assert await peer.receive() == note("notifications/resources/updated", {"uri": "r://1"})
        assert await peer.result(request(2, "resources/unsubscribe", {"uri": "r://1"})) == {}
        bus.publish(Event.resource_updated("r://1"))
        assert await peer.waiting() == []
    assert len(bus) == 0


# -- 5: result types of extensions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("as_struct", [True, False])
async def test_a_result_type_of_an_extension_needs_the_clients_declaration(as_struct: bool) -> None:
    """Of this very request; without it, and in the legacy era, the result is refused."""
    from ferrule.types import ToolResult

    async def later(ctx: Context) -> Any:
        return ToolResult(content=[], result_type="x-later") if as_struct else {"resultType": "x-later", "content": []}

    extended = make_server()
    extended.add_extension("example.com/later", result_types=["x-later"])
    extended.add_request_handler("tools/call", later)
    served, dctx = modern_runner(extended, extensions={"example.com/later": {}})
    assert (await served.on_request(dctx, "tools/call", CALL))["resultType"] == "x-later"
    for capabilities in ({}, {"extensions": {}}, {"extensions": {"example.com/other": {}}}):
        served, dctx = modern_runner(extended, **capabilities)
        with pytest.raises(InternalError):
            await served.on_request(dctx, "tools/call", CALL)
    served, dctx = legacy_runner(extended)
    served.connection.client_capabilities_raw = {"extensions": {"example.com/later": {}}}
    with pytest.raises(InternalError):
        await served.on_request(dctx, "tools/call", CALL)
    extended.result_types.clear()
    served, dctx = modern_runner(extended, extensions={"example.com/later": {}})
    with pytest.raises(InternalError):
        await served.on_request(dctx, "tools/call", CALL)


async def test_a_method_of_an_extension_needs_the_clients_declaration() -> None:
    """-32021 names the extension."""

    async def own(ctx: Context) -> Any:
        return {"done": True}

    extended = make_server()
    extended.add_extension("example.com/x")
    extended.add_request_handler("x/own", own, extension="example.com/x")
    served, dctx = modern_runner(extended)
    with pytest.raises(MissingRequiredClientCapability) as caught:
        await served.on_request(dctx, "x/own", {})
    assert caught.value.data == {"requiredCapabilities": {"extensions": {"example.com/x": {}}}}
    served, dctx = modern_runner(extended, extensions={"example.com/x": {}})
    assert (await served.on_request(dctx, "x/own", {}))["done"] is True


# -- 6: transport facts -----------------------------------------------------------------------------------------------


async def test_transport_facts_reach_handlers_as_a_typed_context() -> None:
    """Each message brings its own; no raw carrier metadata."""

    @dataclass(frozen=True, slots=True)
    class CarrierContext(TransportContext):
        bearer: str = ""

    seen: list[TransportContext] = []

    async def look(ctx: Context) -> Any:
        seen.append(ctx.transport)
        return {"content": []}

    looking = make_server()
    looking.add_request_handler("tools/call", look)
    looking.add_notification_handler("notifications/roots/list_changed", look)
    async with serving(looking, serve_loop) as peer:
        await handshake(peer)
        peer.transport = CarrierContext("carrier", bearer="A")
        await peer.result(request(1, "tools/call", CALL))
        peer.transport = CarrierContext("carrier", bearer="B")
        await peer.result(request(2, "tools/call", CALL))
        peer.send(note("notifications/roots/list_changed"))
        await settled()
    assert [facts.bearer for facts in seen if isinstance(facts, CarrierContext)] == ["A", "B", "B"]


# -- 7: -32021 --------------------------------------------------------------------------------------------------------

FORM = {"message": "m", "requestedSchema": {"type": "object", "properties": {}}}
PAGE = {"mode": "url", "message": "m", "url": "https://x.example"}
QUESTIONS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "elicit": ({"method": "elicitation/create", "params": FORM}, {"elicitation": {}}),
    "url": ({"method": "elicitation/create", "params": PAGE}, {"elicitation": {"url": {}}}),
    "sample": ({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}, {"sampling": {}}),
    "roots": ({"method": "roots/list"}, {"roots": {}}),
}


@pytest.mark.parametrize(("question", "required"), QUESTIONS.values(), ids=QUESTIONS)
@pytest.mark.parametrize("as_struct", [True, False])
async def test_a_question_that_the_client_did_not_declare_is_never_sent(
    question: dict[str, Any], required: dict[str, Any], as_struct: bool
) -> None:
    """-32021 with `data.requiredCapabilities`; declared, it goes out."""
    from ferrule.wire.codec import convert

    async def ask(ctx: Context) -> Any:
        raw = {"resultType": "input_required", "inputRequests": {"q": question}}
        return convert(raw, InputRequiredResult) if as_struct else raw

    asking = make_server()
    asking.add_request_handler("tools/call", ask)
    served, dctx = modern_runner(asking)
    with pytest.raises(MCPError) as caught:
        await served.on_request(dctx, "tools/call", CALL)
    assert caught.value.code == -32021
    assert caught.value.data == {"requiredCapabilities": required}
    served, dctx = modern_runner(asking, **required)
    answer = await served.on_request(dctx, "tools/call", CALL)
    assert answer["inputRequests"]["q"]["method"] == question["method"]


async def test_only_three_methods_may_ask() -> None:
    """2026-07-28, "Multi Round-Trip Requests"."""

    async def ask(ctx: Context) -> Any:
        return {"resultType": "input_required", "requestState": "s"}

    asking = make_server()
    for method in ("tools/call", "prompts/get", "resources/read", "tools/list", "completion/complete"):
        asking.add_request_handler(method, ask)
    served, dctx = modern_runner(asking)
    may = {"tools/call": CALL, "prompts/get": {"name": "p"}, "resources/read": {"uri": "a://b"}}
    for method, params in may.items():
        assert (await served.on_request(dctx, method, params))["resultType"] == "input_required"
    for method, params in {
        "tools/list": {},
        "completion/complete": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
    }.items():
        with pytest.raises(InternalError):
            await served.on_request(dctx, method, params)


async def test_a_modern_server_asks_nothing_on_any_channel() -> None:
    """An undeclared question is -32021 where the session checks it, a declared one has no channel; telling works."""
    caught: list[Exception] = []

    async def curious(ctx: Context) -> Any:
        its = ctx.session.connection
        assert not ctx.session.can_send_request
        assert not ctx.session.dispatch.can_send_request
        doors = [
            lambda: ctx.session.create_message({"messages": [], "maxTokens": 1}),
            lambda: ctx.session.list_roots(),
            lambda: ctx.session.dispatch.send_raw_request("roots/list", None),
            lambda: its.send_raw_request("roots/list", None),
            lambda: its.outbound.send_raw_request("roots/list", None),
        ]
        for ask in doors:
            try:
                await ask()
            except Exception as error:
                caught.append(error)
        await ctx.session.dispatch.notify("notifications/x")
        await its.notify("notifications/y")
        return {"content": []}

    asking = make_server()
    asking.add_request_handler("tools/call", curious)
    async with serving(asking, serve_dual_era_loop) as peer:
        peer.send(modern(1, "tools/call", CALL, roots={}))
        found = await peer.waiting()
        assert [message.get("method") for message in found] == ["notifications/x", "notifications/y", None]
    assert [type(error) for error in caught] == [MissingRequiredClientCapability, *[NoBackChannel] * 4]


async def test_in_the_legacy_era_the_handler_gets_our_own_error() -> None:
    """Nothing is sent; the error has no code and so cannot pass for the client's answer."""
    caught: list[Exception] = []

    async def curious(ctx: Context) -> Any:
        for ask in (
            ctx.session.list_roots(),
            ctx.session.create_message({"messages": [], "maxTokens": 1}),
            ctx.session.elicit("m", {"type": "object", "properties": {}}),
        ):
            try:
                await ask
            except Exception as error:
                caught.append(error)
        return {"roots": len((await ctx.session.list_roots()).roots)} if ctx.meta.get("again") else {"content": []}

    asking = make_server()
    asking.add_request_handler("tools/call", curious)
    async with serving(asking, serve_loop) as peer:
        await handshake(peer)
        assert await peer.result(request(1, "tools/call", CALL)) == {"content": []}
    assert [type(error) for error in caught] == [CapabilityNotDeclared] * 3
    assert not any(hasattr(error, "code") for error in caught)


async def test_a_declared_question_is_asked_and_answered() -> None:
    """The other half: legacy, declared, over the wire."""

    async def curious(ctx: Context) -> Any:
        roots = await ctx.session.list_roots()
        return {"content": [{"type": "text", "text": str(root.uri)} for root in roots.roots]}

    asking = make_server()
    asking.add_request_handler("tools/call", curious)
    async with serving(asking, serve_dual_era_loop) as peer:
        await handshake(peer, roots={})
        peer.send(request(1, "tools/call", CALL))
        asked = await peer.receive()
        assert asked["method"] == "roots/list"
        peer.send(result(asked["id"], {"roots": [{"uri": "file:///a"}]}))
        assert (await peer.receive())["result"] == {"content": [{"type": "text", "text": "file:///a"}]}


# -- middleware is generic over the lifespan state --------------------------------------------------------------------

TYPED = """
from typing import Any
from ferrule.kernel.server import CallNext, ServerMiddleware, ServerRequestContext
from ferrule.kernel.server import Server

class State:
    pass

async def plain(ctx: ServerRequestContext[object], call_next: CallNext) -> Any:
    return await call_next(ctx)

fits_any: ServerMiddleware[object] = plain
one: Server[State] = Server("a", middleware=[fits_any])
two: Server[dict[str, int]] = Server("b", middleware=[fits_any, plain])
"""


@pytest.mark.slow
def test_one_middleware_fits_any_server(tmp_path: Path, anyio_backend: str) -> None:
    """`ServerMiddleware[object]` type-checks for every lifespan state, in mypy's strict mode."""
    if anyio_backend != "asyncio":
        pytest.skip("types know no event loop")
    file = tmp_path / "typed.py"
    file.write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), str(file)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


async def test_a_runner_needs_no_loop_to_be_beyond() -> None:
    """The points hold for whatever drives the runner: here a fake way back."""
    dctx = FakeDispatch()
    served = ServerRunner(make_server(), Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dctx), None)
    with pytest.raises(NoBackChannel):
        await served.connection.send_raw_request("roots/list", None)
    assert dctx.asked == []
