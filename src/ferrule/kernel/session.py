"""`ServerSession`: the messages that a handler may send to its peer while it serves one message.

Notifications are sent with the request that they belong to. A request to the client (legacy era) is checked against the
client's capabilities before it is sent. In the modern era a missing capability is the error -32021, and the request
itself is refused, because a modern server returns input requests instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from ferrule.kernel.concurrency.cancellation import Interruptible, failure_of
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.connection import Connection, GuardedDispatch
from ferrule.kernel.dispatch import CallOptions, DispatchContext
from ferrule.protocol.capabilities import missing_for_request
from ferrule.protocol.errors import (
    LocalError,
    MissingRequiredClientCapability,
    NotInRevision,
)
from ferrule.protocol.inbound import LOG_LEVEL_KEY
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError
from ferrule.wire.revisions import NotExpressible, project_params
from ferrule.wire.struct import WireStruct
from ferrule.wire.types import (
    ClientCapabilities,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitResult,
    Implementation,
    InitializeParams,
    ListRootsResult,
)

__all__ = ["ASKED", "LOG_LEVELS", "RESUMED", "THROUGH_SEARCH", "ServerSession", "log_level_passes"]

ResultT = TypeVar("ResultT")

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The log levels of the specification ("Logging", RFC 5424), in rising order of severity."""

ASKED: Final = "asked"
"""In `ServerSession.notes` after a request was sent to the client."""

RESUMED: Final = "resumed"
"""In `ServerSession.notes` after the sealed state of an earlier round was opened."""

THROUGH_SEARCH: Final = "through search"
"""In `ServerSession.notes` of a call that was received as a call of ``call_tool``; see `Server.unwrap_request`."""

_NO_NOTES: Final[frozenset[str]] = frozenset()

_SEVERITY: Final = {level: rank for rank, level in enumerate(LOG_LEVELS)}


def log_level_passes(level: str, threshold: str) -> bool:
    """Return whether a message of ``level`` is at or above ``threshold``.

    Raises:
        ValueError: ``level`` is not one of `LOG_LEVELS` (the caller's mistake).
    """
    if level not in _SEVERITY:
        raise ValueError(f"{level!r} is not a log level; one of {', '.join(LOG_LEVELS)}")
    return _SEVERITY[level] >= _SEVERITY.get(threshold, 0)


class ServerSession:
    """What a handler can send to its peer while it serves one message; the runner makes one for each message.

    Attributes:
        connection: the connection to the peer.
        loop: the asyncio event loop, where the transport knows it; see `Interruptible`.
        calls: number of messages sent so far; see `yield_to_loop`.
        meta: the raw ``params._meta`` of the message.
        notes: facts about the request for middleware: `ASKED`, `RESUMED`, `THROUGH_SEARCH`.
        body: the ``ferrule.app.rounds.body.CallBody`` of the function that serves the message, kept for that module;
            ``None`` before one has started.
    """

    __slots__ = ("_dispatch", "body", "calls", "connection", "loop", "meta", "notes")

    def __init__(self, connection: Connection, dispatch: DispatchContext, meta: Mapping[str, Any]) -> None:
        self.connection = connection
        self._dispatch = dispatch
        self.loop: Any = dispatch.loop if isinstance(dispatch, Interruptible) else None
        self.calls = 0
        self.meta = meta
        self.body: Any = None
        self.notes: frozenset[str] = _NO_NOTES

    @property
    def dispatch(self) -> DispatchContext:
        """The dispatch context of this message; it refuses requests where the era or the handshake forbids them."""
        connection = self.connection
        # Only where something is refused: the guard would be one more object and call for each request.
        if connection.revision.has_rounds or connection.handling_initialize:
            return GuardedDispatch(self._dispatch, connection)
        return self._dispatch

    def failure_of(self, error: BaseException) -> Exception:
        """Return the failure of this request's body; see `ferrule.kernel.concurrency.cancellation.failure_of`.

        Raises:
            BaseException: ``error`` itself, if it is a cancellation of the request.
        """
        try:
            return failure_of(error, self._dispatch)
        finally:
            del error  # its traceback may hold this frame

    @property
    def interruptible(self) -> Interruptible | None:
        """The dispatch context as `Interruptible`; ``None`` if the transport does not record interruptions."""
        return self._dispatch if isinstance(self._dispatch, Interruptible) else None

    # -- the peer ---------------------------------------------------------------------------------------------

    @property
    def protocol_version(self) -> str:
        """The revision of this message."""
        return self.connection.protocol_version

    @property
    def client_params(self) -> InitializeParams | None:
        """The client's ``initialize`` params; see `Connection.client_params`."""
        return self.connection.client_params

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version; ``None`` if it sent none."""
        return self.connection.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The client's declared capabilities; in the modern era those of this request."""
        return self.connection.client_capabilities

    @property
    def session_id(self) -> str | None:
        """The id of the legacy HTTP session; ``None`` elsewhere."""
        return self.connection.session_id

    @property
    def can_send_request(self) -> bool:
        """Whether `send_request` can work here."""
        return self._dispatch.can_send_request and not self.connection.revision.has_rounds

    # -- notifications ----------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request.

        Raises:
            LocalError: the revision has no such notification.
        """
        await yield_to_loop(self)
        revision = self.connection.revision
        # The table first: it has most notifications, and the full check asks about extensions, too.
        if method not in revision.server_notifications:
            self.connection.check_notification(method)
        await self._dispatch.notify(method, project_params(revision, method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress of the request, if it has a progress token; values that do not rise are not sent."""
        await yield_to_loop(self)
        if not self.connection.revision.has_progress_message:
            # `message` came with 2025-03-26 ("Progress").
            message = None
        await self._dispatch.progress(progress, total, message)

    def passes_log(self, level: str) -> bool:
        """Return whether a log message of this level may be sent to the client; see `log`.

        Raises:
            ValueError: ``level`` is not one of `LOG_LEVELS`.
        """
        connection = self.connection
        has_level = connection.revision.has_sessions
        # 2026-07-28: nothing without a level in `_meta` of this request. Before: the server may choose, and sends all.
        threshold: Any = connection.log_level or "debug" if has_level else self.meta.get(LOG_LEVEL_KEY)
        has_threshold = isinstance(threshold, str)
        has_log = "notifications/message" in connection.revision.server_notifications
        # Without a threshold the level is compared all the same, so that an unknown level always raises.
        return log_level_passes(level, threshold if has_threshold else "emergency") and has_threshold and has_log

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, if the rules of its era allow it ("Logging").

        Legacy era: at or above the level of ``logging/setLevel``; all messages before the client sent that. Modern era:
        at or above the level in ``_meta`` of this request; none without one.

        Raises:
            ValueError: ``level`` is not one of `LOG_LEVELS`.
        """
        await yield_to_loop(self)
        if not self.passes_log(level):
            return
        params: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        await self._dispatch.notify("notifications/message", params)

    # -- requests to the client (legacy era) ------------------------------------------------------------------

    async def send_request(
        self, method: str, params: Mapping[str, Any] | WireStruct | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request to the client while this message is being served, and return its result.

        Raises:
            CapabilityNotDeclared: in the legacy era, the client did not declare the capability, or the revision has no
                such request or field (`NotInRevision`).
            MissingRequiredClientCapability: the same in the modern era; if it is not caught, it becomes the error
                -32021.
            NoBackChannel: the modern era, or a transport without requests to the client.
            LocalError: during ``initialize``.
            RemoteError: the client sent an error response.
        """
        connection = self.connection
        raw: dict[str, Any] | None = None if params is None else to_builtins(params)

        missing = missing_for_request(connection.client_capabilities_raw, method, raw)
        if missing is not None and connection.revision.has_rounds:
            raise MissingRequiredClientCapability(missing)
        # After the capabilities: -32021 names what is missing, which helps the client more than "no channel".
        connection.check_can_request(method)
        if missing is not None:
            raise connection.capability_error(missing)
        if method not in connection.revision.server_requests:
            raise NotInRevision(f"{method} does not exist in revision {connection.protocol_version}")
        try:
            raw = project_params(connection.revision, method, raw)
        except NotExpressible as error:
            raise NotInRevision(
                f"{method} cannot be sent in revision {connection.protocol_version}: {error}"
            ) from error
        # A new set: the empty one is shared by all sessions.
        self.notes |= {ASKED}
        return await self._dispatch.send_raw_request(method, raw, opts)

    async def _request_as(
        self, method: str, params: Mapping[str, Any] | WireStruct | None, type_: type[ResultT], opts: CallOptions | None
    ) -> ResultT:
        result = await self.send_request(method, params, opts)
        try:
            return convert(result, type_)
        except ConvertError as error:
            raise LocalError(f"The client's response to {method} is malformed: {error}") from error

    async def elicit(
        self, message: str, requested_schema: Mapping[str, Any], opts: CallOptions | None = None
    ) -> ElicitResult:
        """Return the user's answer to a form ("Elicitation"); for errors see `send_request`.

        Args:
            message: shown to the user.
            requested_schema: the form's fields.
            opts: time-outs of the request.
        """
        params = {"message": message, "requestedSchema": dict(requested_schema)}
        return await self._request_as("elicitation/create", params, ElicitResult, opts)

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, opts: CallOptions | None = None
    ) -> ElicitResult:
        """Return the user's consent to open a URL (revision 2025-11-25); for errors see `send_request`.

        Args:
            message: shown to the user.
            url: the page to open.
            elicitation_id: names this elicitation in ``notifications/elicitation/complete``.
            opts: time-outs of the request.
        """
        params = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
        return await self._request_as("elicitation/create", params, ElicitResult, opts)

    async def create_message(
        self, params: CreateMessageRequestParams | Mapping[str, Any], opts: CallOptions | None = None
    ) -> CreateMessageResult:
        """Return a message of the client's model ("Sampling"); for errors see `send_request`."""
        return await self._request_as("sampling/createMessage", params, CreateMessageResult, opts)

    async def list_roots(self, opts: CallOptions | None = None) -> ListRootsResult:
        """Return the client's roots ("Roots"); for errors see `send_request`."""
        return await self._request_as("roots/list", None, ListRootsResult, opts)

    async def ping(self, opts: CallOptions | None = None) -> None:
        """Send a ping and wait for the response; for errors see `send_request`."""
        await self.send_request("ping", None, opts)
