"""The session of a client: opens it, renews it, opens it again after a failure, closes it.

No resource belongs to the task of a caller. The tasks of a client belong to its `Background`. One lock makes callers
share each connecting or renewal, and a caller that waits for it can be cancelled without effect on the others.

How the client recovers:

* the channel is closed (a server process ended): the call in flight has failed; the next call opens a new channel;
* the session is lost (404, legacy): one new handshake for all callers;
* the revision is refused (-32022, modern): one more attempt with a revision that the server lists.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import anyio

from ferrule.client.connection.negotiation import mutual_versions
from ferrule.client.errors import note_facts
from ferrule.protocol.errors import ConnectionClosed, RemoteError
from ferrule.protocol.inbound import PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background
from ferrule.transports.http.errors import SessionLost
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS, REVISIONS

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Connector, Session

__all__ = ["ObservesSessions", "SessionHooks", "SessionManager"]

logger = logging.getLogger("ferrule.client")


@runtime_checkable
class ObservesSessions(Protocol):
    """A middleware that is called when a session of the client opens and ends."""

    def session_opened(self, session: Session) -> None:
        """Note that a session was negotiated. It must not raise."""
        ...

    def session_closed(self, session: Session, error: str | None) -> None:
        """Note that a session has ended. It must not raise.

        Args:
            session: the session.
            error: ``"connection_closed"`` if the connection ended by itself, ``"session_lost"`` if the server no longer
                has the session; ``None`` if the client has closed it.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHooks:
    """Callbacks of a client for when its session opens, is renewed, fails or closes.

    Attributes:
        label: returns the server's name for messages.
        prepare: brings a new session to the state of the last one (log level, subscriptions).
        before_renewal: called when the server no longer has the session; removes cached results.
        after_renewal: called when another session is in use, since notifications may have been missed.
        explain_failure: adds a hint to an error, such as how to sign in.
        close_subscriptions: closes the subscriptions before the session is closed.
        close_http: closes the client's HTTP client, as the last step.
    """

    label: Callable[[], str]
    prepare: Callable[[Session], Awaitable[None]]
    before_renewal: Callable[[], Awaitable[None]]
    after_renewal: Callable[[], None]
    explain_failure: Callable[[BaseException], Awaitable[None]]
    close_subscriptions: Callable[[], Awaitable[None]]
    close_http: Callable[[], Awaitable[None]]


class SessionManager:
    """Opens, renews and closes the session of a client, once for all callers that wait for it.

    Args:
        connector: opens sessions.
        hooks: the hooks of the client.
        restarts: open a new session when a call finds the last one ended.

    Attributes:
        current: the session in use; it may have ended. ``None`` without one.
        background: the tasks of the client.
        is_open: whether the program has opened the client and not closed it.
    """

    def __init__(self, connector: Connector, hooks: SessionHooks, *, restarts: bool) -> None:
        self.connector = connector
        self.current: Session | None = None
        self.background = Background()
        self.is_open = False
        self._hooks = hooks
        self._restarts = restarts
        self._lock: anyio.Lock | None = None
        self._connecting: anyio.CancelScope | None = None
        self._watched: Background | None = None
        self._reported: Session | None = None
        self._observed: Session | None = None

    @property
    def is_connecting(self) -> bool:
        """Whether a session is being opened or renewed."""
        return self._connecting is not None

    def working(self) -> Session | None:
        """Return the session in use, if requests can be sent over it."""
        session = self.current
        return None if session is None or session.channel.is_closed or session.is_lost else session

    def required(self) -> Session:
        """Return the session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        if self.current is None:
            raise ConnectionClosed(f"The client of {self._hooks.label()} is not connected")
        return self.current

    async def connect(self) -> None:
        """Open a session, if there is none.

        Raises:
            LocalError: the connection failed, or there is no common revision; nothing is left open.
            RemoteError: the server refused the handshake; nothing is left open.
        """
        started = time.monotonic()
        async with self.lock():
            if self.current is None:
                try:
                    self.current = await self._open()
                except BaseException as error:
                    try:
                        if isinstance(error, Exception):
                            await self._hooks.explain_failure(error)
                    finally:
                        with anyio.CancelScope(shield=True):
                            await self._release()
                    note_facts(error, self._hooks.label(), "connect", time.monotonic() - started)
                    raise
                self.is_open = True

    async def aclose(self) -> None:
        """See `Client.aclose`."""
        self.is_open = False
        # First: an attempt to connect holds the lock, and may wait for a server that never responds.
        if self._connecting is not None:
            self._connecting.cancel()
        with anyio.CancelScope(shield=True):
            lock = self.lock()
            try:
                await lock.acquire()
            except BaseException:  # a cancellation by asyncio, which a shielded scope lets through
                await self._close()
                raise
            try:
                await self._close()
            finally:
                lock.release()

    async def ensure(self) -> Session:
        """Return the open session, or a new one where the last one has ended or was lost.

        Raises:
            ConnectionClosed: the client is not connected, or the session has ended and restarts are off.
            LocalError, RemoteError: no new session could be opened.
        """
        label = self._hooks.label()
        if not self.is_open:
            raise ConnectionClosed(f"The client of {label} is not connected: use 'async with' or await connect()")
        async with self.lock():
            session = self.current
            # Again: the client may have been closed while this waited for the lock.
            if not self.is_open:
                raise ConnectionClosed(f"The client of {label} is closed")
            if session is not None and not session.channel.is_closed:
                return await self._renew(session) if session.is_lost else session
            if session is not None:
                if not self._restarts:
                    raise ConnectionClosed(f"The connection to {label} has ended, and restart is off")
                if session is not self._reported:  # once for each, and not for each attempt
                    logger.warning("The connection to %s has ended; connecting again", label)
                    self._reported = session
                self._note_end(session, "connection_closed")
                await session.channel.aclose()
            self.current = await self._open()
            return self.current

    def note_lost(self, session: Session, lost: SessionLost) -> None:
        """Note that the server has refused a request because the session is lost.

        It has no effect if another caller has renewed the session: the refused id is then no longer in use.
        """
        current = self.current
        if current is not None and current.channel is session.channel and current.session_id == lost.session_id:
            current.is_lost = True

    def switch_revision(self, session: Session, error: RemoteError) -> Session | None:
        """Return the session in another modern revision, which the server listed while it refused that of ``session``.

        Returns:
            ``None`` where there is no such revision.
        """
        data: Any = error.data
        supported = cast("Mapping[str, Any]", data).get("supported") if isinstance(data, Mapping) else None
        versions = mutual_versions(supported, MODERN_PROTOCOL_VERSIONS)
        if not versions:
            return None
        meta = {**session.meta, PROTOCOL_VERSION_KEY: versions[0]}
        switched = replace(session, revision=REVISIONS[versions[0]], meta=meta)
        if self.current is session:
            self.current = switched
        if self._observed is session:
            self._observed = switched
        return switched

    def lock(self) -> anyio.Lock:
        """Return the lock of connecting, renewing and closing; one for each event loop."""
        if self._lock is None:
            self._lock = anyio.Lock()
        return self._lock

    # -- under the lock ---------------------------------------------------------------------------------------------

    async def _open(self, lost: Session | None = None) -> Session:
        """Open a session on a new channel, or on that of a lost one. Closing the client gives it up.

        Raises:
            Exception: any error of connecting or of the handshake; a channel that was made is closed.
        """
        session: Session | None = None
        # Closing ends the background tasks for good, and a client can be opened again.
        if self.background.is_closed:
            self.background = Background()
        with anyio.CancelScope() as self._connecting:
            try:
                if lost is None:
                    session = await self.connector.open(self.background)
                else:
                    session = await self.connector.reinitialize(lost)
                await self._hooks.prepare(session)
                if lost is None:
                    self._watch_loop(self.background)
                self._note_begin(session)
                return session
            except BaseException:
                # The channel of a lost session stays open, because the next attempt uses it.
                if session is not None and lost is None:
                    with anyio.CancelScope(shield=True):
                        await session.channel.aclose()
                raise
            finally:
                self._connecting = None
        raise ConnectionClosed(f"The client of {self._hooks.label()} was closed while it connected")

    async def _renew(self, lost: Session) -> Session:
        """Do a new handshake for a lost session. If that fails, the next call tries again."""
        logger.info("%s no longer has the session; initializing again", self._hooks.label())
        self._note_end(lost, "session_lost")
        await self._hooks.before_renewal()
        self.current = renewed = await self._open(lost)
        self._hooks.after_renewal()
        return renewed

    async def _close(self) -> None:
        """Close everything; each step runs even if an earlier one fails or is cancelled."""
        self.is_open = False
        session, self.current = self.current, None
        self._note_closing(session)
        try:
            await self._hooks.close_subscriptions()
        finally:
            try:
                if session is not None:
                    await session.channel.aclose()
            finally:
                await self._release()

    async def _release(self) -> None:
        """Release everything below a session: the lifespan of a server in this process, tasks, the HTTP client."""
        life, self.connector.life = self.connector.life, None
        try:
            if life is not None:
                await life.aclose()
        finally:
            try:
                await self.background.aclose()
            finally:
                await self._hooks.close_http()

    # -- what middleware observes -----------------------------------------------------------------------------------

    def _note_begin(self, session: Session) -> None:
        self._observed = session
        for each in self.connector.middleware:
            if isinstance(each, ObservesSessions):
                each.session_opened(session)

    def _note_closing(self, session: Session | None) -> None:
        if session is not None:
            self._note_end(session, "connection_closed" if session.channel.is_closed else None)

    def _note_end(self, session: Session, error: str | None) -> None:
        """Pass the end of a session to the middleware, once for each session that it was shown."""
        if session is not self._observed:
            return
        self._observed = None
        for each in self.connector.middleware:
            if isinstance(each, ObservesSessions):
                each.session_closed(session, error)

    # -- the end of the event loop ----------------------------------------------------------------------------------

    def _watch_loop(self, background: Background) -> None:
        """Close when the event loop ends before the client: open connections cannot be used in another loop.

        The next call opens a session again, in the loop that runs then.
        """
        if self._watched is not background:
            self._watched = background
            background.start(self._close_with_loop(background), "ferrule-client")

    async def _close_with_loop(self, background: Background) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not background.is_closed:
                logger.debug("The event loop of the client of %s ends before the client", self._hooks.label())
                session, self.current = self.current, None
                self._note_closing(session)
                self._lock = None
                with anyio.CancelScope(shield=True):
                    await self._hooks.close_subscriptions()
                    if session is not None:
                        await session.channel.aclose()
                    await self._release()
