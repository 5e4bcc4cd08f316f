"""The messages that a handler may send to its peer."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.kernel.connection import Connection, unguarded
from ferrule.kernel.session import LOG_LEVELS, ServerSession, log_level_passes
from ferrule.protocol.errors import CapabilityNotDeclared, LocalError, NoBackChannel, NotInRevision, RemoteError
from ferrule.protocol.legacy.handshake import negotiate_initialize, read_initialize_params
from ferrule.types import LATEST_MODERN_VERSION, CreateMessageRequestParams
from tests.kernel.harness import FakeDispatch, initialize

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

LEVEL_KEY = "io.modelcontextprotocol/logLevel"
SAMPLE: dict[str, Any] = {"messages": [], "maxTokens": 1}
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
SEVERAL = {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}
ALL = {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}


def legacy(version: str = "2025-11-25", meta: Any = None, **capabilities: Any) -> tuple[ServerSession, FakeDispatch]:
    dctx = FakeDispatch()
    connection = Connection.for_loop(dctx)
    params = initialize(version=version, **capabilities)["params"]
    connection.commit(negotiate_initialize(read_initialize_params(params)))
    return ServerSession(connection, dctx, meta or {}), dctx


def modern(meta: Any = None, **capabilities: Any) -> tuple[ServerSession, FakeDispatch]:
    dctx = FakeDispatch()
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, capabilities, outbound=dctx)
    return ServerSession(connection, dctx, meta or {}), dctx


async def test_the_session_has_the_facts_of_the_peer() -> None:
    """From the handshake, or from the envelope of this very request."""
    session, _ = legacy("2025-06-18", roots={})
    assert session.protocol_version == "2025-06-18"
    assert session.client_info is not None
    assert session.client_info.name == "c"
    assert session.client_capabilities.roots == {}
    assert session.client_params is not None
    assert session.can_send_request
    assert session.session_id is None
    session, _ = modern(sampling={})
    assert session.client_info is None
    assert session.client_capabilities == {"sampling": {}}
    assert not session.can_send_request


@pytest.mark.parametrize("bad", [None, "odd", [], {"sampling": True}])
async def test_malformed_capabilities_of_an_envelope_declare_nothing(bad: Any) -> None:
    """Their shape was not checked before."""
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, bad)
    assert connection.client_capabilities == {}


async def test_questions_have_typed_answers() -> None:
    """Each sends the specification's method and params."""
    session, dctx = legacy(**ALL)
    dctx.answer = {"action": "accept", "content": {"a": 1}}
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert (await session.elicit("m", schema)).content == {"a": 1}
    assert (await session.elicit_url("m", "https://x.example", "e1")).action == "accept"
    dctx.answer = {"role": "assistant", "content": {"type": "text", "text": "t"}, "model": "m"}
    params = {"messages": [{"role": "user", "content": {"type": "text", "text": "q"}}], "maxTokens": 5}
    from ferrule.wire.codec import convert

    assert (await session.create_message(params)).model == "m"
    assert (await session.create_message(convert(params, CreateMessageRequestParams))).role == "assistant"
    dctx.answer = {"roots": [{"uri": "file:///a"}]}
    assert len((await session.list_roots()).roots) == 1
    dctx.answer = {}
    await session.ping()
    assert [method for method, _ in dctx.asked] == [
        *["elicitation/create"] * 2, *["sampling/createMessage"] * 2, "roots/list", "ping",
    ]  # fmt: skip
    assert dctx.asked[0][1] == {"message": "m", "requestedSchema": schema}
    assert dctx.asked[2][1] == dctx.asked[3][1] == params


async def test_an_answer_of_another_shape_is_our_error_and_an_error_answer_the_peers() -> None:
    """The handler can tell a broken client from a refusing one."""
    session, dctx = legacy(**ALL)
    dctx.answer = {"roots": "all"}
    with pytest.raises(LocalError, match="roots/list"):
        await session.list_roots()
    dctx.answer = RemoteError("No", code=-1)
    with pytest.raises(RemoteError):
        await session.list_roots()


@pytest.mark.parametrize(
    ("version", "ask"),
    [
        ("2024-11-05", lambda session: session.elicit("m", {})),
        ("2025-03-26", lambda session: session.elicit("m", {})),
        ("2025-06-18", lambda session: session.elicit_url("m", "https://x.example", "e")),
        ("2025-06-18", lambda session: session.elicit("m", {"type": "object", "properties": {"a": SEVERAL}})),
        ("2024-11-05", lambda session: session.create_message(SAMPLE | {"tools": [TOOL]})),
        ("2025-06-18", lambda session: session.create_message(SAMPLE | {"tools": [TOOL]})),
        ("2025-06-18", lambda session: session.create_message(SAMPLE | {"toolChoice": {"mode": "auto"}})),
        ("2025-11-25", lambda session: session.send_request("x/unknown")),
        ("2025-11-25", lambda session: session.send_request("tools/list")),
    ],
)
async def test_a_request_that_the_revision_lacks_is_never_sent(version: str, ask: Any) -> None:
    """Although the client declared it."""
    session, dctx = legacy(version, **ALL)
    with pytest.raises(NotInRevision):
        await ask(session)
    assert dctx.asked == []


async def test_a_request_without_its_capability_is_never_sent() -> None:
    """Parts of a capability count."""
    session, dctx = legacy(sampling={}, elicitation={})
    with pytest.raises(CapabilityNotDeclared) as caught:
        await session.create_message({"messages": [], "maxTokens": 1, "tools": [{"name": "t", "inputSchema": {}}]})
    assert caught.value.required == {"sampling": {"tools": {}}}
    with pytest.raises(CapabilityNotDeclared):
        await session.elicit_url("m", "https://x.example", "e")
    assert dctx.asked == []


async def test_notifications_of_other_revisions_do_not_exist_and_those_of_extensions_pass() -> None:
    """The specification's names are checked; an extension's are its own affair."""
    session, dctx = modern()
    with pytest.raises(LocalError):
        await session.notify("notifications/elicitation/complete", {"elicitationId": "e"})
    await session.notify("notifications/x/own", {"a": 1})
    await session.notify("notifications/tools/list_changed")
    assert [method for method, _ in dctx.told] == ["notifications/x/own", "notifications/tools/list_changed"]
    session, dctx = legacy()
    await session.notify("notifications/elicitation/complete", {"elicitationId": "e"})
    with pytest.raises(LocalError):
        await session.notify("notifications/subscriptions/acknowledged", {})


@pytest.mark.parametrize(("version", "has_text"), [("2024-11-05", False), ("2025-03-26", True)])
async def test_progress_text_is_left_out_where_the_revision_has_none(version: str, has_text: bool) -> None:
    """`message` came with 2025-03-26."""
    session, dctx = legacy(version)
    await session.progress(1, 2, "m")
    assert dctx.progressed == [(1, 2, "m" if has_text else None)]


# -- logging ----------------------------------------------------------------------------------------------------------


async def sent_levels(session: ServerSession, dctx: FakeDispatch) -> list[str]:
    for level in LOG_LEVELS:
        await session.log(level, {"at": level}, "me")
    return [params["level"] for method, params in dctx.told if method == "notifications/message"]


async def test_a_legacy_client_gets_all_until_it_sets_a_level() -> None:
    """2025-11-25, "Logging": the server may choose before that."""
    session, dctx = legacy()
    assert await sent_levels(session, dctx) == list(LOG_LEVELS)
    assert dctx.told[0] == ("notifications/message", {"level": "debug", "data": {"at": "debug"}, "logger": "me"})
    dctx.told.clear()
    session.connection.log_level = "error"
    assert await sent_levels(session, dctx) == ["error", "critical", "alert", "emergency"]


@pytest.mark.parametrize(
    ("meta", "expected"),
    [({}, []), ({LEVEL_KEY: "warning"}, list(LOG_LEVELS[3:])), ({LEVEL_KEY: "emergency"}, ["emergency"])],
)
async def test_a_modern_request_gets_what_it_opted_in_to(meta: dict[str, Any], expected: list[str]) -> None:
    """Nothing without the key, whatever came before on the connection."""
    session, dctx = modern(meta)
    session.connection.log_level = "debug"
    assert await sent_levels(session, dctx) == expected


async def test_an_unknown_level_is_the_callers_mistake() -> None:
    """Also where nothing would be sent."""
    for session, _ in (legacy(), modern()):
        with pytest.raises(ValueError, match="loud"):
            await session.log("loud", "m")
    assert log_level_passes("error", "warning")
    assert log_level_passes("error", "error")
    assert not log_level_passes("info", "warning")


# -- guards -----------------------------------------------------------------------------------------------------------


async def test_the_guarded_way_back_passes_the_rest_through() -> None:
    """A modern handler gets the facts of its message, and the transport's further attributes stay available."""
    session, dctx = modern()
    way = session.dispatch
    assert (way.request_id, way.transport, way.cancel_requested) == (1, dctx.transport, False)
    assert unguarded(way) is dctx
    await way.progress(1)
    await way.notify("n")
    assert dctx.progressed == [(1, None, None)]
    assert dctx.told == [("n", None)]
    with pytest.raises(NoBackChannel):
        await way.send_raw_request("ping", None)
    session, dctx = legacy()
    assert session.dispatch is dctx


async def test_a_modern_connection_without_a_channel_drops_notifications() -> None:
    """One that was made for a notification has none."""
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {})
    await connection.notify("n")
    with pytest.raises(LocalError, match="does not exist in revision"):
        await connection.notify("notifications/tasks/status")
    with pytest.raises(NoBackChannel):
        await connection.outbound.send_raw_request("ping", None)
