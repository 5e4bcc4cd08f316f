"""What a handler may say to its peer while it serves one message.

Notifications go out beside the request they belong to. Questions (legacy era) are checked against what the client
declared before anything is sent: in the modern era a gap is the -32021 answer, and the question itself is refused,
because servers there ask by returning input requests.
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

__all__ = ["LOG_LEVELS", "ServerSession", "log_level_passes"]

ResultT = TypeVar("ResultT")

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The specification's levels, in rising order of severity."""

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
        connection: the peer and its standing channel.
        loop: the asyncio event loop, where the transport knows it; see `Interruptible`.
        notes: facts about the request for middleware: ``"asked"`` once the client was asked something,
            ``"resumed"`` once a state that an earlier round sealed was opened.
        body_task, rounds, manual_answers: kept here for the layer above, which asks questions in rounds
            (``ferrule.app.rounds``).
    """

    __slots__ = ("_dispatch", "body_task", "calls", "connection", "loop", "manual_answers", "meta", "notes", "rounds")

    def __init__(self, connection: Connection, dispatch: DispatchContext, meta: Mapping[str, Any]) -> None:
        self.connection = connection
        self._dispatch = dispatch
        self.loop: Any = dispatch.loop if isinstance(dispatch, Interruptible) else None
        self.calls = 0
        self.meta = meta
        self.body_task: Any = None
        self.rounds: Any = None
        self.manual_answers: tuple[dict[str, Any], Any] | None = None
        self.notes: frozenset[str] = _NO_NOTES

    @property
    def dispatch(self) -> DispatchContext:
        """The dispatch context of this message; it refuses questions where the era or the handshake forbids them."""
        connection = self.connection
        if connection.revision.has_rounds or connection.handling_initialize:
            return GuardedDispatch(self._dispatch, connection)
        return self._dispatch

    def failure_of(self, error: BaseException) -> Exception:
        """Return what the body of this request failed with; a cancellation that somebody asked for is raised again.

        See `ferrule.kernel.concurrency.cancellation`.
        """
        try:
            return failure_of(error, self._dispatch)
        finally:
            del error  # its traceback may hold this frame

    @property
    def interruptible(self) -> Interruptible | None:
        """What is known of the end of this request; ``None`` if its transport does not know."""
        return self._dispatch if isinstance(self._dispatch, Interruptible) else None

    # -- the peer ---------------------------------------------------------------------------------------------

    @property
    def protocol_version(self) -> str:
        """The revision that holds."""
        return self.connection.protocol_version

    @property
    def client_params(self) -> InitializeParams | None:
        """What the client said of itself; ``None`` if nothing (well-formed)."""
        return self.connection.client_params

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version, if it gave them."""
        return self.connection.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared; in the modern era with this very request."""
        return self.connection.client_capabilities

    @property
    def session_id(self) -> str | None:
        """The legacy HTTP session, ``None`` elsewhere."""
        return self.connection.session_id

    @property
    def can_send_request(self) -> bool:
        """Whether `send_request` can work here."""
        return self._dispatch.can_send_request and not self.connection.revision.has_rounds

    # -- telling ----------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request.

        Raises:
            LocalError: the revision has no such notification.
        """
        await yield_to_loop(self)
        revision = self.connection.revision
        if method not in revision.server_notifications:
            self.connection.check_notification(method)
        await self._dispatch.notify(method, project_params(revision, method, params))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the client asked for it on this request; ``progress`` must rise."""
        await yield_to_loop(self)
        if not self.connection.revision.has_progress_message:
            message = None
        await self._dispatch.progress(progress, total, message)

    def passes_log(self, level: str) -> bool:
        """Return whether a log message of this level may be sent to the client; see `log`.

        Raises:
            ValueError: ``level`` is not one of `LOG_LEVELS`.
        """
        connection = self.connection
        has_level = connection.revision.has_sessions
        threshold: Any = connection.log_level or "debug" if has_level else self.meta.get(LOG_LEVEL_KEY)
        # The level itself is judged also where no threshold was asked for.
        is_asked_for = isinstance(threshold, str)
        has_log = "notifications/message" in connection.revision.server_notifications
        return log_level_passes(level, threshold if is_asked_for else "emergency") and is_asked_for and has_log

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send a log message to the client, under its era's rules.

        Legacy: at or above the level that ``logging/setLevel`` chose, everything before that. Modern: only if this
        very request names a level in ``_meta``, and at or above it.

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

    # -- asking (legacy era) ----------------------------------------------------------------------------------

    async def send_request(
        self, method: str, params: Mapping[str, Any] | WireStruct | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Ask the client, beside the request being served, and wait for its result.

        Raises:
            CapabilityNotDeclared: legacy era, and the client did not declare what the question needs, or the revision
                cannot express it (`NotInRevision`).
            MissingRequiredClientCapability: the same in the modern era; leave it to become the -32021 answer.
            NoBackChannel: the modern era, or a transport that cannot carry questions.
            LocalError: during `initialize`.
            RemoteError: the client answered with an error.
        """
        connection = self.connection
        raw: dict[str, Any] | None = None if params is None else to_builtins(params)
        missing = missing_for_request(connection.client_capabilities_raw, method, raw)
        if missing is not None and connection.revision.has_rounds:
            raise MissingRequiredClientCapability(missing)
        connection.check_may_ask(method)
        if missing is not None:
            raise connection.lacking(missing)
        if method not in connection.revision.server_requests:
            raise NotInRevision(f"{method} does not exist in revision {connection.protocol_version}")
        try:
            raw = project_params(connection.revision, method, raw)
        except NotExpressible as error:
            raise NotInRevision(
                f"{method} cannot be asked in revision {connection.protocol_version}: {error}"
            ) from error
        self.notes |= {"asked"}
        return await self._dispatch.send_raw_request(method, raw, opts)

    async def _ask(
        self, method: str, params: Mapping[str, Any] | WireStruct | None, type_: type[ResultT], opts: CallOptions | None
    ) -> ResultT:
        result = await self.send_request(method, params, opts)
        try:
            return convert(result, type_)
        except ConvertError as error:
            raise LocalError(f"The client answered {method} with something else: {error}") from error

    async def elicit(
        self, message: str, requested_schema: Mapping[str, Any], opts: CallOptions | None = None
    ) -> ElicitResult:
        """Ask the user a form question; raises as `send_request`."""
        params = {"message": message, "requestedSchema": dict(requested_schema)}
        return await self._ask("elicitation/create", params, ElicitResult, opts)

    async def elicit_url(
        self, message: str, url: str, elicitation_id: str, opts: CallOptions | None = None
    ) -> ElicitResult:
        """Ask the user to open a URL (revision 2025-11-25); raises as `send_request`."""
        params = {"mode": "url", "message": message, "url": url, "elicitationId": elicitation_id}
        return await self._ask("elicitation/create", params, ElicitResult, opts)

    async def create_message(
        self, params: CreateMessageRequestParams | Mapping[str, Any], opts: CallOptions | None = None
    ) -> CreateMessageResult:
        """Ask the client's model; raises as `send_request`."""
        return await self._ask("sampling/createMessage", params, CreateMessageResult, opts)

    async def list_roots(self, opts: CallOptions | None = None) -> ListRootsResult:
        """Ask for the client's roots; raises as `send_request`."""
        return await self._ask("roots/list", None, ListRootsResult, opts)

    async def ping(self, opts: CallOptions | None = None) -> None:
        """Ask whether the client is there; raises as `send_request`."""
        await self.send_request("ping", None, opts)
