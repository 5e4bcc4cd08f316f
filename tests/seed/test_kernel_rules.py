"""Each sentence under "Rules of the kernel"."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import anyio
import pytest
from msgspec import Struct

from ferrule.kernel.runner import ServerRunner
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.caching import CACHEABLE_METHODS, CacheHint
from ferrule.protocol.errors import InvalidParams, MCPError, MethodNotFound
from ferrule.types import (
    HANDSHAKE_PROTOCOL_VERSIONS,
    LATEST_HANDSHAKE_VERSION,
    JsonRpcError,
    ListToolsResult,
    ToolResult,
)
from ferrule.wire.codec import Encoded
from ferrule.wire.types import Implementation
from tests.kernel.harness import (
    DRIVERS,
    FakeDispatch,
    handshake,
    initialize,
    modern,
    note,
    request,
    serving,
    settled,
)
from tests.seed.test_kernel import CALL, legacy_runner, make_server, modern_runner

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

Context = ServerRequestContext[Any]


def watching(log: list[Any]) -> Any:
    """A middleware that records (method, params, id) of requests, and results or errors."""

    async def watch(ctx: Context, call_next: CallNext) -> Any:
        log.append((ctx.method, ctx.params, ctx.request_id))
        try:
            answer = await call_next(ctx)
        except Exception as error:
            log.append(error)
            raise
        log.append(answer)
        return answer

    return watch


# -- unknown methods, the gate, params --------------------------------------------------------------------------------


@pytest.mark.parametrize("accepted", [True, False])
@pytest.mark.parametrize("method", ["no/such", "", "tools", "rpc.discover"])
async def test_an_unknown_method_is_not_found_whatever_the_state(accepted: bool, method: str) -> None:
    """-32601 with the method as data, before the handshake, after it, and in the modern era."""
    for served, dctx in (legacy_runner(make_server(), accepted=accepted), modern_runner(make_server())):
        with pytest.raises(MCPError) as caught:
            await served.on_request(dctx, method, {"any": "params"})
        assert (caught.value.code, caught.value.data) == (-32601, method)


async def test_a_method_that_the_revision_lacks_does_not_exist() -> None:
    """Although a built-in handler of another revision is registered."""
    for method in ("ping", "logging/setLevel", "resources/subscribe", "initialize"):
        served, dctx = modern_runner(make_server(logging=True, resource_updates=True))
        with pytest.raises(MethodNotFound):
            await served.on_request(dctx, method, {})
    for method in ("server/discover", "subscriptions/listen"):
        served, dctx = legacy_runner(make_server())
        with pytest.raises(MethodNotFound):
            await served.on_request(dctx, method, {})


async def test_a_served_method_before_the_handshake_is_refused_and_only_ping_is_exempt() -> None:
    """-32602 (the connection is not initialized), for methods of the specification and of one's own."""
    server = make_server(logging=True)

    async def own(ctx: Context) -> dict[str, Any]:
        return {}

    server.add_request_handler("x/own", own)
    served, dctx = legacy_runner(server, accepted=False)
    for method, params in (
        ("tools/list", {}),
        ("tools/call", CALL),
        ("logging/setLevel", {"level": "info"}),
        ("x/own", {}),
    ):
        with pytest.raises(MCPError) as caught:
            await served.on_request(dctx, method, params)
        assert caught.value.code == -32602, method
    assert await served.on_request(dctx, "ping", None) == {}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {}),
        ("tools/call", {"name": 5}),
        ("tools/call", {"name": "t", "arguments": []}),
        ("tools/list", {"cursor": 1}),
        ("resources/read", {}),
        ("prompts/get", {"name": None}),
        ("completion/complete", {"ref": {}, "argument": {}}),
        ("logging/setLevel", {"level": "loud"}),
        ("resources/subscribe", {}),
    ],
)
@pytest.mark.parametrize("accepted", [True, False])
async def test_malformed_params_are_refused_even_where_nothing_serves_the_method(
    method: str, params: dict[str, Any], accepted: bool
) -> None:
    """-32602 with the path, not -32601: the client has a fault either way."""
    served, dctx = legacy_runner(Server("empty"), accepted=accepted)
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, method, params)


async def test_well_formed_params_of_an_unserved_method_are_not_found() -> None:
    """The other half."""
    served, dctx = legacy_runner(Server("empty"))
    for method, params in (("tools/call", {"name": "t"}), ("tools/list", None), ("prompts/get", {"name": "p"})):
        with pytest.raises(MethodNotFound):
            await served.on_request(dctx, method, params)


@pytest.mark.parametrize("params", [None, {}])
async def test_absent_params_are_an_empty_object(params: Any) -> None:
    """In the middleware's view too."""
    log: list[Any] = []
    served, dctx = legacy_runner(make_server(middleware=[watching(log)]))
    assert await served.on_request(dctx, "tools/list", params) == {"tools": []}
    assert log[0] == ("tools/list", {}, 1)


async def test_params_of_ones_own_method_are_raw_unless_a_type_is_given() -> None:
    """A gateway needs no types; an extension brings its own."""

    class Own(Struct):
        number: int

    seen: list[Any] = []

    async def look(ctx: Context) -> dict[str, Any]:
        seen.append(ctx.params)
        return {}

    server = make_server()
    server.add_request_handler("x/raw", look)
    server.add_request_handler("x/typed", look, params_type=Own)
    served, dctx = legacy_runner(server)
    await served.on_request(dctx, "x/raw", {"a": [1]})
    await served.on_request(dctx, "x/typed", {"number": 1})
    assert seen == [{"a": [1]}, Own(1)]
    with pytest.raises(InvalidParams):
        await served.on_request(dctx, "x/typed", {"number": "1"})


# -- notifications ----------------------------------------------------------------------------------------------------


async def test_malformed_and_unknown_notifications_are_dropped_with_a_log_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the connection lives on."""
    caplog.set_level(logging.DEBUG)
    heard: list[Any] = []

    async def hear(ctx: Context) -> None:
        heard.append(ctx.params)

    server = make_server()
    server.add_notification_handler("notifications/progress", hear)
    served, dctx = legacy_runner(server)
    await served.on_notify(dctx, "notifications/progress", {"progressToken": [], "progress": "x"})
    assert "Dropped a malformed notifications/progress" in caplog.text
    await served.on_notify(dctx, "notifications/no_such", {})
    assert "Dropped notifications/no_such" in caplog.text
    await served.on_notify(dctx, "notifications/progress", {"progressToken": 1, "progress": 0.5})
    assert [params.progress for params in heard] == [0.5]


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("with_middleware", [True, False])
async def test_notifications_before_initialized_are_dropped(
    driver: Any, with_middleware: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Judged in the order of arrival, also when everything comes in one go."""
    heard: list[Any] = []
    log: list[Any] = []

    async def hear(ctx: Context) -> None:
        heard.append(ctx.meta.get("n"))

    server = make_server(middleware=[watching(log)] if with_middleware else [])
    server.add_notification_handler("notifications/roots/list_changed", hear)

    def changed(n: int) -> dict[str, Any]:
        return note("notifications/roots/list_changed", {"_meta": {"n": n}})

    async with serving(server, driver) as peer:
        peer.send(changed(1), note("notifications/initialized"), changed(2))
        peer.send(initialize(0), changed(3), note("notifications/initialized"), changed(4))
        assert len(await peer.waiting()) == 1
    assert heard == [4]
    assert caplog.text.count("came before notifications/initialized") >= 3


async def test_a_crashing_notification_handler_never_ends_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """Its exception is logged, not raised, not answered; `raise_exceptions` changes nothing of it."""

    async def crash(ctx: Context) -> None:
        raise ValueError("in the handler")

    server = make_server()
    server.add_notification_handler("notifications/roots/list_changed", crash)
    for driver in DRIVERS:
        async with serving(server, driver, raise_exceptions=True) as peer:
            await handshake(peer)
            peer.send(note("notifications/roots/list_changed"))
            assert await peer.waiting() == []
            assert await peer.result(request(1, "ping")) == {}
        assert peer.error is None
    assert caplog.text.count("The handling of") == len(DRIVERS)


@pytest.mark.parametrize("driver", DRIVERS)
async def test_cancelled_is_applied_by_the_dispatcher_and_still_forwarded(driver: Any) -> None:
    """Middleware and handlers see it; the request it names gets no answer."""
    log: list[Any] = []
    heard: list[Any] = []
    begun = anyio.Event()

    async def slow(ctx: Context) -> None:
        begun.set()
        await anyio.sleep_forever()

    async def hear(ctx: Context) -> None:
        heard.append((ctx.params.request_id, ctx.params.reason))

    server = make_server(middleware=[watching(log)])
    server.add_request_handler("tools/call", slow)
    server.add_notification_handler("notifications/cancelled", hear)
    async with serving(server, driver) as peer:
        await handshake(peer)
        peer.send(request(7, "tools/call", CALL))
        await begun.wait()
        peer.send(note("notifications/cancelled", {"requestId": 7, "reason": "why"}))
        assert await peer.waiting() == []
    assert heard == [(7, "why")]
    assert ("notifications/cancelled", {"requestId": 7, "reason": "why"}, None) in log


async def test_what_middleware_returns_for_a_notification_is_discarded() -> None:
    """A notification has no response."""

    async def chatty(ctx: Context, call_next: CallNext) -> Any:
        answer = await call_next(ctx)
        return {"said": "something"} if ctx.request_id is None else answer

    served, dctx = legacy_runner(make_server(middleware=[chatty]))
    assert await served.on_notify(dctx, "notifications/roots/list_changed", None) is None
    async with serving(make_server(middleware=[chatty])) as peer:
        await handshake(peer)
        peer.send(note("notifications/roots/list_changed"))
        assert await peer.waiting() == []


# -- middleware -------------------------------------------------------------------------------------------------------


async def test_middleware_wraps_everything() -> None:
    """Handshake, gate, unknown methods, params, handler, notifications, second handshake: raw in, raised error out."""
    log: list[Any] = []

    async def crash(ctx: Context) -> None:
        raise ZeroDivisionError

    server = make_server(middleware=[watching(log)])
    server.add_request_handler("prompts/list", crash)
    served, dctx = legacy_runner(server, accepted=False)

    async def fails(method: str, params: Any, kind: type[Exception]) -> None:
        log.clear()
        with pytest.raises(kind) as caught:
            await served.on_request(dctx, method, params)
        assert log == [(method, params, 1), caught.value]

    await fails("tools/list", {}, InvalidParams)
    await fails("no/such", {"a": 1}, MethodNotFound)
    await fails("initialize", {"protocolVersion": 1}, InvalidParams)
    log.clear()
    await served.on_notify(replace(dctx, request_id=None), "notifications/roots/list_changed", None)
    assert log == [("notifications/roots/list_changed", {}, None), None]
    log.clear()
    params = initialize()["params"]
    await served.on_request(dctx, "initialize", params)
    assert log[0] == ("initialize", params, 1)
    assert log[1].protocol_version == LATEST_HANDSHAKE_VERSION
    log.clear()
    await served.on_notify(replace(dctx, request_id=None), "notifications/initialized", None)
    assert log == [("notifications/initialized", {}, None), None]
    await fails("initialize", params, MCPError)
    await fails("tools/call", {"name": 5}, InvalidParams)
    await fails("prompts/list", {}, ZeroDivisionError)
    modern_side, dctx = modern_runner(server)
    log.clear()
    with pytest.raises(MethodNotFound):
        await modern_side.on_request(dctx, "initialize", params)
    assert log[0] == ("initialize", params, 1)


async def test_middleware_is_listed_outermost_first() -> None:
    """And the list may change later."""
    order: list[str] = []

    def named(name: str) -> Any:
        async def middleware(ctx: Context, call_next: CallNext) -> Any:
            order.append(f"{name}>")
            answer = await call_next(ctx)
            order.append(f"<{name}")
            return answer

        return middleware

    server = make_server(middleware=[named("a"), named("b")])
    served, dctx = legacy_runner(server)
    await served.on_request(dctx, "tools/list", {})
    assert order == ["a>", "b>", "<b", "<a"]
    order.clear()
    server.middleware.insert(0, named("c"))
    del server.middleware[1]
    await served.on_request(dctx, "tools/list", {})
    assert order == ["c>", "b>", "<b", "<c"]


async def test_middleware_rewrites_method_and_params() -> None:
    """`call_next(replace(ctx, …))`: the next middleware gets the changed request, the peer its own id."""

    async def alias(ctx: Context, call_next: CallNext) -> Any:
        if ctx.method == "x/alias":
            return await call_next(replace(ctx, method="tools/call", params={"name": "t", "arguments": ctx.params}))
        return await call_next(ctx)

    async with serving(make_server(middleware=[alias])) as peer:
        await handshake(peer)
        answer = await peer.result(request(5, "x/alias", {"k": 1}))
        assert answer == {"content": [{"type": "text", "text": "t {'k': 1}"}]}
        assert (await peer.error_of(request(6, "tools/call", {"k": 1})))["code"] == -32602


async def test_what_middleware_answers_without_call_next_is_trusted() -> None:
    """It goes out as it is, in either era; nothing becomes an empty result."""
    answers = {"tools/list": {"own": True}, "prompts/list": None, "x/bytes": Encoded(b'{"b":1}')}

    async def answer(ctx: Context, call_next: CallNext) -> Any:
        return answers[ctx.method] if ctx.method in answers else await call_next(ctx)

    server = make_server(middleware=[answer])
    for served, dctx in (legacy_runner(server), modern_runner(server)):
        assert await served.on_request(dctx, "tools/list", {}) == {"own": True}
        assert await served.on_request(dctx, "prompts/list", {}) == {}
        assert await served.on_request(dctx, "x/bytes", {}) == {"b": 1}


@pytest.mark.parametrize(
    "value", [JsonRpcError(7, "No", {"d": 1}), MCPError("No", code=7, data={"d": 1})], ids=["value", "exception"]
)
async def test_a_returned_error_value_raises_inside_the_chain(value: Any) -> None:
    """Middleware gets the failure like any other."""
    log: list[Any] = []

    async def give(ctx: Context) -> Any:
        return value

    server = make_server(middleware=[watching(log)])
    server.add_request_handler("tools/call", give)
    served, dctx = legacy_runner(server)
    with pytest.raises(MCPError) as caught:
        await served.on_request(dctx, "tools/call", CALL)
    assert caught.value.to_error() == JsonRpcError(7, "No", {"d": 1})
    assert log[1] is caught.value


# -- results ----------------------------------------------------------------------------------------------------------


class Own(Struct):
    some_value: int


BAD = {
    "text": "text",
    "number": 5,
    "list": [1],
    "wrong struct": Own(1),
    "wrong shape": {"content": "secret"},
    "wrong member": {"content": [{"type": 5}]},
    "bad bytes": {"content": [], "structuredContent": object()},
    "unknown kind": {"resultType": "later", "content": []},
    "kind is not text": {"resultType": ["complete"], "content": []},
    "empty rounds": {"resultType": "input_required"},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_bad_result_is_logged_in_full_and_reported_without_detail(
    bad: Any, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    """-32603; the author finds the value in the log, the peer learns nothing of it."""

    async def give(ctx: Context) -> Any:
        return bad

    server = make_server()
    server.add_request_handler("tools/call", give)
    served, dctx = legacy_runner(server) if era == "legacy" else modern_runner(server)
    with pytest.raises(MCPError) as caught:
        await served.on_request(dctx, "tools/call", CALL)
    assert caught.value.to_error() == JsonRpcError(-32603, "Internal error")
    assert repr(bad) in caplog.text


async def test_a_struct_of_ones_own_is_a_result_of_ones_own_method() -> None:
    """It need not extend ours to be completed."""

    async def give(ctx: Context) -> Any:
        return Own(5)

    server = make_server(cache_hints={"x/own": CacheHint(3)})
    server.add_request_handler("x/own", give)
    served, dctx = modern_runner(server)
    answer = await served.on_request(dctx, "x/own", {})
    assert answer["some_value"] == 5
    assert (answer["resultType"], answer["ttlMs"], answer["cacheScope"]) == ("complete", 3, "private")
    assert answer["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "s", "version": "1"}
    served, dctx = legacy_runner(server)
    assert await served.on_request(dctx, "x/own", {}) == {"some_value": 5}


@pytest.mark.parametrize("as_struct", [True, False])
async def test_cache_hints_are_filled_on_complete_results_and_the_handlers_own_wins(as_struct: bool) -> None:
    """One part set by the handler does not take the other with it."""

    async def give(ctx: Context) -> Any:
        own = ctx.meta.get("own", {})
        if as_struct:
            return ListToolsResult(tools=[], ttl_ms=own.get("ttlMs"), cache_scope=own.get("cacheScope"))
        return {"tools": [], **own}

    server = make_server(cache_hints={"tools/list": CacheHint(50, "public")})
    server.add_request_handler("tools/list", give)
    served, dctx = modern_runner(server)
    for own in ({}, {"ttlMs": 0}, {"cacheScope": "private"}, {"ttlMs": 7, "cacheScope": "private"}):
        answer = await served.on_request(dctx, "tools/list", {"_meta": {"own": own}})
        assert {"ttlMs": answer["ttlMs"], "cacheScope": answer["cacheScope"]} == {
            "ttlMs": 50, "cacheScope": "public", **own,
        }  # fmt: skip
    legacy, dctx = legacy_runner(server)
    answer = await legacy.on_request(dctx, "tools/list", {"_meta": {"own": {"ttlMs": 7}}})
    assert answer == {"tools": []} or not as_struct


@pytest.mark.parametrize("as_struct", [True, False])
async def test_cache_hints_are_never_on_input_required_results(as_struct: bool) -> None:
    """resources/read is cacheable and may ask; its question is not cacheable."""
    from ferrule.types import InputRequiredResult

    async def ask(ctx: Context) -> Any:
        if as_struct:
            return InputRequiredResult(request_state="s")
        return {"resultType": "input_required", "requestState": "s"}

    server = make_server(cache_hints={"*": CacheHint(50)})
    server.add_request_handler("resources/read", ask)
    served, dctx = modern_runner(server)
    answer = await served.on_request(dctx, "resources/read", {"uri": "a://b"})
    assert answer["resultType"] == "input_required"
    assert not {"ttlMs", "cacheScope"} & set(answer)


async def test_every_cacheable_result_has_hints_and_no_other() -> None:
    """Mandatory on six methods; a tool call has none."""
    server = make_server()
    lists = {
        "prompts/list": {"prompts": []},
        "resources/list": {"resources": []},
        "resources/templates/list": {"resourceTemplates": []},
        "resources/read": {"contents": []},
    }

    async def give(ctx: Context) -> Any:
        return lists[ctx.method]

    for method in lists:
        server.add_request_handler(method, give)
    served, dctx = modern_runner(server)
    for method in CACHEABLE_METHODS:
        answer = await served.on_request(dctx, method, {"uri": "a://b"} if method == "resources/read" else {})
        assert (answer["ttlMs"], answer["cacheScope"]) == (0, "private"), method
    assert not {"ttlMs", "cacheScope"} & set(await served.on_request(dctx, "tools/call", CALL))
    assert lists["prompts/list"] == {"prompts": []}, "the handler's own object was changed"


async def test_modern_results_say_who_answered_and_keep_their_meta() -> None:
    """The handler's `_meta` stays; a server info that it set itself wins."""

    async def give(ctx: Context) -> Any:
        return ToolResult(content=[], meta=meta)

    meta: dict[str, Any] = {"k": 1}
    server = make_server()
    server.add_request_handler("tools/call", give)
    served, dctx = modern_runner(server)
    key = "io.modelcontextprotocol/serverInfo"
    assert (await served.on_request(dctx, "tools/call", CALL))["_meta"] == {"k": 1, key: {"name": "s", "version": "1"}}
    assert meta == {"k": 1}
    meta[key] = {"name": "mine", "version": "2"}
    assert (await served.on_request(dctx, "tools/call", CALL))["_meta"][key]["name"] == "mine"


# -- versions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asked", [*HANDSHAKE_PROTOCOL_VERSIONS, "2099-01-01", "2026-07-28", ""])
@pytest.mark.parametrize("driver", DRIVERS)
async def test_the_requested_revision_if_spoken_else_the_latest_handshake_revision(asked: str, driver: Any) -> None:
    """The connection then uses the revision of the response."""
    seen: list[str] = []

    async def look(ctx: Context) -> Any:
        seen.append(ctx.protocol_version)
        return {"content": []}

    server = make_server()
    server.add_request_handler("tools/call", look)
    async with serving(server, driver) as peer:
        answered = (await handshake(peer, asked))["protocolVersion"]
        await peer.result(request(1, "tools/call", CALL))
    assert answered == (asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION)
    assert seen == [answered]


@pytest.mark.parametrize("version", HANDSHAKE_PROTOCOL_VERSIONS)
async def test_the_initialize_result_is_written_for_the_revision_that_it_names(version: str) -> None:
    """An old client gets no titles and icons, and no capabilities that its revision lacks."""

    async def complete(ctx: Context) -> Any:
        return {"completion": {"values": []}}

    server = make_server(identity=Implementation("s", "1", title="T", description="D", website_url="https://x.example"))
    server.add_request_handler("completion/complete", complete)
    served, dctx = legacy_runner(server, accepted=False)
    answer = await served.on_request(dctx, "initialize", initialize(version=version)["params"])
    info = answer["serverInfo"]
    assert ("title" in info) == (version >= "2025-06-18")
    assert ("description" in info) == ("websiteUrl" in info) == (version >= "2025-11-25")
    assert ("completions" in answer["capabilities"]) == (version >= "2025-03-26")


async def test_batches_follow_the_negotiated_revision() -> None:
    """2025-03-26 must take them; every other revision refuses."""
    for version in HANDSHAKE_PROTOCOL_VERSIONS:
        for driver in DRIVERS:
            async with serving(make_server(), driver) as peer:
                peer.send([request(9, "ping")])
                assert (await peer.receive())["error"]["code"] == -32600
                await handshake(peer, version)
                peer.send([request(1, "ping"), request(2, "ping")])
                answers = await peer.waiting()
                if version == "2025-03-26":
                    assert sorted(answer["id"] for answer in answers) == [1, 2]
                else:
                    assert [answer["error"]["code"] for answer in answers] == [-32600]
    async with serving(make_server(), DRIVERS[1]) as peer:
        await peer.result(modern(1, "tools/list"))
        peer.send([modern(2, "tools/list")])
        assert (await peer.receive())["error"]["code"] == -32600


async def test_an_unknown_log_level_is_refused_with_its_request() -> None:
    """2026-07-28, "Logging": -32602."""
    served, dctx = modern_runner(make_server())
    key = "io.modelcontextprotocol/logLevel"
    for level in ("loud", 5, None, []):
        with pytest.raises(InvalidParams):
            await served.on_request(dctx, "tools/list", {"_meta": {key: level}})
    assert (await served.on_request(dctx, "tools/list", {"_meta": {key: "debug"}}))["tools"] == []


async def test_the_runner_serves_without_a_dispatcher() -> None:
    """One request, one connection, no transport knowledge: a fake way back is enough."""
    served, _ = legacy_runner(make_server())
    assert isinstance(served, ServerRunner)
    await settled()
    assert await served.on_request(FakeDispatch(), "ping", None) == {}
