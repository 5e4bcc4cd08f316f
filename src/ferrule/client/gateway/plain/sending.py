"""Sends plain calls over a session with a backend, by the fast path of the client; their results stay encoded.

A call is plain if the fast path of the gateway's server says so (`ferrule.kernel.fast_path.fast_tools`), if its client
does not ask for log messages, and if its session with the backend is open. The proxy serves all others.
What a backend sends during a plain call belongs to the call: `PlainForward` makes the request context when it is asked.
"""

from __future__ import annotations

from collections.abc import Awaitable, Hashable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from msgspec import Raw

from ferrule.client.fast_calls import FastCalls
from ferrule.client.fast_path.http import HttpFastPath
from ferrule.client.fast_path.outcome import FirstOutcome
from ferrule.client.fast_path.prepared import MAX_PREPARED, PreparedCall
from ferrule.client.fast_path.streams import StreamFastPath
from ferrule.kernel.fast_path.fast_tools import FastCall
from ferrule.wire.plain_answers import EncodedResult

if TYPE_CHECKING:
    from ferrule.client.calls.lists import ResultReader
    from ferrule.client.connection.connector import Session
    from ferrule.client.connection.sessions import SessionManager
    from ferrule.client.settings import ClientSettings
    from ferrule.kernel.dispatch import OnProgress
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["EncodedPath", "PlainForward", "PlainSender", "first_outcome"]

EncodedPath: TypeAlias = StreamFastPath | HttpFastPath
"""The fast paths whose results can stay encoded."""

first_outcome: Final[ContextVar[FirstOutcome | None]] = ContextVar("ferrule_gateway_first", default=None)
"""The outcome of the forwarded request, if it was sent as a plain call already: the proxy does not send it again."""


class PlainForward:
    """A plain call that is being forwarded, in the place of its request context in `BackendSession.active`."""

    __slots__ = ("_call",)

    method: Final = "tools/call"

    def __init__(self, call: FastCall) -> None:
        self._call = call

    @property
    def request(self) -> ServerRequestContext[Any]:
        """The request context; made at the first use."""
        return self._call.tool.request_of(self._call)

    @property
    def session(self) -> Any:
        """The session of the client."""
        return self.request.session

    @property
    def transport(self) -> Any:
        """The facts of the transport."""
        return self.request.transport

    def progress(self, progress: float, total: float | None, message: str | None) -> Awaitable[None]:
        """Return an awaitable that sends the client progress of the call."""
        return self.request.session.progress(progress, total, message)


class PlainSender(FastCalls):
    """The fast path of the client of one session with a backend.

    Attributes:
        prepared: the prepared calls of the session in use, by the ``key`` of `prepare`.
    """

    def __init__(self, sessions: SessionManager, reader: ResultReader, settings: ClientSettings) -> None:
        super().__init__(sessions, reader, settings)
        self.prepared: dict[Any, PreparedCall] = cast("Any", self._prepared)

    def ready(self) -> EncodedPath | None:
        """Return what sends plain calls; ``None`` while none can be sent."""
        session = self._sessions.current
        if session is None or session is not self._session or session.meta is not self._meta:
            self._take_up(session)
        path = self._path
        return cast("EncodedPath", path) if path is not None and path.is_open else None

    def prepare(
        self, key: Hashable, name: str, meta: Mapping[str, Any], *, has_arguments: bool, has_token: bool
    ) -> PreparedCall | None:
        """Return a prepared call and remember it; ``None`` if its arguments are mirrored in headers.

        Args:
            key: identifies the other arguments in this session.
            name: the name of the tool at the backend.
            meta: ``_meta`` beside that of the session.
            has_arguments: whether the client has sent arguments.
            has_token: whether the client asks for progress.
        """
        if self._mirrors and self._reader.metadata.has_headers(name):
            return None
        if len(self._prepared) >= MAX_PREPARED:
            self._prepared.clear()
        has_token = has_token or (self._resets and self._timeout_s is not None)
        made = PreparedCall(name, {**self._meta, **meta}, has_arguments=has_arguments, has_token=has_token)
        self.prepared[key] = made
        return made

    def send(
        self,
        path: EncodedPath,
        prepared: PreparedCall,
        arguments: bytes | Raw,
        on_progress: OnProgress | None,
    ) -> Awaitable[EncodedResult | FirstOutcome]:
        """Send a call, and return an awaitable of its result, or of the outcome that the proxy continues from."""
        timeout_s = self._timeout_s
        wait_s = timeout_s if self._resets else None
        sent = path.call(prepared, arguments, None, timeout_s, wait_s, on_progress)
        return cast("Awaitable[EncodedResult | FirstOutcome]", sent)

    def _runs_on_asyncio(self) -> bool:
        return True  # the fast path of the server runs nowhere else, and asks here without a task, too

    def _take_up(self, session: Session | None) -> None:
        super()._take_up(session)
        path = self._path
        if isinstance(path, (StreamFastPath, HttpFastPath)):
            path.keep_encoded()
        else:
            self._path = None
