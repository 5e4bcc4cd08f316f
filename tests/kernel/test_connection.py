"""What a connection knows of its client, and what it keeps for the application."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from ferrule.kernel.connection import Connection, GuardedDispatch, NotifyOnly, OnceEvent, unguarded
from ferrule.protocol.errors import CapabilityNotDeclared, ClientNotAskable, ConnectionClosed, LocalError, NoBackChannel
from ferrule.protocol.legacy.handshake import Negotiation
from ferrule.types import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION
from ferrule.wire.codec import convert
from ferrule.wire.types import InitializeParams
from tests.kernel.harness import FakeDispatch

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]


def modern_connection(info: Any = None, capabilities: Any = None) -> Connection:
    return Connection.from_envelope(LATEST_MODERN_VERSION, info, capabilities, outbound=FakeDispatch())


def test_the_state_of_the_application_is_one_dictionary() -> None:
    """It lasts as long as the connection, and no other connection has it."""
    connection = Connection.for_loop(FakeDispatch())
    assert connection.state == {}
    connection.state["a"] = 1
    assert connection.state == {"a": 1}
    assert Connection.for_loop(FakeDispatch()).state == {}


def test_an_exit_stack_is_made_by_its_first_use() -> None:
    """The runner looks at the attribute, so that a request without one does no work for it."""
    connection = Connection.for_loop(FakeDispatch())
    assert connection.opened_exit_stack is None
    assert isinstance(connection.exit_stack, AsyncExitStack)
    assert connection.exit_stack is connection.exit_stack
    assert connection.opened_exit_stack is connection.exit_stack


def test_a_modern_connection_is_ready_at_once_and_a_legacy_one_after_its_notification() -> None:
    """The envelope of each request has what a handshake has."""
    assert modern_connection().initialized.is_set()
    assert modern_connection().is_ready
    assert modern_connection().initialize_accepted
    legacy = Connection.for_loop(FakeDispatch(), session_id="s")
    assert (legacy.is_ready, legacy.initialize_accepted, legacy.session_id) == (False, False, "s")
    assert not legacy.initialized.is_set()
    legacy.initialized.set()
    assert legacy.is_ready
    assert legacy.initialized.is_set()


def test_the_client_is_read_from_the_envelope() -> None:
    """A malformed name is no reason to refuse a request, and malformed capabilities declare nothing."""
    connection = modern_connection({"name": "c", "version": "1"}, {"roots": {}})
    assert connection.client_info is not None
    assert (connection.client_info.name, connection.client_info.version) == ("c", "1")
    assert connection.client_params is not None
    assert connection.client_params.protocol_version == LATEST_MODERN_VERSION
    assert connection.client_capabilities == {"roots": {}}
    for info in (None, {"name": 5}, "c"):
        assert modern_connection(info, {}).client_info is None
    for capabilities in (None, [], "all", {"roots": 5}):
        assert modern_connection(None, capabilities).client_capabilities == {}
    assert Connection.for_loop(FakeDispatch()).client_params is None


def test_a_guard_says_what_its_context_says() -> None:
    """Facts of the message are passed on; only requests to the client are guarded."""
    for connection, can_send in ((Connection.for_loop(FakeDispatch()), True), (modern_connection(), False)):
        inner = FakeDispatch(request_id=7, cancel_requested=True)
        guarded = GuardedDispatch(inner, connection)
        assert (guarded.request_id, guarded.cancel_requested, guarded.transport) == (7, True, inner.transport)
        assert guarded.can_send_request is can_send
        assert unguarded(guarded) is unguarded(inner) is inner
    assert GuardedDispatch(FakeDispatch(can_send_request=False), connection).can_send_request is False
    guarded = GuardedDispatch(FakeDispatch(can_send_request=False), Connection.for_loop(FakeDispatch()))
    assert guarded.can_send_request is False


async def test_a_guard_passes_messages_on() -> None:
    """Requests too, where the connection allows them."""
    inner = FakeDispatch(answer={"roots": []})
    guarded = GuardedDispatch(inner, Connection.for_loop(inner))
    assert await guarded.send_raw_request("roots/list", {"a": 1}) == {"roots": []}
    await guarded.notify("notifications/x", {"b": 2})
    await guarded.progress(1, 2, "half")
    assert inner.asked == [("roots/list", {"a": 1})]
    assert inner.told == [("notifications/x", {"b": 2})]
    assert inner.progressed == [(1, 2, "half")]


async def test_no_request_is_sent_while_initialize_is_handled() -> None:
    """The client answers nothing before it has that response: waiting would be a deadlock."""
    dispatch = FakeDispatch()
    connection = Connection.for_loop(dispatch)
    connection.handling_initialize = True
    for channel in (connection, connection.outbound):
        with pytest.raises(LocalError, match="while initialize is being handled"):
            await channel.send_raw_request("roots/list")
        await channel.notify("notifications/message", {"level": "info", "data": 1})
    connection.handling_initialize = False
    assert connection.outbound is dispatch
    assert await connection.send_raw_request("roots/list") == {}
    assert [method for method, _ in dispatch.told] == ["notifications/message"] * 2


async def test_a_modern_connection_sends_notifications_only() -> None:
    """A modern server returns input requests instead (2026-07-28)."""
    dispatch = FakeDispatch()
    connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dispatch)
    for channel in (connection, connection.outbound, GuardedDispatch(dispatch, connection)):
        with pytest.raises(NoBackChannel, match="in this era"):
            await channel.send_raw_request("roots/list")
    await connection.outbound.notify("notifications/message", {"level": "info", "data": 1})
    assert [method for method, _ in dispatch.told] == ["notifications/message"]
    await NotifyOnly(None).notify("notifications/message")
    assert dispatch.asked == []


async def test_a_detached_connection_has_no_channel() -> None:
    """Requests fail and notifications are dropped; nothing keeps the closed channel alive."""
    dispatch = FakeDispatch()
    legacy = Connection.for_loop(dispatch)
    legacy.detach()
    with pytest.raises(ConnectionClosed):
        await legacy.send_raw_request("roots/list")
    await legacy.outbound.notify("notifications/message")
    modern = Connection.from_envelope(LATEST_MODERN_VERSION, None, {}, outbound=dispatch)
    modern.detach()
    with pytest.raises(NoBackChannel):
        await modern.send_raw_request("roots/list")
    await modern.outbound.notify("notifications/message")
    assert (dispatch.asked, dispatch.told) == ([], [])


def test_a_missing_capability_is_named_or_the_missing_session() -> None:
    """Without a session the capabilities of a legacy client are not known."""
    error = modern_connection().capability_error({"sampling": {}})
    assert type(error) is CapabilityNotDeclared
    assert error.required == {"sampling": {}}
    error = Connection.for_loop(FakeDispatch()).capability_error({"sampling": {}, "roots": {}})
    assert type(error) is ClientNotAskable
    assert "roots, sampling" in str(error)
    assert error.required == {"sampling": {}, "roots": {}}


async def test_a_notification_of_another_revision_is_refused() -> None:
    """The client would not know it."""
    connection = Connection.for_loop(FakeDispatch())
    with pytest.raises(LocalError, match=f"does not exist in revision {LATEST_HANDSHAKE_VERSION}"):
        await connection.notify("notifications/subscriptions/acknowledged", {})
    connection.check_notification("notifications/message")


def test_callbacks_of_a_closing_channel_run_once() -> None:
    """Each once, those that were removed not at all, and late ones at once."""
    connection = Connection.for_loop(FakeDispatch())
    called: list[str] = []
    connection.on_closing(lambda: called.append("a"))
    undo = connection.on_closing(lambda: called.append("b"))
    undo()
    undo()
    assert called == []
    connection.closing()
    connection.closing()
    assert called == ["a"]
    connection.on_closing(lambda: called.append("late"))()
    assert called == ["a", "late"]


def test_a_connection_may_close_together_with_another_one() -> None:
    """As those of the requests of one stream do."""
    standing, request = Connection.for_loop(FakeDispatch()), modern_connection()
    request.closing_state = standing.shared_closing()
    called: list[str] = []
    request.on_closing(lambda: called.append("closed"))
    standing.closing()
    assert called == ["closed"]
    assert standing.shared_closing() is request.closing_state


async def test_an_event_may_be_set_before_or_while_somebody_waits() -> None:
    """And before any event loop runs."""
    event = OnceEvent()
    assert not event.is_set()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(event.wait)
        tasks.start_soon(event.wait)
        await anyio.wait_all_tasks_blocked()
        event.set()
    assert event.is_set()
    await event.wait()
    await OnceEvent(is_set=True).wait()


def test_the_client_of_a_handshake_is_the_one_that_was_negotiated() -> None:
    """It is read once; what was known before the handshake is out of date."""
    connection = Connection.for_loop(FakeDispatch())
    assert connection.client_capabilities == {}
    client = convert(
        {"protocolVersion": "2025-06-18", "capabilities": {"roots": {}}, "clientInfo": {"name": "c", "version": "1"}},
        InitializeParams,
    )
    connection.commit(Negotiation(client, "2025-06-18"))
    assert connection.client_params is client
    assert connection.client_info is client.client_info
    assert connection.client_capabilities == {"roots": {}}
    assert (connection.protocol_version, connection.revision.version) == ("2025-06-18", "2025-06-18")
    assert connection.initialize_accepted
    modern = modern_connection({"name": "c", "version": "1"}, {})
    assert modern.client_params is modern.client_params
