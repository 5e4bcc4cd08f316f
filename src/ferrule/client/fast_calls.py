"""Decides which calls of tools go by the fast path, and counts them.

The fast path takes calls with only a name, arguments and a time-out, on a connection that offers it. The general path
takes all other calls, and continues a call of the fast path whose outcome is not a plain result.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from ferrule.client.calls.request_sender import NOT_GIVEN
from ferrule.client.fast_path.http import HttpFastPath, SendsPlainCalls
from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.fast_path.prepared import MAX_PREPARED, PreparedCall
from ferrule.kernel.concurrency.spawner import is_asyncio
from ferrule.wire.codec import encode
from ferrule.wire.faults import EncodeError
from ferrule.wire.types import ToolResult

if TYPE_CHECKING:
    from ferrule.client.calls.lists import ResultReader
    from ferrule.client.connection.connector import Session
    from ferrule.client.connection.sessions import SessionManager
    from ferrule.client.settings import ClientSettings

__all__ = ["CallCounts", "FastCalls", "OffersFastPath", "PlainCallSender"]

_NO_ARGUMENTS: Final = b""


@dataclass(frozen=True, slots=True)
class CallCounts:
    """How many calls of tools each path has taken.

    Attributes:
        fast: calls that the fast path ended: with a plain result, or because the caller gave up.
        general: all other calls, also those that the fast path began.
    """

    fast: int
    general: int


class PlainCallSender(Protocol):
    """Sends plain calls over one connection."""

    @property
    def is_open(self) -> bool:
        """Whether a call can be sent now without waiting."""
        ...

    def call(
        self,
        prepared: PreparedCall,
        arguments: bytes,
        headers: Mapping[str, str] | None,
        timeout_s: float | None,
        wait_s: float | None,
    ) -> Awaitable[ToolResult | FirstOutcome] | None:
        """Send a call and return its result, or the outcome that the general path continues from.

        ``None`` for a call that the general path has to send.

        Args:
            prepared: the call.
            arguments: as JSON; empty for none.
            headers: HTTP headers that mirror arguments; ``None`` for none.
            timeout_s: seconds without a response or progress; ``None``: no bound.
            wait_s: seconds from the last progress to the time-out; ``None``: progress does not extend the time.
        """
        ...


@runtime_checkable
class OffersFastPath(Protocol):
    """A channel that may have a fast path."""

    @property
    def fast_path(self) -> PlainCallSender | None:
        """The fast path; ``None`` if this channel has none."""
        ...


class FastCalls:
    """The fast path of one client, over all its sessions.

    Args:
        sessions: returns the session in use.
        reader: returns the headers that mirror the arguments of a call.
        settings: the settings of the client.

    Attributes:
        fast, general: see `CallCounts`.
    """

    def __init__(self, sessions: SessionManager, reader: ResultReader, settings: ClientSettings) -> None:
        timeouts = settings.timeouts
        self.fast = self.general = 0
        self._sessions = sessions
        self._reader = reader
        self._timeout_s = timeouts.timeout_s
        self._middleware = settings.middleware
        self._resets = timeouts.reset_on_progress
        self._is_on = (
            settings.fast_path
            and os.environ.get("FERRULE_FAST_PATH") != "0"
            and settings.handlers.progress is None
            and timeouts.max_total_s is None
        )
        self._session: Session | None = None
        self._meta: Mapping[str, Any] = {}
        self._path: PlainCallSender | None = None
        self._mirrors = False
        self._prepared: dict[str, PreparedCall] = {}
        self._variant: tuple[bool, bool] = (True, True)

    def begin(
        self, name: str, arguments: Mapping[str, Any] | None, timeout_s: Any
    ) -> Awaitable[ToolResult | FirstOutcome] | None:
        """Start a call and return an awaitable of its result; ``None`` if it has to go by the general path."""
        session = self._sessions.current
        if session is None or session is not self._session or session.meta is not self._meta:
            self._take_up(session)
        path = self._path
        if path is None or self._middleware or not path.is_open:
            return None
        if timeout_s is NOT_GIVEN:
            timeout_s = self._timeout_s
        has_token = self._resets and timeout_s is not None
        variant = arguments is not None, has_token
        try:
            given = _NO_ARGUMENTS if arguments is None else encode(arguments)
            if variant != self._variant:
                self._prepared.clear()
                self._variant = variant
            prepared = self._prepared.get(name) or self._prepare(name, variant)
        except (EncodeError, TypeError):
            return None
        if b"\n" in given:  # ready-made JSON
            return None
        headers = self._reader.metadata.headers(name, arguments) if self._mirrors else None
        return path.call(prepared, given, headers, timeout_s, timeout_s if has_token else None)

    def _take_up(self, session: Session | None) -> None:
        self._session, self._path = session, None
        self._prepared.clear()
        if session is None or not self._is_on:
            return
        self._meta = session.meta
        channel = session.channel
        if session.revision.has_own_forms or not self._runs_on_asyncio():
            return
        self._mirrors = self._reader.mirrors_headers
        if isinstance(channel, OffersFastPath):
            self._path = channel.fast_path
        elif isinstance(channel, SendsPlainCalls):
            self._path = HttpFastPath(channel)

    def _runs_on_asyncio(self) -> bool:
        return is_asyncio()

    def _prepare(self, name: str, variant: tuple[bool, bool]) -> PreparedCall:
        if len(self._prepared) >= MAX_PREPARED:
            self._prepared.clear()
        has_arguments, has_token = variant
        made = PreparedCall(name, self._meta, has_arguments=has_arguments, has_token=has_token)
        self._prepared[name] = made
        return made
