"""One session over the life of a client, with a connector that the test controls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest

from ferrule.client.connection.connector import Session
from ferrule.client.connection.sessions import SessionHooks, SessionManager
from ferrule.protocol.errors import ConnectionClosed, LocalError, RemoteError
from ferrule.protocol.inbound import PROTOCOL_VERSION_KEY
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS, REVISIONS
from ferrule.wire.types import ServerCapabilities

NEWEST = MODERN_PROTOCOL_VERSIONS[-1]

pytestmark = pytest.mark.anyio


class _Channel:
    is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True


@dataclass
class _Connector:
    """Opens what the test lets it open."""

    life: Any = None
    gate: anyio.Event = field(default_factory=anyio.Event)
    error: Exception | None = None
    opened: list[Session] = field(default_factory=list[Session])
    renewed: int = 0
    middleware: list[Any] = field(default_factory=list[Any])

    async def open(self, background: Any) -> Session:
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        self.opened.append(_session())
        return self.opened[-1]

    async def reinitialize(self, lost: Session) -> Session:
        self.renewed += 1
        return Session(lost.channel, lost.revision, lost.capabilities, None, None, {})


def _session() -> Session:
    meta = {PROTOCOL_VERSION_KEY: NEWEST}
    return Session(cast("Any", _Channel()), REVISIONS[NEWEST], ServerCapabilities(), None, None, {}, meta)


class _Rig:
    """A manager, its connector, and the hooks that were called, by name."""

    def __init__(self, *, restarts: bool = True) -> None:
        self.connector = _Connector()
        self.calls: list[str] = []
        self.prepare: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
        hooks = SessionHooks(
            label=lambda: "the server",
            prepare=self._prepare,
            before_renewal=self._noted("before_renewal"),
            after_renewal=lambda: self.calls.append("after_renewal"),
            explain_failure=self._noted("explain_failure"),
            close_subscriptions=self._noted("close_subscriptions"),
            close_http=self._noted("close_http"),
        )
        self.manager = SessionManager(cast("Any", self.connector), hooks, restarts=restarts)

    async def _prepare(self, session: Session) -> None:
        await self.prepare()

    def _noted(self, name: str) -> Callable[..., Awaitable[None]]:
        async def note(*arguments: Any) -> None:
            self.calls.append(name)

        return note


async def test_the_old_name_of_the_channel_warns() -> None:
    """Programs for 0.1 that looked at it work for one more release."""
    session = _session()
    with pytest.warns(DeprecationWarning, match=r"Session\.channel"):
        assert session.link is session.channel


async def test_callers_at_the_same_time_share_one_session() -> None:
    """Connecting twice is connecting once."""
    rig = _Rig()
    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(rig.manager.connect)
        rig.connector.gate.set()
    assert rig.manager.current is rig.connector.opened[0]
    assert len(rig.connector.opened) == 1
    await rig.manager.aclose()


async def test_a_failure_while_connecting_leaves_nothing_open_and_says_where_it_was() -> None:
    """The error has server and method; the HTTP client is closed."""
    rig = _Rig()
    rig.connector.gate.set()
    rig.connector.error = LocalError("no such host")
    with pytest.raises(LocalError, match=r"no such host \(server the server, connect, ") as failed:
        await rig.manager.connect()
    assert (failed.value.server, failed.value.method) == ("the server", "connect")
    assert rig.calls == ["explain_failure", "close_http"]
    assert (rig.manager.current, rig.manager.is_open, rig.manager.background.is_closed) == (None, False, True)


async def test_a_session_that_cannot_be_prepared_is_closed() -> None:
    """Its process must not outlive the attempt."""
    rig = _Rig()
    rig.connector.gate.set()

    async def fails() -> None:
        raise ConnectionClosed("ended at once")

    rig.prepare = fails
    with pytest.raises(ConnectionClosed):
        await rig.manager.connect()
    assert rig.connector.opened[0].channel.is_closed


async def test_closing_gives_up_an_attempt_to_connect() -> None:
    """The caller that waits for the connection learns why."""
    rig = _Rig()
    errors: list[ConnectionClosed] = []

    async def connect() -> None:
        try:
            await rig.manager.connect()
        except ConnectionClosed as error:
            errors.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(connect)
        while not rig.manager.is_connecting:
            await anyio.lowlevel.checkpoint()
        await rig.manager.aclose()
    assert "was closed while it connected" in str(errors[0])


async def test_a_session_that_has_ended_is_replaced_by_the_next_call() -> None:
    """A server process that died is started again, once for all callers."""
    rig = _Rig()
    rig.connector.gate.set()
    await rig.manager.connect()
    await rig.connector.opened[0].channel.aclose()
    assert rig.manager.working() is None
    first, second = await rig.manager.ensure(), await rig.manager.ensure()
    assert first is second is rig.connector.opened[1]
    await rig.manager.aclose()
    with pytest.raises(ConnectionClosed, match="is not connected"):
        await rig.manager.ensure()


async def test_without_restarts_a_session_that_has_ended_stays_ended() -> None:
    """The program decides what a new process would mean."""
    rig = _Rig(restarts=False)
    rig.connector.gate.set()
    await rig.manager.connect()
    await rig.connector.opened[0].channel.aclose()
    with pytest.raises(ConnectionClosed, match="restart is off"):
        await rig.manager.ensure()
    await rig.manager.aclose()


async def test_a_lost_session_is_renewed_on_its_channel() -> None:
    """The server has forgotten it, so what was kept of its answers goes first, and listeners look again."""
    rig = _Rig()
    rig.connector.gate.set()
    await rig.manager.connect()
    lost = rig.manager.required()
    lost.is_lost = True
    renewed = await rig.manager.ensure()
    assert (renewed.channel is lost.channel, rig.connector.renewed) == (True, 1)
    assert rig.calls == ["before_renewal", "after_renewal"]
    await rig.manager.aclose()


class _Watch:
    """A middleware that notes sessions."""

    def __init__(self) -> None:
        self.notes: list[str | None] = []

    def session_opened(self, session: Session) -> None:
        self.notes.append("opened")

    def session_closed(self, session: Session, error: str | None) -> None:
        self.notes.append(error)


async def test_middleware_is_shown_each_session_and_its_end_once() -> None:
    """Why it ended: the connection, the server, or the client itself; also after the revision was switched."""
    rig, watch = _Rig(), _Watch()
    rig.connector.middleware.append(watch)
    rig.connector.gate.set()
    await rig.manager.connect()
    rig.manager.required().is_lost = True
    renewed = await rig.manager.ensure()
    cast("Any", renewed.channel).is_closed = True
    session = await rig.manager.ensure()
    refusal = RemoteError("no", code=JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION, data={"supported": [NEWEST]})
    rig.manager.switch_revision(session, refusal)
    await rig.manager.aclose()
    await rig.manager.aclose()
    assert watch.notes == ["opened", "session_lost", "opened", "connection_closed", "opened", None]


async def test_a_refused_revision_gives_way_to_one_that_the_server_lists() -> None:
    """The envelope of later requests names the new one; without a common revision nothing changes."""
    rig = _Rig()
    rig.connector.gate.set()
    await rig.manager.connect()
    session = rig.manager.required()
    refusal = RemoteError("no", code=JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION, data={"supported": ["1999-01-01"]})
    assert rig.manager.switch_revision(session, refusal) is None
    refusal.data = {"supported": ["1999-01-01", NEWEST]}
    switched = rig.manager.switch_revision(session, refusal)
    assert switched is rig.manager.current
    assert switched is not None
    assert switched.meta[PROTOCOL_VERSION_KEY] == NEWEST
    await rig.manager.aclose()
    assert rig.calls == ["close_subscriptions", "close_http"]
