"""One connection: the client's identity and capabilities, the revision, and the channel to the client.

There are two kinds. A *loop* connection exists as long as its channel; `initialize` sets the client and the revision.
An *envelope* connection is made from one modern request and ends with it; it can send notifications but no requests,
because the modern era has no requests from server to client.

The exit stack, the event and the typed client params are made on first use: a connection for one HTTP request
allocates nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.kernel.changes.bus import Listener
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.dispatch import CallOptions, DispatchContext, Outbound, TransportContext
from ferrule.protocol.errors import (
    CapabilityNotDeclared,
    ClientNotAskable,
    ConnectionClosed,
    LocalError,
    NoBackChannel,
)
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.revisions import (
    LATEST_HANDSHAKE_VERSION,
    REVISIONS,
    Revision,
    has_server_notification,
    project_params,
    read_value,
)
from ferrule.wire.struct import Value
from ferrule.wire.types import ClientCapabilities, Implementation, InitializeParams, ServerCapabilities

if TYPE_CHECKING:
    from ferrule.protocol.legacy.handshake import Negotiation

__all__ = ["Connection", "GuardedDispatch", "InitializationOptions", "NotifyOnly", "OnceEvent", "unguarded"]


class InitializationOptions(Value, frozen=True):
    """The identity and capabilities that a server announces, in either era."""

    server_info: Implementation
    capabilities: ServerCapabilities
    instructions: str | None = None


class OnceEvent:
    """An event that can be set before an event loop runs; the first `wait` makes the loop's event."""

    __slots__ = ("_event", "_is_set")

    def __init__(self, is_set: bool = False) -> None:
        self._is_set = is_set
        self._event: anyio.Event | None = None

    def is_set(self) -> bool:
        """Return whether `set` was called."""
        return self._is_set

    def set(self) -> None:
        """Set the event; it cannot be cleared."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until the event is set."""
        if self._is_set:
            return
        if self._event is None:
            self._event = anyio.Event()
        await self._event.wait()


class NotifyOnly:
    """An outbound channel that refuses requests, for modern connections."""

    __slots__ = ("_outbound",)

    def __init__(self, outbound: Outbound | None) -> None:
        self._outbound = outbound

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Refuse the request.

        Raises:
            NoBackChannel: always. A modern server returns input requests instead.
        """
        raise NoBackChannel(f"{method} cannot be sent: in this era a server returns input requests instead")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; without a channel it is dropped."""
        if self._outbound is not None:
            await self._outbound.notify(method, params)


class _Closed:
    """The outbound channel of a legacy connection whose own channel has closed."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raise ConnectionClosed(f"{method} cannot be sent: the connection is closed")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Drop the notification: the peer cannot receive it."""


_CLOSED: Final = _Closed()


class GuardedDispatch:
    """A dispatch context that refuses requests to the peer where the connection refuses them.

    Attributes:
        inner: the context behind it, which may offer more (`RepliesEarly`, `ClosesStream` …).
    """

    __slots__ = ("_connection", "inner")

    def __init__(self, inner: DispatchContext, connection: Connection) -> None:
        self.inner = inner
        self._connection = connection

    @property
    def transport(self) -> TransportContext:
        """Facts of the transport that carried the message."""
        return self.inner.transport

    @property
    def request_id(self) -> RequestId | None:
        """The request's id; ``None`` for a notification."""
        return self.inner.request_id

    @property
    def cancel_requested(self) -> bool:
        """Whether the peer has withdrawn the request."""
        return self.inner.cancel_requested

    @property
    def can_send_request(self) -> bool:
        """Whether `send_raw_request` can work; never in the modern era."""
        return self.inner.can_send_request and not self._connection.is_modern

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request, unless the connection refuses it; see `Connection.check_can_request`."""
        self._connection.check_can_request(method)
        return await self.inner.send_raw_request(method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        await self.inner.notify(method, params)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress of the request."""
        await self.inner.progress(progress, total, message)


def unguarded(dispatch: DispatchContext) -> DispatchContext:
    """Return the transport's own context, without a `GuardedDispatch` around it.

    Use it for protocols beyond `DispatchContext` only; send requests through the guard.
    """
    return dispatch.inner if isinstance(dispatch, GuardedDispatch) else dispatch


class _Closing:
    """Whether a channel has closed, and the callbacks to call when it does."""

    __slots__ = ("callbacks", "has_come")

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], None]] = []
        self.has_come = False


class Connection:
    """The connection to one client: as long as its channel (`for_loop`), or for one request (`from_envelope`).

    Attributes:
        protocol_version: the negotiated revision, or that of the envelope; before a handshake Ferrule's latest
            handshake revision.
        revision: the same as a `Revision`.
        is_modern: whether it is an envelope connection.
        session_id: the id of a legacy HTTP session; ``None`` elsewhere.
        client_capabilities_raw, client_info_raw: as the client sent them, unchecked; ``None`` for capabilities that are
            not known, before a handshake and in one that a server without sessions does not keep.
        init_options: announced identity and capabilities; ``None`` for those that the server derives.
        initialize_accepted: whether the handshake succeeded; always true for an envelope connection.
        handling_initialize: whether ``initialize`` is being handled.
        pending_negotiation: the negotiation of the running handshake.
        listener: forwards changes to a legacy client; ``None`` until then.
        closing_state: shared by connections that close together.
        opened_exit_stack: `exit_stack`, if it was used; ``None`` otherwise.
        log_level: threshold set by ``logging/setLevel``; ``None`` until then.
        calls: number of messages sent outside any request; see `yield_to_loop`.
        state: data of the application for this connection (legacy era only; see the docs on state).
    """

    __slots__ = (
        "_client_capabilities",
        "_client_params",
        "_initialized",
        "_outbound",
        "_state",
        "calls",
        "client_capabilities_raw",
        "client_info_raw",
        "closing_state",
        "handling_initialize",
        "init_options",
        "initialize_accepted",
        "is_modern",
        "listener",
        "log_level",
        "opened_exit_stack",
        "pending_negotiation",
        "protocol_version",
        "revision",
        "session_id",
    )

    def __init__(self, outbound: Outbound | None, revision: Revision) -> None:
        self._outbound = outbound
        self.revision = revision
        self.protocol_version = revision.version
        self.is_modern = revision.is_modern
        self.session_id: str | None = None
        self.client_capabilities_raw: Any = None
        self.client_info_raw: Any = None
        self.initialize_accepted = False
        self.handling_initialize = False
        self.pending_negotiation: Negotiation | None = None
        self.log_level: str | None = None
        self.init_options: InitializationOptions | None = None
        self.listener: Listener | None = None
        self._client_params: InitializeParams | None = None
        self._client_capabilities: ClientCapabilities | None = None
        self.opened_exit_stack: AsyncExitStack | None = None
        self._initialized: OnceEvent | None = None
        self.closing_state: _Closing | None = None
        self._state: dict[str, Any] | None = None
        self.calls = 0

    @classmethod
    def for_loop(cls, dispatcher: Outbound, *, session_id: str | None = None) -> Connection:
        """Return a legacy connection over a standing channel, not yet initialized."""
        # Some revision must apply to what arrives before the handshake; pings and errors are alike in all of them.
        connection = cls(dispatcher, REVISIONS[LATEST_HANDSHAKE_VERSION])
        connection.session_id = session_id
        return connection

    @classmethod
    def from_envelope(
        cls, version: str, client_info: Any, client_capabilities: Any, *, outbound: Outbound | None = None
    ) -> Connection:
        """Return a modern connection, which needs no handshake.

        Args:
            version: a supported modern revision.
            client_info: the raw envelope value, may be ``None``.
            client_capabilities: the raw envelope value; ``None`` if they are not known.
            outbound: the request's own channel for notifications; ``None`` drops them.
        """
        revision = REVISIONS[version]
        connection = cls(outbound, revision)
        # Read here and not with the params: identity and capabilities are kept under the names of the newest revision.
        if revision.has_own_forms:
            client_info = read_value(revision, Implementation, client_info)
            client_capabilities = read_value(revision, ClientCapabilities, client_capabilities)
        connection.client_info_raw = client_info
        connection.client_capabilities_raw = client_capabilities
        # There is no handshake: the envelope of each request has everything (2026-07-28, "Versioning").
        connection.initialize_accepted = True
        return connection

    # -- the peer ---------------------------------------------------------------------------------------------

    @property
    def client_params(self) -> InitializeParams | None:
        """The client's ``initialize`` params, or the same made from the modern envelope.

        ``None`` before the handshake, and for an envelope without well-formed client info.
        """
        if self._client_params is None and self.is_modern and self.client_info_raw is not None:
            raw = {
                "protocolVersion": self.protocol_version,
                "capabilities": self.client_capabilities_raw,
                "clientInfo": self.client_info_raw,
            }
            try:
                self._client_params = convert(raw, InitializeParams)
            # Client info is optional and for display, so that a malformed one is no reason to refuse the request.
            except ConvertError:
                return None
        return self._client_params

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version; ``None`` if it sent none. For display only: a client can send any name."""
        params = self.client_params
        return None if params is None else params.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The client's declared capabilities; empty if it declared none, or malformed ones."""
        if self._client_capabilities is None:
            raw = self.client_capabilities_raw
            self._client_capabilities = ClientCapabilities()
            if isinstance(raw, Mapping):
                try:
                    self._client_capabilities = convert(dict(cast("Mapping[str, Any]", raw)), ClientCapabilities)
                except ConvertError:
                    return self._client_capabilities
        return self._client_capabilities

    def commit(self, negotiation: Negotiation) -> None:
        """Apply the revision and the client of a successful handshake."""
        self.revision = REVISIONS[negotiation.protocol_version]
        self.protocol_version = negotiation.protocol_version
        self._client_params = negotiation.client
        # Derived from the raw value on first use; a value of before the handshake would be stale.
        self._client_capabilities = None
        self.client_capabilities_raw = negotiation.client.capabilities
        self.client_info_raw = negotiation.client.client_info
        self.initialize_accepted = True

    # -- state ------------------------------------------------------------------------------------------------

    @property
    def initialized(self) -> OnceEvent:
        """Set when requests may be sent to the client: by ``notifications/initialized``; always in the modern era."""
        if self._initialized is None:
            self._initialized = OnceEvent(self.is_modern)
        return self._initialized

    @property
    def is_ready(self) -> bool:
        """Whether the client may send notifications: whether `initialized` is set."""
        # Not through the property, which would make an event for each message.
        return self.is_modern or (self._initialized is not None and self._initialized.is_set())

    @property
    def exit_stack(self) -> AsyncExitStack:
        """Callbacks and context managers to close when the connection ends (`aclose_shielded`)."""
        if self.opened_exit_stack is None:
            self.opened_exit_stack = AsyncExitStack()
        return self.opened_exit_stack

    @property
    def state(self) -> dict[str, Any]:
        """A dictionary for the application, kept as long as the connection exists."""
        if self._state is None:
            self._state = {}
        return self._state

    def on_closing(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Register a callback for the time when the channel closes while accepted requests still run.

        If the channel has closed already, the callback is called now.

        Returns:
            A function that removes the callback.
        """
        if self.closing_state is None:
            self.closing_state = _Closing()
        closing = self.closing_state
        if closing.has_come:
            callback()
        else:
            closing.callbacks.append(callback)

        def undo() -> None:
            if callback in closing.callbacks:
                closing.callbacks.remove(callback)

        return undo

    def shared_closing(self) -> _Closing:
        """Return the ``closing_state`` to set on another connection that closes together with this one."""
        if self.closing_state is None:
            self.closing_state = _Closing()
        return self.closing_state

    def closing(self) -> None:
        """Run the callbacks of `on_closing`, each once; called when the channel closes."""
        if self.closing_state is None:
            self.closing_state = _Closing()
        self.closing_state.has_come = True
        # Popped one by one: a callback may remove others by their undo function while this runs.
        callbacks = self.closing_state.callbacks
        while callbacks:
            callbacks.pop()()

    # -- the channel ------------------------------------------------------------------------------------------

    def detach(self) -> None:
        """Remove the reference to a closed channel; from then on requests to the client raise `ConnectionClosed`."""
        # Channel and connection reference each other: without this only a full collection would free them.
        self._outbound = None if self.is_modern else _CLOSED

    @property
    def outbound(self) -> Outbound:
        """The channel to the peer outside any inbound request; it refuses requests where none may be sent."""
        outbound = self._outbound
        # Made on each access: few handlers send outside their request, and a stored guard would be a reference cycle.
        if self.is_modern or outbound is None:
            return NotifyOnly(outbound)
        return GuardedDispatch(cast("DispatchContext", outbound), self) if self.handling_initialize else outbound

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None = None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Send a request outside any inbound request, and return its result; see `Outbound.send_raw_request`.

        Raises:
            LocalError: during ``initialize``.
            NoBackChannel: a modern connection.
        """
        self.check_can_request(method)
        return await self.outbound.send_raw_request(method, params, opts)

    def check_can_request(self, method: str) -> None:
        """Check that a request may be sent to the client.

        Raises:
            LocalError: ``initialize`` is being handled: the client responds to nothing before it has that response,
                so that waiting would be a deadlock.
            NoBackChannel: the modern era, which has no requests from server to client.
        """
        if self.handling_initialize:
            raise LocalError(f"{method} cannot be sent while initialize is being handled; send it after `initialized`")
        if self.is_modern:
            raise NoBackChannel(f"{method} cannot be sent: in this era a server returns input requests instead")

    def capability_error(self, required: Mapping[str, Any]) -> CapabilityNotDeclared:
        """Return the error for a request to a legacy client that lacks a capability.

        Args:
            required: the capabilities that the request needs.

        Returns:
            `CapabilityNotDeclared`, or `ClientNotAskable` if there is no session, so that the declared capabilities
            are not known.
        """
        if self._client_params is None and not self.is_modern:
            names = ", ".join(sorted(required))
            return ClientNotAskable(
                f"No request for {names} can be sent: without a session (stateless=True) a legacy client cannot send "
                "a response, and its capabilities are not known",
                required,
            )
        return CapabilityNotDeclared(required)

    def check_notification(self, method: str) -> None:
        """Refuse a notification that other revisions have in their core and that of this connection has not.

        Raises:
            LocalError: the revision has no such notification.
        """
        if not has_server_notification(self.revision, method):
            raise LocalError(f"{method} does not exist in revision {self.protocol_version}")

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification outside any request of the peer.

        Raises:
            LocalError: the revision has no such notification.
        """
        await yield_to_loop(self)
        self.check_notification(method)
        await self.outbound.notify(method, project_params(self.revision, method, params))
