"""The named parts of the kernel and of the dispatchers, row by row, and each rule of the kernel."""

from __future__ import annotations

import dataclasses
import inspect
import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from ferrule.kernel import direct, dispatch, duplex, runner
from ferrule.kernel.concurrency.spawner import STATUS_IGNORED
from ferrule.kernel.connection import Connection
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import Dispatcher, TransportContext
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.runner import (
    CallNext,
    HandlerResult,
    ServerRunner,
    aclose_shielded,
    modern_on_request,
    serve_connection,
    serve_dual_era_loop,
    serve_loop,
    serve_one,
)
from ferrule.kernel.server import InitializationOptions, Server, ServerRequestContext
from ferrule.kernel.session import ServerSession
from ferrule.protocol.caching import CacheHint
from ferrule.protocol.errors import MCPError, MethodNotFound, RemoteError
from ferrule.types import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_MODERN_VERSION,
    MODERN_PROTOCOL_VERSIONS,
    Implementation,
    ListToolsResult,
    ServerCapabilities,
    ToolContentBlock,
    ToolResult,
)
from tests.kernel.harness import (
    DRIVERS,
    ENVELOPE,
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

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Context = ServerRequestContext[Any]
EMPTY = inspect.Parameter.empty
POSITIONAL, KEYWORD = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY


def make_server(*, identity: Implementation | None = None, **options: Any) -> Server[Any]:
    """A server with one tool that returns its arguments."""
    server: Server[Any] = Server(Implementation("s", "1") if identity is None else identity, **options)

    async def call(ctx: Context) -> ToolResult:
        return ToolResult(content=[ToolContentBlock("text", f"{ctx.params.name} {ctx.params.arguments}")])

    async def list_tools(ctx: Context) -> ListToolsResult:
        return ListToolsResult(tools=[])

    server.add_request_handler("tools/call", call)
    server.add_request_handler("tools/list", list_tools)
    return server


def legacy_runner(server: Server[Any], *, accepted: bool = True) -> tuple[ServerRunner[Any], FakeDispatch]:
    """A runner on a legacy connection, after its handshake or before."""
    dctx = FakeDispatch()
    connection = Connection.for_loop(dctx)
    connection.initialize_accepted = accepted
    if accepted:
        connection.initialized.set()
    return ServerRunner(server, connection, None), dctx


def modern_runner(server: Server[Any], **capabilities: Any) -> tuple[ServerRunner[Any], FakeDispatch]:
    """A runner on a modern connection."""
    dctx = FakeDispatch()
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, capabilities, outbound=dctx)
    return ServerRunner(server, connection, None), dctx


CALL = {"name": "t", "arguments": {"a": 1}}
CALL_TEXT = {"type": "text", "text": "t {'a': 1}"}


# -- signatures -------------------------------------------------------------------------------------------------------

LOOP = [
    ("server", POSITIONAL, EMPTY),
    ("read_stream", POSITIONAL, EMPTY),
    ("write_stream", POSITIONAL, EMPTY),
    ("lifespan_state", KEYWORD, EMPTY),
    ("session_id", KEYWORD, None),
    ("init_options", KEYWORD, None),
    ("raise_exceptions", KEYWORD, False),
]

SIGNATURES: list[tuple[Callable[..., Any], list[tuple[str, Any, Any]]]] = [
    (
        ServerRunner.__init__,
        [
            ("self", POSITIONAL, EMPTY),
            ("server", POSITIONAL, EMPTY),
            ("connection", POSITIONAL, EMPTY),
            ("lifespan_state", POSITIONAL, EMPTY),
            ("init_options", KEYWORD, None),
        ],
    ),
    (aclose_shielded, [("connection", POSITIONAL, EMPTY)]),
    (
        serve_connection,
        [
            ("server", POSITIONAL, EMPTY),
            ("dispatcher", POSITIONAL, EMPTY),
            ("connection", KEYWORD, EMPTY),
            ("lifespan_state", KEYWORD, EMPTY),
            ("init_options", KEYWORD, None),
            ("task_status", KEYWORD, STATUS_IGNORED),
        ],
    ),
    (serve_loop, LOOP),
    (serve_dual_era_loop, LOOP),
    (
        serve_one,
        [
            ("server", POSITIONAL, EMPTY),
            ("dctx", POSITIONAL, EMPTY),
            ("method", POSITIONAL, EMPTY),
            ("params", POSITIONAL, EMPTY),
            ("connection", KEYWORD, EMPTY),
            ("lifespan_state", KEYWORD, EMPTY),
        ],
    ),
    (modern_on_request, [("server", POSITIONAL, EMPTY), ("lifespan_state", POSITIONAL, EMPTY)]),
]


@pytest.mark.parametrize(("function", "expected"), SIGNATURES, ids=lambda value: getattr(value, "__qualname__", ""))
def test_the_drivers_have_the_listed_signatures(
    function: Callable[..., Any], expected: list[tuple[str, Any, Any]]
) -> None:
    """Names, order, kinds and defaults: programs from the founding documents call them as they are."""
    found = inspect.signature(function).parameters.values()
    assert [(parameter.name, parameter.kind, parameter.default) for parameter in found] == expected


@pytest.mark.parametrize("name", ["on_request", "on_notify", "handle_request"])
def test_the_runner_methods_take_dctx_method_and_params(name: str) -> None:
    """They are what a dispatcher calls."""
    parameters = inspect.signature(getattr(ServerRunner, name)).parameters.values()
    assert [(p.name, p.kind, p.default) for p in parameters] == [
        (name, POSITIONAL, EMPTY) for name in ("self", "dctx", "method", "params")
    ]


@pytest.mark.parametrize("function", [serve_connection, serve_loop, serve_dual_era_loop, serve_one, aclose_shielded])
def test_the_drivers_are_coroutine_functions(function: Any) -> None:
    """`task_group.start_soon(serve_loop, …)` works."""
    assert inspect.iscoroutinefunction(function)


def test_every_listed_name_is_importable_from_its_module() -> None:
    """The modules are part of the contract."""
    for module, names in {
        runner: "ServerRunner ServerMiddleware CallNext HandlerResult aclose_shielded serve_connection serve_loop"
        " serve_dual_era_loop serve_one modern_on_request",
        dispatch: "Dispatcher DispatchContext TransportContext OnRequest OnNotify",
        duplex: "JSONRPCDispatcher",
        direct: "DirectDispatcher",
    }.items():
        for name in names.split():
            assert hasattr(module, name), (module, name)
            assert name in module.__all__, (module, name)
    assert CallNext is not None
    assert HandlerResult is not None


# -- ServerRunner -----------------------------------------------------------------------------------------------------


async def test_on_request_gives_a_dict_and_handle_request_what_encodes() -> None:
    """Our own transports skip the dict."""
    served, dctx = modern_runner(make_server())
    answer = await served.on_request(dctx, "tools/call", CALL)
    assert type(answer) is dict
    assert answer["content"] == [CALL_TEXT]
    kept = await served.handle_request(dctx, "tools/call", CALL)
    assert isinstance(kept, ToolResult)
    assert kept.content == [ToolContentBlock("text", "t {'a': 1}")]


async def test_on_notify_reaches_the_handler_with_typed_params() -> None:
    """`ctx.request_id is None` marks it."""
    server = make_server()
    seen: list[Context] = []

    async def hear(ctx: Context) -> None:
        seen.append(ctx)

    server.add_notification_handler("notifications/roots/list_changed", hear)
    served, dctx = legacy_runner(server)
    dctx.request_id = None
    assert await served.on_notify(dctx, "notifications/roots/list_changed", None) is None
    assert [ctx.request_id for ctx in seen] == [None]


async def test_a_runner_announces_the_given_options() -> None:
    """`init_options` wins over what the server derives, in either era."""
    options = InitializationOptions(
        Implementation("other", "9"), ServerCapabilities({"x-own": {"a": 1}}), instructions="Do."
    )
    dctx = FakeDispatch()
    legacy = ServerRunner(make_server(), Connection.for_loop(dctx), None, init_options=options)
    answer = await legacy.on_request(dctx, "initialize", initialize()["params"])
    assert answer["serverInfo"] == {"name": "other", "version": "9"}
    assert answer["capabilities"] == {"x-own": {"a": 1}}
    assert answer["instructions"] == "Do."
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    found = await ServerRunner(make_server(), connection, None, init_options=options).on_request(
        dctx, "server/discover", {}
    )
    assert found["capabilities"] == {"x-own": {"a": 1}}
    assert found["instructions"] == "Do."


# -- context, session, options, server, connection --------------------------------------------------------------------


async def test_the_request_context_carries_what_is_listed() -> None:
    """And is a real dataclass, because middleware rewrites it."""
    seen: list[Context] = []
    server = make_server()

    async def look(ctx: Context) -> dict[str, Any]:
        seen.append(ctx)
        return {"content": []}

    server.add_request_handler("tools/call", look)
    dctx = FakeDispatch(request_id="r", transport=TransportContext("mine"))
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dctx)
    state = object()
    await ServerRunner(server, connection, state).on_request(dctx, "tools/call", {**CALL, "_meta": {"k": 1}})
    (ctx,) = seen
    assert isinstance(ctx.session, ServerSession)
    assert ctx.lifespan_context is state
    assert ctx.method == "tools/call"
    assert ctx.params.arguments == {"a": 1}
    assert ctx.request_id == "r"
    assert ctx.meta == {"k": 1}
    assert ctx.protocol_version == LATEST_MODERN_VERSION
    assert ctx.transport.kind == "mine"
    assert dataclasses.is_dataclass(ctx)
    assert dataclasses.replace(ctx, method="x").method == "x"


def test_the_server_offers_what_is_listed() -> None:
    """The registry that the runner reads."""
    server = make_server(middleware=[], cache_hints={"tools/list": CacheHint(5)}, instructions="Do.")
    options = server.create_initialization_options()
    assert isinstance(options, InitializationOptions)
    assert (options.server_info.name, options.server_info.version) == ("s", "1")
    assert options.capabilities == {"tools": {}}
    assert options.instructions == "Do."
    entry = server.get_request_handler("tools/call")
    assert entry is not None
    assert entry.method == "tools/call"
    assert server.get_request_handler("no/such") is None
    assert server.get_notification_handler("no/such") is None
    assert server.middleware == []
    assert server.cache_hints == {"tools/list": CacheHint(5)}


async def test_a_loop_connection_learns_its_peer_by_initialize() -> None:
    """`client_params`, `initialized` and `initialize_accepted` say how far it is."""
    dctx = FakeDispatch()
    connection = Connection.for_loop(dctx, session_id="sid")
    assert connection.session_id == "sid"
    assert connection.outbound is dctx
    assert connection.client_params is None
    assert not connection.initialize_accepted
    assert not connection.initialized.is_set()
    served = ServerRunner(make_server(), connection, None)
    await served.on_request(dctx, "initialize", initialize(version="2025-06-18", roots={})["params"])
    assert connection.initialize_accepted
    assert connection.protocol_version == "2025-06-18"
    assert connection.client_params is not None
    assert connection.client_params.capabilities == {"roots": {}}
    assert not connection.initialized.is_set()
    await served.on_notify(dctx, "notifications/initialized", None)
    assert connection.initialized.is_set()
    with anyio.fail_after(30):
        await connection.initialized.wait()
    assert connection.exit_stack is connection.exit_stack


@pytest.mark.parametrize("info", [{"name": "c", "version": "1"}, None, "odd"])
async def test_an_envelope_connection_is_born_ready(info: Any) -> None:
    """From raw values, whose shape was not checked yet."""
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, info, {"roots": {}}, outbound=FakeDispatch())
    assert connection.initialize_accepted
    assert connection.initialized.is_set()
    assert connection.protocol_version == LATEST_MODERN_VERSION
    assert connection.client_capabilities == {"roots": {}}
    params = connection.client_params
    assert (params.client_info.name if params else None) == ("c" if isinstance(info, dict) else None)


# -- aclose_shielded --------------------------------------------------------------------------------------------------


async def test_closing_unwinds_the_exit_stack_once_in_reverse() -> None:
    """Also asynchronous callbacks; a second close finds nothing."""
    connection = Connection.for_loop(FakeDispatch())
    order: list[int] = []

    async def later() -> None:
        await anyio.lowlevel.checkpoint()
        order.append(2)

    connection.exit_stack.callback(order.append, 1)
    connection.exit_stack.push_async_callback(later)
    await aclose_shielded(connection)
    await aclose_shielded(connection)
    assert order == [2, 1]


async def test_a_raising_clean_up_is_logged_and_the_rest_runs(caplog: pytest.LogCaptureFixture) -> None:
    """One bad callback must not cost the connection's other clean-up, nor its server."""
    connection = Connection.for_loop(FakeDispatch())
    order: list[int] = []

    def bad() -> None:
        raise ValueError("bad clean-up")

    connection.exit_stack.callback(order.append, 1)
    connection.exit_stack.callback(bad)
    connection.exit_stack.callback(order.append, 2)
    await aclose_shielded(connection)
    assert order == [2, 1]
    assert "bad clean-up" in caplog.text


async def test_a_hanging_clean_up_is_abandoned_with_a_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound is 5 s; here it is shortened."""
    assert runner.CLOSE_TIMEOUT_S == 5
    monkeypatch.setattr(runner, "CLOSE_TIMEOUT_S", 0.02)
    connection = Connection.for_loop(FakeDispatch())
    order: list[int] = []
    connection.exit_stack.callback(order.append, 1)
    connection.exit_stack.push_async_callback(anyio.sleep_forever)
    with anyio.fail_after(30):
        await aclose_shielded(connection)
    assert order == [1]
    assert any(record.levelno == logging.WARNING and "abandoned" in record.message for record in caplog.records)


async def test_clean_up_runs_under_a_shield() -> None:
    """A cancelled server still closes its files."""
    connection = Connection.for_loop(FakeDispatch())
    done: list[int] = []

    async def slow() -> None:
        await anyio.sleep(0.01)
        done.append(1)

    connection.exit_stack.push_async_callback(slow)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await aclose_shielded(connection)
    assert done == [1]


async def test_closing_is_free_when_nothing_was_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every HTTP request passes here: no scope, no stack."""

    def fail(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a scope was made")

    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    monkeypatch.setattr(anyio, "move_on_after", fail)
    await aclose_shielded(connection)


# -- serve_connection, serve_one, modern_on_request -------------------------------------------------------------------


async def test_serve_connection_drives_until_the_channel_closes_then_tears_down() -> None:
    """With a dispatcher of either kind; it says when it serves."""
    for close_first in (True, False):
        ours, theirs = DirectDispatcher.pair()
        connection = Connection.for_loop(theirs)
        done: list[int] = []
        connection.exit_stack.callback(done.append, 1)

        async def serve(*, task_status: Any, theirs: Any = theirs, connection: Any = connection) -> None:
            await serve_connection(
                make_server(), theirs, connection=connection, lifespan_state=None, task_status=task_status
            )

        async with anyio.create_task_group() as tasks:
            await tasks.start(serve)
            answer = await ours.send_raw_request("initialize", initialize()["params"])
            assert answer["serverInfo"]["name"] == "s"
            await ours.notify("notifications/initialized")
            assert connection.initialized.is_set()
            assert done == []
            if close_first:
                ours.close()
            else:
                tasks.cancel_scope.cancel()
        assert done == [1]


async def test_serve_connection_over_a_stream_pair_is_a_whole_server() -> None:
    """Notification handlers may send requests, changes are published, batches follow the revision."""
    server = make_server(list_changed=["tools"])

    async def curious(ctx: Context) -> None:
        found.append(await ctx.session.list_roots())

    found: list[Any] = []
    server.add_notification_handler("notifications/roots/list_changed", curious)

    async def drive(server: Server[Any], reads: Any, writes: Any, *, lifespan_state: Any) -> None:
        dispatcher = JSONRPCDispatcher(reads, writes)
        await serve_connection(
            server, dispatcher, connection=Connection.for_loop(dispatcher), lifespan_state=lifespan_state
        )

    async with serving(server, drive) as peer:
        await handshake(peer, roots={})
        peer.send(note("notifications/roots/list_changed"))
        asked = await peer.receive()
        assert asked["method"] == "roots/list"
        peer.send(result(asked["id"], {"roots": []}))
        await settled()
        assert [len(roots.roots) for roots in found] == [0]
        from ferrule.kernel.changes.bus import Event

        server.bus.publish(Event.list_changed("tools"))
        assert await peer.receive() == note("notifications/tools/list_changed")


async def test_serve_one_serves_tears_down_and_raises_what_the_chain_raises() -> None:
    """One request on a connection that is born ready."""
    server = make_server()

    def connection() -> Connection:
        return Connection.from_envelope(LATEST_MODERN_VERSION, None, {})

    done: list[int] = []
    first = connection()
    first.exit_stack.callback(done.append, 1)
    answer = await serve_one(server, FakeDispatch(), "tools/call", CALL, connection=first, lifespan_state=None)
    assert type(answer) is dict
    assert answer["resultType"] == "complete"
    assert done == [1]

    async def crash(ctx: Context) -> None:
        ctx.session.connection.exit_stack.callback(done.append, 2)
        raise ZeroDivisionError

    server.add_request_handler("tools/call", crash)
    with pytest.raises(ZeroDivisionError):
        await serve_one(server, FakeDispatch(), "tools/call", CALL, connection=connection(), lifespan_state=None)
    assert done == [1, 2]
    with pytest.raises(MethodNotFound):
        await serve_one(server, FakeDispatch(), "no/such", {}, connection=connection(), lifespan_state=None)


async def test_modern_on_request_serves_each_call_on_a_fresh_connection() -> None:
    """For a pair in one process, without checks of headers: a missing version means the latest; an unknown one is
    refused."""
    server = make_server()
    connections: list[Connection] = []

    async def look(ctx: Context) -> dict[str, Any]:
        connections.append(ctx.session.connection)
        return {"content": []}

    server.add_request_handler("tools/call", look)

    async def nothing(*args: Any) -> None:
        return

    ours, theirs = DirectDispatcher.pair()
    theirs.serve(modern_on_request(server, "state"), nothing)
    assert (await ours.send_raw_request("tools/call", CALL))["resultType"] == "complete"
    await ours.send_raw_request("tools/call", {**CALL, "_meta": {**ENVELOPE}})
    first, second = connections
    assert first is not second
    assert first.protocol_version == second.protocol_version == LATEST_MODERN_VERSION
    assert first.client_info is None
    assert second.client_info is not None
    version_key = "io.modelcontextprotocol/protocolVersion"
    for version in (*HANDSHAKE_PROTOCOL_VERSIONS, "2099-01-01"):
        with pytest.raises(RemoteError) as caught:
            await ours.send_raw_request("tools/call", {**CALL, "_meta": {version_key: version}})
        assert caught.value.code == -32022


# -- the loops --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
async def test_pipelined_requests_see_the_initialized_state(driver: Any) -> None:
    """`initialize` is handled inline: everything in one go, and a slow middleware in the way."""

    async def slow(ctx: Context, call_next: CallNext) -> Any:
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        return await call_next(ctx)

    async with serving(make_server(middleware=[slow]), driver) as peer:
        peer.send(
            initialize(0, "2025-06-18"), request(1, "tools/list"), note("notifications/initialized"),
            request(2, "tools/call", CALL),
        )  # fmt: skip
        answers = {answer["id"]: answer for answer in await peer.waiting()}
        assert answers[0]["result"]["protocolVersion"] == "2025-06-18"
        assert answers[1]["result"] == {"tools": []}
        assert answers[2]["result"] == {"content": [CALL_TEXT]}


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_loops_pass_their_options_on(driver: Any) -> None:
    """Session id, announced options, the lifespan's state; and raising what a handler raises."""
    server = make_server()
    seen: list[Context] = []

    async def crash(ctx: Context) -> None:
        seen.append(ctx)
        raise ZeroDivisionError

    server.add_request_handler("tools/call", crash)
    options = InitializationOptions(Implementation("other", "9"), ServerCapabilities())
    state = object()
    async with serving(
        server, driver, lifespan_state=state, session_id="sid", init_options=options, raise_exceptions=True
    ) as peer:
        assert (await handshake(peer))["serverInfo"]["name"] == "other"
        peer.send(request(1, "tools/call", CALL))
        with anyio.fail_after(30):
            await peer.ended.wait()
    assert isinstance(peer.error, ZeroDivisionError)
    assert seen[0].lifespan_context is state
    assert seen[0].session.session_id == "sid"


async def test_the_handshake_loop_knows_no_modern_era() -> None:
    """`serve_loop` is for the legacy revisions alone."""
    async with serving(make_server(), serve_loop) as peer:
        assert (await peer.error_of(modern(1, "tools/list")))["code"] == -32602
        assert (await peer.error_of(modern(2, "server/discover")))["code"] == -32601
        await handshake(peer)
        assert (await peer.error_of(modern(3, "server/discover")))["code"] == -32601


@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_loops_unwind_the_connection_at_the_end(driver: Any) -> None:
    """After the drain, also when the driver is cancelled."""
    server = make_server()
    done: list[int] = []

    async def register(ctx: Context) -> dict[str, Any]:
        ctx.session.connection.exit_stack.callback(done.append, 1)
        return {"content": []}

    server.add_request_handler("tools/call", register)
    async with serving(server, driver) as peer:
        await handshake(peer)
        await peer.result(request(1, "tools/call", CALL))
        assert done == []
    assert done == [1]


# -- the era lock over one stream pair --------------------------------------------------------------------------------


async def opened(peer: Peer) -> dict[str, Any]:
    """The error of a modern `initialize` refusal, or the result of a legacy one."""
    return await peer.ask(initialize("probe"))


async def test_an_initialize_that_succeeds_locks_legacy() -> None:
    """Then modern envelopes and discovery get -32600; a second handshake too; neutral requests work."""
    async with serving(make_server(), serve_dual_era_loop) as peer:
        await handshake(peer)
        assert (await peer.error_of(modern(1, "tools/list")))["code"] == -32600
        assert (await peer.error_of(modern(2, "server/discover")))["code"] == -32600
        assert (await peer.error_of(request(3, "server/discover", {})))["code"] == -32600
        assert (await peer.error_of(initialize(4)))["code"] == -32600
        assert await peer.result(request(5, "ping")) == {}
        assert await peer.result(request(6, "tools/list")) == {"tools": []}


@pytest.mark.parametrize("opening", ["tools/list", "server/discover"])
async def test_an_accepted_envelope_or_discovery_locks_modern(opening: str) -> None:
    """A later initialize gets -32022 with the modern versions; a plain request an error that names the missing
    members."""
    async with serving(make_server(), serve_dual_era_loop) as peer:
        assert (await peer.result(modern(1, opening)))["resultType"] == "complete"
        refusal = await peer.error_of(initialize(2, "2025-06-18"))
        assert refusal["code"] == -32022
        assert refusal["data"] == {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": "2025-06-18"}
        assert (await peer.error_of(request(3, "tools/list")))["code"] == -32602
        assert (await peer.result(modern(4, "tools/list")))["tools"] == []


VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
NEVER_LOCKS = {
    "ping": (request(1, "ping"), None),
    "unknown method": (request(1, "no/such"), -32601),
    "too early": (request(1, "tools/list"), -32602),
    "unsupported version": (modern(1, "tools/list", meta={VERSION_KEY: "2099-01-01"}), -32022),
    "legacy version in an envelope": (modern(1, "tools/list", meta={VERSION_KEY: "2025-06-18"}), -32022),
    "half an envelope": (request(1, "tools/list", {"_meta": {VERSION_KEY: LATEST_MODERN_VERSION}}), -32602),
    "discovery without an envelope": (request(1, "server/discover"), -32602),
    "discovery of another version": (modern(1, "server/discover", meta={VERSION_KEY: "2099-01-01"}), -32022),
    "malformed initialize": (request(1, "initialize", {"protocolVersion": 1}), -32602),
    "no message": ({"jsonrpc": "2.0", "id": 1, "method": ""}, -32600),
}


@pytest.mark.parametrize(("message", "code"), NEVER_LOCKS.values(), ids=NEVER_LOCKS)
@pytest.mark.parametrize("then", ["legacy", "modern"])
async def test_rejected_and_neutral_messages_never_lock(message: Any, code: int | None, then: str) -> None:
    """Either era can still be opened after them."""
    async with serving(make_server(), serve_dual_era_loop) as peer:
        answer = await peer.ask(message)
        assert answer.get("error", {}).get("code") == code
        if then == "legacy":
            assert "result" in await opened(peer)
            assert await peer.result(request(2, "tools/list")) == {"tools": []}
        else:
            assert (await peer.result(modern(2, "tools/list")))["tools"] == []
            assert (await opened(peer))["error"]["code"] == -32022


async def test_a_vetoed_initialize_does_not_lock() -> None:
    """Only one that succeeds does."""

    async def veto(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method == "initialize":
            raise MCPError("Not today", code=77)
        return await call_next(ctx)

    async with serving(make_server(middleware=[veto]), serve_dual_era_loop) as peer:
        assert (await opened(peer))["error"]["code"] == 77
        assert (await peer.result(modern(1, "tools/list")))["tools"] == []


async def test_pipelined_discovery_is_inline() -> None:
    """The next message is handled in the era that the discovery has locked."""
    async with serving(make_server(), serve_dual_era_loop) as peer:
        peer.send(modern(1, "server/discover"), initialize(2), request(3, "tools/list"), modern(4, "tools/list"))
        answers = {answer["id"]: answer for answer in await peer.waiting()}
        assert answers[1]["result"]["supportedVersions"] == list(MODERN_PROTOCOL_VERSIONS)
        assert answers[2]["error"]["code"] == -32022
        assert answers[3]["error"]["code"] == -32602
        assert answers[4]["result"]["tools"] == []


async def test_modern_notifications_inherit_the_locked_version() -> None:
    """They carry no envelope."""
    server = make_server()
    seen: list[str] = []

    async def hear(ctx: Context) -> None:
        seen.append(ctx.protocol_version)

    server.add_notification_handler("notifications/cancelled", hear)
    async with serving(server, serve_dual_era_loop) as peer:
        await peer.result(modern(1, "tools/list"))
        peer.send(note("notifications/cancelled", {"requestId": 99}))
        await settled()
    assert seen == [LATEST_MODERN_VERSION]


# -- dispatchers ------------------------------------------------------------------------------------------------------


async def test_both_dispatchers_are_dispatchers() -> None:
    """One protocol: run, ask, tell."""
    sends, receives = anyio.create_memory_object_stream[Any](1)
    with sends, receives:
        for dispatcher in (JSONRPCDispatcher(receives, sends), *DirectDispatcher.pair()):
            found: Dispatcher = dispatcher
            assert all(
                inspect.iscoroutinefunction(getattr(found, name)) for name in ("run", "send_raw_request", "notify")
            )


def test_a_transport_context_is_a_frozen_dataclass_of_facts() -> None:
    """Transports add theirs by subclassing (beyond, 6)."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Mine(TransportContext):
        peer: str = ""

    mine = Mine("mine", peer="x")
    assert (mine.kind, mine.can_send_request, mine.peer) == ("mine", True, "x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        mine.kind = "y"  # type: ignore[misc]
