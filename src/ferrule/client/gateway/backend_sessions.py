"""Sessions of a proxy with its backend: which clients each one serves, and where messages of the backend go.

A legacy server knows its client by the session. Each legacy client of the proxy therefore has its own session with the
backend (`BackendSession.owner`), from its handshake to its end. Modern clients have no sessions: those with the same
principal and the same capabilities share one (`BackendSessionPool`). A call during which the backend may ask something
uses one exclusively.

A message of the backend is forwarded unchanged. It belongs to the call on whose stream it came, if the transport has
streams for calls; else to the latest call on the session; else, for a legacy client, to the client outside any call.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.request_sender import MakeHeaders, UnfinishedCall
from ferrule.client.gateway.plain.sending import PlainSender, first_outcome
from ferrule.client.parts import ClientParts
from ferrule.client.server_messages import ServerHooks
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, Event, SubscriptionBus
from ferrule.kernel.session import ServerSession
from ferrule.protocol.errors import (
    CapabilityNotDeclared,
    ConnectionClosed,
    FerruleError,
    InvalidParams,
    MCPError,
    MethodNotFound,
    NoBackChannel,
    RemoteError,
)
from ferrule.wire.codec import convert, encode_str, to_builtins
from ferrule.wire.faults import ConvertError
from ferrule.wire.json_types import is_mapping
from ferrule.wire.types import (
    META_SUBSCRIPTION_ID,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
)

if TYPE_CHECKING:
    from ferrule.client.connection.connector import Session
    from ferrule.client.gateway.parked_calls import ParkedCall
    from ferrule.client.gateway.upstreams.processes import ProcessBudget
    from ferrule.client.settings import ClientSettings
    from ferrule.client.targets import Target
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.dispatch import CallOptions, DispatchContext
    from ferrule.kernel.server import ServerRequestContext
    from ferrule.wire.revisions import Revision

__all__ = [
    "MAX_IDLE_SESSIONS",
    "MAX_SESSIONS",
    "BackendClient",
    "BackendClientGone",
    "BackendSession",
    "BackendSessionPool",
    "ForwardingHooks",
    "caller_of",
    "declared_by",
    "party_of",
    "serving",
    "shared_key",
]

logger = logging.getLogger("ferrule.client.gateway.proxy")

MAX_SESSIONS: Final = 64
"""Sessions with the backend that modern clients use at once; a request that needs another one waits."""
MAX_IDLE_SESSIONS: Final = 8
"""Sessions of modern clients that stay open without a request; the one that was used longest ago is closed first."""

_UPDATED: Final = "notifications/resources/updated"
_LISTS: Final = {method: kind for kind, method in LIST_CHANGED_METHODS.items()}
_PAGES: Final[Mapping[str, Any]] = {
    "tools/list": ListToolsResult,
    "prompts/list": ListPromptsResult,
    "resources/list": ListResourcesResult,
    "resources/templates/list": ListResourceTemplatesResult,
}
_HOP_NOTIFICATIONS: Final = frozenset(
    {"notifications/cancelled", "notifications/progress", "notifications/subscriptions/acknowledged"}
)
"""Notifications that belong to one exchange with the backend; the layers below have handled them."""

_CALLS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests during which a server asks its client something."""

serving: ContextVar[Any] = ContextVar("ferrule_proxyserving", default=None)
"""The session and request that this task forwards, and those of an outer proxy (a proxy may be the backend of one)."""


class BackendClientGone(ConnectionClosed):
    """The client of the proxy has disconnected, so that its session with the backend has ended."""


class ForwardingHooks(ServerHooks):
    """Hooks of a client that declares the capabilities of the proxy's client and forwards every message to it.

    Args:
        declared: the capabilities to declare.

    Attributes:
        backend: receives the notifications and requests of the server.
    """

    backend: BackendSession

    def __init__(self, declared: Mapping[str, Any]) -> None:
        self._declared = declared

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """See `ServerHooks`."""
        return dict(self._declared)

    async def answer_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """See `ServerHooks`."""
        return await self.backend.forward_request(dctx, method, params)

    async def take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """See `ServerHooks`."""
        if method not in _HOP_NOTIFICATIONS:
            await self.backend.forward_notification(method, params)

    async def prepare(self, session: Session) -> None:
        """See `ServerHooks`."""
        if session.revision.has_sessions:
            for uri in list(self.backend.subscribed):
                await session.send_raw_request("resources/subscribe", {"uri": uri}, {"timeout_s": 30})

    async def finish(self, call: UnfinishedCall, result: dict[str, Any]) -> dict[str, Any]:
        """See `ServerHooks`: input requests, and results of extensions, are handled by the proxy's client."""
        return result


class BackendClient:
    """The client of one session with the backend.

    Args:
        target: the backend.
        settings: the settings of the client.
        declared: the capabilities to declare.

    Attributes:
        hooks: forward what the backend asks and sends.
        target: the backend.
        request: sends a request; see `ferrule.Client.request`.
        plain: sends plain calls of tools.
        subscriptions: its open subscriptions.
    """

    def __init__(self, target: Target, settings: ClientSettings, declared: Mapping[str, Any]) -> None:
        self.hooks = ForwardingHooks(declared)
        self.target = target
        self._parts = parts = ClientParts(target, settings, self.hooks)
        self._reader = parts.reader
        self.request = parts.requests.request
        self.subscriptions = parts.subscriptions
        self.plain = PlainSender(parts.sessions, parts.reader, settings)

    @property
    def label(self) -> str:
        """What to call the backend in messages."""
        return self._parts.label()

    @property
    def is_connected(self) -> bool:
        """Whether a session is open."""
        return self._parts.sessions.working() is not None

    @property
    def session(self) -> Session:
        """The session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        return self._parts.sessions.required()

    @property
    def log_level(self) -> str | None:
        """Which log messages a session asks for; ``None``: none."""
        return self._parts.log_level

    def note_log_level(self, level: str | None) -> None:
        """Ask for these log messages in later sessions; the one in use has the level already."""
        self._parts.log_level = level

    async def set_log_level(self, level: str) -> None:
        """Ask for these log messages now and in later sessions."""
        await self._parts.set_log_level(level)

    async def connect(self) -> None:
        """Connect and negotiate; see `ferrule.Client.connect`."""
        await self._parts.sessions.connect()

    async def aclose(self) -> None:
        """Close; see `ferrule.Client.aclose`."""
        await self._parts.sessions.aclose()

    async def ping(self, *, timeout_s: float | None) -> None:
        """Find out whether the backend answers."""
        await self._parts.requests.ping(timeout_s)

    def mirrored(self, name: Any, arguments: Any) -> MakeHeaders | None:
        """Return a function for the headers that mirror the arguments of a call; ``None`` where there are none."""
        if not isinstance(name, str):
            return None
        return self._reader.mirrored(name, arguments if is_mapping(arguments) else None)

    async def learn_headers(self) -> bool:
        """Read the list of tools for mirrored headers; return whether this session has such headers."""
        if self._reader.mirrors_headers:
            await self._reader.all_tools()
        return self._reader.mirrors_headers

    def usable_page(self, method: str, raw: dict[str, Any]) -> dict[str, Any]:
        """Return the raw page of a list without members that are malformed; any other result unchanged."""
        if method not in _PAGES:
            return raw
        try:
            page = convert(raw, _PAGES[method])
        except ConvertError:
            raw = self._reader.without_malformed(method, raw)
            try:
                page = convert(raw, _PAGES[method])
            except ConvertError:
                return raw  # malformed beyond its members: the proxy's client reports it
        if method != "tools/list" or not self._reader.mirrors_headers:
            return raw
        kept = {tool.name for tool in self._reader.seen(page).tools}
        return raw if len(kept) == len(page.tools) else {**raw, "tools": [t for t in raw["tools"] if t["name"] in kept]}


class BackendSession:
    """One session with the backend, and the calls that use it.

    Args:
        client: the connection to the backend.
        bus: see the attribute.
        owner: the legacy connection that the session belongs to; ``None``: it is shared.
        key: identifies the principal and capabilities that share it.
        tells_change: called with the notification of each changed list; returns whether it is forwarded.
        processes: the processes of which it is one; ``None`` where they are not bounded.
        admit: called before it is opened, and may wait.
        adopted: called when it becomes the session of one client.

    Attributes:
        active: the requests in progress; a plain call is there as a `PlainForward`.
        parked: calls that may be suspended; see `ferrule.client.gateway.parked_calls`.
        attached: the legacy connections that share it.
        is_exclusive: whether a call uses it exclusively.
        users: calls and subscriptions that use it now.
        subscribed: URI → number of subscribers.
        bus: where changes are published for modern clients.
    """

    def __init__(
        self,
        client: BackendClient,
        bus: SubscriptionBus,
        *,
        owner: Connection | None = None,
        key: str = "",
        tells_change: Callable[[str], bool] | None = None,
        processes: ProcessBudget | None = None,
        admit: Callable[[BackendSession], Awaitable[None]] | None = None,
        adopted: Callable[[BackendSession, Connection], None] | None = None,
    ) -> None:
        self.client = client
        self._tells_change = tells_change
        self._processes = processes
        self._admit = admit
        self._adopted = adopted
        self.owner = owner
        self.key = key
        self.active: list[ServerRequestContext[Any]] = []
        self.parked: list[ParkedCall] = []
        self.attached: dict[int, Connection] = {}
        self.is_exclusive = False
        self.users = 0
        self.subscribed: dict[str, int] = {}
        self.bus = bus
        client.hooks.backend = self

    # -- requests -----------------------------------------------------------------------------------------------------

    @property
    def is_unused(self) -> bool:
        """Whether no request, subscription or question uses the session."""
        return not (self.active or self.users or self.subscribed or self.parked)

    def attach(self, connection: Connection) -> None:
        """Note that a legacy client shares the session, until it disconnects."""
        if id(connection) not in self.attached:
            self.attached[id(connection)] = connection

            def leave() -> None:
                self.attached.pop(id(connection), None)

            connection.on_closing(leave)

    async def connect(self) -> None:
        """Open the session, if it is not open."""
        if self._admit is not None and not self.client.is_connected:
            self.users += 1  # it must not be ended while it opens
            try:
                await self._admit(self)
                await self._connect()
            finally:
                self.users -= 1
        else:
            await self._connect()

    async def aclose(self) -> None:
        """Close the session; it can be opened again."""
        await self.client.aclose()
        if self._processes is not None:
            self._processes.forget(self)

    async def _connect(self) -> None:
        token = serving.set(None)  # tasks started here outlive the request
        try:
            await self.client.connect()
        finally:
            serving.reset(token)

    async def call(self, ctx: ServerRequestContext[Any], method: str, params: Mapping[str, Any], **options: Any) -> Any:
        """Forward one request; messages of the backend meanwhile go to the client that sent it."""
        token = serving.set((self, ctx, serving.get()))
        self.active.append(ctx)
        try:
            first = first_outcome.get()
            if first is not None and not first.is_taken:
                options["first"] = first
            return await self.client.request(method, params, **options)
        finally:
            self.leave(ctx)
            serving.reset(token)

    def leave(self, ctx: ServerRequestContext[Any]) -> None:
        """Note that a request in `active` has ended."""
        for at, other in enumerate(self.active):
            if other is ctx:
                del self.active[at]
                break
        if self._processes is not None:
            self._processes.note_use(self)

    def _request_of_stream(self) -> ServerRequestContext[Any] | None:
        """Return the request on whose stream a message came; ``None`` where the transport has no such streams."""
        found: Any = serving.get()
        while found is not None:
            backend, ctx, found = found
            if backend is self:
                return ctx if any(other is ctx for other in self.active) else None
        return None

    def _client_session(self) -> ServerSession | None:
        """Return the session of the client that a message of the backend belongs to; ``None`` where there is none."""
        found = self._request_of_stream()
        if found is None and len(self._callers()) > 1:
            return None  # it may concern another client
        if found is None and self.parked:
            ctx = self.parked[-1].ctx
            return None if ctx is None else ctx.session
        ctx = found or (self.active[-1] if self.active else None)
        if ctx is not None:
            return ctx.session
        return self._owner_session()

    def _callers(self) -> set[Hashable]:
        """Return the clients with a call in progress that a message of the backend may concern."""
        if self.owner is not None:
            return {id(self.owner)}
        calls = [ctx for ctx in self.active if ctx.method in _CALLS]
        return {caller_of(ctx) for ctx in calls} | {parked.caller for parked in self.parked}

    def _claim(self) -> None:
        """Give a shared process whose server asks something to its only client.

        Raises:
            MCPError: it has several, and the question cannot be assigned to one.
        """
        if self.owner is not None or self._processes is None:
            return
        self._processes.note_question()
        callers = self._callers()
        everybody = callers | set(self.attached)
        if len(callers or everybody) > 1:
            logger.warning("A question of %s is refused: several clients share its process", self.client.label)
            raise InvalidParams("Several clients have calls in progress that this request could belong to")
        if len(everybody) == 1 and self.attached and self._adopted is not None:
            self._adopted(self, next(iter(self.attached.values())))

    def _owner_session(self) -> ServerSession | None:
        """Return the session of the owner outside its requests; ``None`` for a shared session."""
        owner = self.owner
        return None if owner is None else ServerSession(owner, cast("Any", owner.outbound), {})

    # -- requests of the backend --------------------------------------------------------------------------------------

    async def forward_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Forward a request of the backend to the client, and return its result.

        Raises:
            MCPError: the client answered with an error or cannot be asked that.
            InvalidParams: no call is in progress that the request could belong to.
        """
        sent, options = _with_own_progress(dctx, params)
        if self._request_of_stream() is None:
            self._claim()
            if self.parked:
                return await self.parked[-1].ask(method, sent)
        session = self._client_session()
        if session is None:
            raise InvalidParams("The client has no call in progress that this request could belong to")
        try:
            return await session.send_request(method, sent, options)
        except RemoteError as error:
            raise MCPError(error.message, code=error.code, data=error.data) from error
        except (CapabilityNotDeclared, NoBackChannel) as error:
            logger.debug("%s cannot be forwarded: %s", method, error)
            raise MethodNotFound(method) from error

    # -- notifications of the backend ---------------------------------------------------------------------------------

    async def forward_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Forward a notification. One that the revision of the client does not have is dropped."""
        try:
            if method in _LISTS or method == _UPDATED:
                await self._forward_change(method, params)
                return
            session = self._client_session()
            if session is None or (method == "notifications/message" and not self._wants_log(session, params)):
                return
            await session.notify(method, params)
        except (FerruleError, OSError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            logger.debug("%s of %s was not forwarded: %s", method, self.client.label, error)

    def _wants_log(self, session: ServerSession, params: Mapping[str, Any]) -> bool:
        # The owner of a session has sent the backend its level with `logging/setLevel`.
        return self.owner is not None or session.passes_log(str(params.get("level")))

    async def _forward_change(self, method: str, params: Mapping[str, Any]) -> None:
        meta = params.get("_meta")
        if isinstance(meta, Mapping) and META_SUBSCRIPTION_ID in meta:
            return  # the subscription that it names handles it (`ferrule.client.calls.subscriptions`)
        topic = params.get("uri") if method == _UPDATED else method
        if not isinstance(topic, str) or (self._tells_change is not None and not self._tells_change(method)):
            return
        event = Event(method, topic, params)
        if self.owner is None:
            self.bus.publish(event)
            return
        # The session belongs to one client, so the change concerns no other.
        session = None if not self.active else self._client_session()
        if session is None and self.owner.listener is not None:
            self.owner.listener.add(event)
            return
        session = session or self._owner_session()
        if session is not None:
            await session.notify(method, params or None)

    # -- subscriptions to single resources ----------------------------------------------------------------------------

    async def subscribe(self, uri: str, params: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
        """Subscribe to a resource at the backend, unless this session has a subscription to it already.

        Args:
            uri: the URI of the resource.
            params: the params of the request.
            meta: the ``_meta`` of the request, without the keys that belong to one hop.

        Raises:
            RemoteError: the backend refuses.
        """
        self.subscribed[uri] = self.subscribed.get(uri, 0) + 1
        if self.subscribed[uri] > 1:
            return {}
        try:
            await self.connect()
            return await self.client.request("resources/subscribe", params, meta=meta)
        except BaseException:
            self._forget(uri)
            raise

    async def unsubscribe(
        self, uri: str, params: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> Any:
        """Remove one subscriber; the last one unsubscribes at the backend."""
        if uri not in self.subscribed or self._forget(uri) or not self.client.is_connected:
            return {}
        return await self.client.request("resources/unsubscribe", params or {"uri": uri}, meta=meta, timeout_s=10)

    def _forget(self, uri: str) -> int:
        left = self.subscribed.get(uri, 0) - 1
        if left > 0:
            self.subscribed[uri] = left
        else:
            self.subscribed.pop(uri, None)
        return max(left, 0)


class BackendSessionPool:
    """The sessions with the backend that modern clients share.

    Args:
        make: makes a session: ``make(key, capabilities, client_info)``.

    Attributes:
        backends: the open sessions, the one that was used last at the end.
    """

    def __init__(self, make: Callable[[str, Mapping[str, Any], Any], BackendSession]) -> None:
        self._make = make
        self.backends: list[BackendSession] = []
        self._freed = anyio.Event()

    def clear(self) -> list[BackendSession]:
        """Remove every session from the pool, and return them to be closed."""
        backends, self.backends = self.backends, []
        return backends

    async def acquire(
        self,
        key: str,
        declared: Mapping[str, Any],
        info: Any,
        *,
        exclusive: bool,
        attached: Connection | None = None,
    ) -> BackendSession:
        """Return a connected session; give it back with `release`.

        Waits while `MAX_SESSIONS` are in use.

        Args:
            key: identifies the principal and capabilities that share sessions.
            declared: the capabilities to declare.
            info: name and version of the client.
            exclusive: no other exclusive call uses the session meanwhile.
            attached: the legacy connection that shares the session, if it does not end with the request.
        """
        backend = await self._find(key, declared, info, exclusive)
        if attached is not None:
            backend.attach(attached)  # before it opens: a server may ask at once
        backend.users += 1
        backend.is_exclusive = backend.is_exclusive or exclusive
        self.remove(backend)
        self.backends.append(backend)
        try:
            await backend.connect()
        except BaseException:
            await self.release(backend, exclusive=exclusive)
            raise
        return backend

    def remove(self, backend: BackendSession) -> bool:
        """Take a session out of the pool; return whether it was in it."""
        if backend not in self.backends:
            return False
        self.backends.remove(backend)
        return True

    def note_freed(self) -> None:
        """Let those look again who wait for a session."""
        self._freed.set()

    async def _find(self, key: str, declared: Mapping[str, Any], info: Any, exclusive: bool) -> BackendSession:
        while True:
            fitting = [
                backend for backend in self.backends if backend.key == key and not (exclusive and backend.is_exclusive)
            ]
            if fitting:
                # The one with most subscriptions, else the one that was used last.
                return max(reversed(fitting), key=lambda backend: len(backend.subscribed))
            if len(self.backends) < MAX_SESSIONS or await self._drop_idle():
                backend = self._make(key, declared, info)
                self.backends.append(backend)
                return backend
            self._freed = anyio.Event()
            await self._freed.wait()

    async def _drop_idle(self) -> bool:
        for backend in self.backends:
            if not backend.users and not backend.subscribed:
                self.backends.remove(backend)
                await backend.aclose()
                return True
        return False

    async def release(self, backend: BackendSession, *, exclusive: bool) -> None:
        """Return a session to the pool when its request has ended."""
        backend.users -= 1
        if exclusive:
            backend.is_exclusive = False
        self._freed.set()
        with anyio.CancelScope(shield=True):
            while sum(not backend.users and not backend.subscribed for backend in self.backends) > MAX_IDLE_SESSIONS:
                await self._drop_idle()


def declared_by(connection: Connection) -> dict[str, Any]:
    """Return the capabilities that a client declared, unchanged."""
    raw = connection.client_capabilities_raw
    return cast("dict[str, Any]", to_builtins(raw)) if isinstance(raw, Mapping) else {}


def shared_key(ctx: ServerRequestContext[Any]) -> str:
    """Return a text that clients without sessions have in common when the backend cannot tell them apart."""
    party = ctx.transport.principal
    info = to_builtins(ctx.session.connection.client_info)
    # A principal may be an object of the program's own verifier.
    return encode_str([str(getattr(party, "id", party)), declared_by(ctx.session.connection), info])


def caller_of(ctx: ServerRequestContext[Any]) -> Hashable:
    """Return what identifies the client of a call, as far as it is known: two with the same value are one client."""
    connection = ctx.session.connection
    if connection.revision.has_sessions and connection.client_params is not None:
        return id(connection)
    party = ctx.transport.principal
    if party is not None:
        # A principal may be an object of the program's own verifier.
        return str(getattr(party, "id", party))
    return id(ctx) if ctx.transport.is_network else "owner"


def party_of(ctx: ServerRequestContext[Any]) -> Hashable:
    """Return what identifies the client of a request: its session, or what clients without one have in common."""
    connection = ctx.session.connection
    is_session = connection.revision.has_sessions and connection.client_params is not None
    # The id of a session that has ended may be used again, but by no other principal.
    return (id(connection) if is_session else 0, shared_key(ctx))


def _with_own_progress(
    dctx: DispatchContext, params: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, CallOptions]:
    """Return the params of a request without the backend's progress token, and the option for a token of this side."""
    meta = None if params is None else params.get("_meta")
    if params is None or not isinstance(meta, Mapping) or "progressToken" not in meta:
        return None if params is None else dict(params), {}
    rest = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != "progressToken"}
    sent = {key: value for key, value in params.items() if key != "_meta"}
    if rest:
        sent["_meta"] = rest
    return sent, {"on_progress": dctx.progress}
