"""Keeping the connection to one of several servers: connect, reconnect with growing pauses, and a circuit breaker.

One task makes every attempt, so that a caller who is cancelled ends no attempt that others wait for. Requests do not
wait for a server that is known to be away: they read `ConnectionSupervisor.is_up`, or call
`ConnectionSupervisor.reach`, which makes the next attempt begin at once and fails at once while the circuit is open.
The log has one line for each change, and none for each attempt.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import anyio

from ferrule.client.errors import ServerUnavailable
from ferrule.client.supervision.feed import StatusFeed, StatusObserver, StatusWatch
from ferrule.client.supervision.policy import DEFAULT_POLICY, ReconnectPolicy
from ferrule.client.supervision.status import ConnectionState, ConnectionStatus
from ferrule.protocol.errors import ConnectionClosed

if TYPE_CHECKING:
    from ferrule.transports.background import Background, BackgroundTask

__all__ = ["Attempt", "ConnectionSupervisor", "Sleep"]

logger = logging.getLogger("ferrule.client")

Attempt: TypeAlias = Callable[[], Awaitable[None]]
"""Connects; raises the error if that fails."""

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""``await sleep(seconds)``; tests pass a function of their own."""

_KEEP: Final[Any] = object()


class ConnectionSupervisor:
    """Keeps the connection to one server.

    Args:
        name: the name of the server, for states and the log.
        attempt: connects to it, within a bounded time.
        ended: returns when the connection has ended, and raises or returns the reason; ``None`` where only a failed
            request shows that.
        policy: the pauses, and when the circuit opens.
        sleep: waits between two attempts.
        clock: returns seconds since the epoch.
        feed: receives each new state; one of its own if not given.
        on_open: called when the circuit opens, after the state has changed: ends requests that still wait.
    """

    def __init__(
        self,
        name: str,
        attempt: Attempt,
        *,
        ended: Callable[[], Awaitable[Exception | None]] | None = None,
        policy: ReconnectPolicy = DEFAULT_POLICY,
        sleep: Sleep = anyio.sleep,
        clock: Callable[[], float] = time.time,
        feed: StatusFeed | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> None:
        self.name = name
        self.feed = StatusFeed() if feed is None else feed
        self._attempt = attempt
        self._next_attempt = attempt
        self._ended = ended
        self._on_open = on_open
        self._policy = policy
        self._sleep = sleep
        self._clock = clock
        self._status = ConnectionStatus(server=name, state="idle", since=clock())
        self._background: Background | None = None
        self._task: BackgroundTask | None = None
        self._settled: anyio.Event | None = None
        self._tried: anyio.Event | None = None
        self._lost: anyio.Event | None = None
        self._wake: anyio.Event | None = None
        self._last_attempt_at = 0.0
        self._is_proven = False
        self._is_reported = False

    # -- the state --------------------------------------------------------------------------------------------------

    @property
    def status(self) -> ConnectionStatus:
        """The state now."""
        return self._status

    @property
    def state(self) -> ConnectionState:
        """The state now, as one word."""
        return self._status.state

    @property
    def error(self) -> Exception | None:
        """Why there is no connection; ``None`` while there is one, and before the first attempt has ended."""
        return self._status.error

    @property
    def is_up(self) -> bool:
        """Whether there is a connection."""
        return self._status.state == "connected"

    def observe(self, observer: StatusObserver) -> Callable[[], None]:
        """Call a function with each new state; return a function that ends this."""
        return self.feed.observe(observer)

    def watch(self) -> StatusWatch:
        """Return an iterator over states: the present one, and each new one, until `close`."""
        return self.feed.watch([self._status])

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self, background: Background) -> None:
        """Connect, and stay connected, until ``background`` closes."""
        self._settled, self._tried = anyio.Event(), anyio.Event()
        self._lost, self._wake = anyio.Event(), anyio.Event()
        self._is_reported = False
        self._background = background
        self._next_attempt = self._attempt
        self._change("connecting", error=None, failures=0, down_since=None, next_attempt_at=None)
        self._task = background.start(self._run(), "ferrule-keep-connected")

    def fail(self, error: Exception) -> None:
        """Record that no attempt can be made, because the entry of the server cannot be used."""
        now = self._clock()
        self._change("failed", error=error, down_since=now, next_attempt_at=None)
        if self._settled is not None:
            self._settled.set()

    def close(self) -> None:
        """Make no more attempts, and record that the program has closed the connection. Idempotent."""
        self._background = None
        if self._task is not None:
            self._task.cancel()
        for waited in (self._settled, self._tried):
            if waited is not None:
                waited.set()
        if self._status.state not in ("closed", "failed"):
            self._change("closed", next_attempt_at=None)

    # -- used by requests ---------------------------------------------------------------------------------------------

    async def first_attempt(self) -> None:
        """Wait for the end of the first attempt."""
        if self._settled is not None:
            await self._settled.wait()

    def lose(self, error: Exception, attempt: Attempt | None = None) -> None:
        """Record that the server no longer responds, and start to reconnect.

        Args:
            error: the reason.
            attempt: what must succeed before the server counts as up again; ``None``: connecting.
        """
        if not self.is_up:
            return
        now = self._clock()
        was_stable = self._is_proven or not 0 <= now - self._status.since < self._policy.min_uptime_s
        self._next_attempt = attempt or self._attempt
        self._note_failure(error, 1 if was_stable else self._status.failures + 1)
        if self._lost is not None:
            self._lost.set()

    def succeed(self) -> None:
        """Record that a request succeeded over the connection: its end is not a further failure in a row."""
        if not self._is_proven:
            self._is_proven = True
            if self.is_up and self._status.failures:
                self._change("connected", failures=0)

    async def reach(self) -> None:
        """Return when there is a connection; where there is none, make the next attempt begin at once.

        Raises:
            ServerUnavailable: the circuit is open.
            ConnectionClosed: the supervisor is not started, or closed.
            Exception: the reason why the attempt failed.
        """
        if self.is_up:
            return
        status = self._status
        if status.state == "failed" and status.error is not None:
            raise status.error
        if self._background is None or self._tried is None or self._wake is None:
            raise ConnectionClosed(f"The client of {self.name} is not connected: use 'async with' or await connect()")
        if status.state == "half_open" or (status.state == "circuit_open" and not self._may_probe()):
            raise self.unavailable()
        tried = self._tried
        self._wake.set()
        await tried.wait()
        status = self._status
        if status.state == "connected":
            return
        if status.error is None:
            raise ConnectionClosed(f"The client of {self.name} was closed while it connected")
        raise status.error

    def _may_probe(self) -> bool:
        # A clock that was set back must not keep the circuit open.
        return not 0 <= self._clock() - self._last_attempt_at < self._policy.probe_pause_s

    def unavailable(self) -> ServerUnavailable:
        """Return the error of a request to a server that is known to be away: since when, why, and until when."""
        status = self._status
        error = ServerUnavailable(
            self.name,
            status.describe(self._clock()),
            down_since=status.down_since,
            next_attempt_at=status.next_attempt_at,
        )
        error.__cause__ = status.error
        return error

    # -- the task -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            await self._try()
            if self.is_up:
                await self._until_lost()
            await self._pause()
            self._change("half_open" if self._policy.opens(self._status.failures) else "connecting")

    async def _try(self) -> None:
        assert self._settled is not None
        assert self._tried is not None
        self._last_attempt_at = self._clock()
        self._lost = anyio.Event()
        try:
            await self._next_attempt()
        except Exception as error:
            self._note_failure(error, self._status.failures + 1)
        else:
            self._note_connected()
        finally:
            self._settled.set()
            tried, self._tried = self._tried, anyio.Event()
            tried.set()

    async def _until_lost(self) -> None:
        assert self._lost is not None
        lost = self._lost
        if self._ended is None:
            await lost.wait()
            return
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch_end, self._ended)
            await lost.wait()
            group.cancel_scope.cancel()

    async def _watch_end(self, ended: Callable[[], Awaitable[Exception | None]]) -> None:
        try:
            error = await ended()
        except Exception as raised:
            error = raised
        self.lose(error or ConnectionClosed(f"The connection to {self.name} has ended"))

    async def _pause(self) -> None:
        """Wait until the next attempt is due, or a request calls for it."""
        assert self._wake is not None
        wake = self._wake
        pause_s = self._policy.pause_s(self._status.failures)

        async def sleep(scope: anyio.CancelScope) -> None:
            await self._sleep(pause_s)
            scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(sleep, group.cancel_scope)
            await wake.wait()
            group.cancel_scope.cancel()

    # -- changes of the state -----------------------------------------------------------------------------------------

    def _note_connected(self) -> None:
        was_reported, self._is_reported = self._is_reported, False
        self._next_attempt = self._attempt
        self._is_proven = False
        self._change("connected", error=None, down_since=None, next_attempt_at=None)
        if was_reported:
            logger.info("The server %r can be reached again", self.name)

    def _note_failure(self, error: Exception, failures: int) -> None:
        now, before = self._clock(), self._status
        is_open = self._policy.opens(failures)
        was_open = before.state == "half_open"
        self._wake = anyio.Event()  # before observers run: one of them may call `reach`
        self._change(
            "circuit_open" if is_open else "waiting",
            error=error,
            failures=failures,
            next_attempt_at=now + self._policy.pause_s(failures),
            down_since=before.down_since or now,
        )
        if not self._is_reported:
            self._is_reported = True
            was_up = before.state == "connected"
            words = "does not answer any more" if was_up else "cannot be reached and is tried again"
            logger.warning("The server %r %s: %s", self.name, words, error)
        else:
            logger.debug("The server %r still cannot be reached: %s", self.name, error)
        if is_open and not was_open:
            words = "The circuit of the server %r is open after %d failures in a row: calls fail at once"
            logger.warning(words, self.name, failures)
            if self._on_open is not None:
                self._on_open()

    def _change(
        self,
        state: ConnectionState,
        *,
        error: Any = _KEEP,
        failures: int | None = None,
        next_attempt_at: Any = _KEEP,
        down_since: Any = _KEEP,
    ) -> None:
        status = self._status
        given = {"error": error, "next_attempt_at": next_attempt_at, "down_since": down_since}
        self._status = replace(
            status,
            state=state,
            since=status.since if status.state == state else self._clock(),
            failures=status.failures if failures is None else failures,
            **{name: value for name, value in given.items() if value is not _KEEP},
        )
        if self._status != status:
            self.feed.publish(self._status)
