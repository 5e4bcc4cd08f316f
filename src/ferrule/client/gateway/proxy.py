"""`proxy(target)`: a server that forwards to another one, the backend, in any combination of eras.

Requests, results, notifications and ``_meta`` are forwarded unchanged, with members that this library does not know.
What differs between two revisions is rewritten (`ferrule.wire.revisions`). What belongs to one hop stays on it: ids,
progress tokens, the modern envelope. A request of the backend to the client takes one of four ways:

* modern backend, modern client: the ``input_required`` result is forwarded with its state; nothing is kept here.
* modern backend, legacy client: the input requests are sent to the client, and the rounds run here.
* legacy backend, legacy client: the request is forwarded to the client.
* legacy backend, modern client: the call is *parked* (`ferrule.client.gateway.parked_calls`): the request becomes an
  ``input_required`` result, and the client's next request continues the call.

Which session with the backend serves which client is in `ferrule.client.gateway.backend_sessions`. Modern servers are
stateless: one client of ours serves every client, and each request declares the capabilities of its own client.

A protected server in this process stays protected: the proxy has the same protection, and each request reaches the
server with the principal of its own caller (`ferrule.kernel.protection`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import anyio

from ferrule._options import check_options
from ferrule.client.calls.rounds import run_rounds
from ferrule.client.config import read_target
from ferrule.client.gateway.backend_sessions import BackendClient, BackendSession, BackendSessionPool
from ferrule.client.gateway.parked_calls import MAX_PARKED, ParkedCall, fingerprint_of
from ferrule.client.gateway.upstream_changes import UpstreamChanges, meta_of, params_of, typed
from ferrule.client.settings import settings_of
from ferrule.client.targets import InProcessTarget, PairTarget, StdioTarget
from ferrule.kernel.builtin import set_level as builtin_set_level
from ferrule.kernel.changes.bus import SubscriptionBus
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.protocol.errors import ConnectionClosed, InvalidParams, LocalError, MCPError, RemoteError
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import Encoded, encode, encode_str, to_builtins
from ferrule.wire.faults import FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import Revision, is_core_method
from ferrule.wire.types import META_SERVER_INFO, Implementation

if TYPE_CHECKING:
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.connection import Connection

__all__ = ["Proxy", "proxy"]

logger = logging.getLogger("ferrule.client.gateway.proxy")

_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("tools/list", "tools/call"),
    "prompts": ("prompts/list", "prompts/get"),
    "resources": ("resources/list", "resources/templates/list", "resources/read"),
    "completions": ("completion/complete",),
}
_BOTH_ERAS: Final = ("tools", "prompts", "resources", "completions", "logging", "experimental")
_INTRODUCTION: Final = frozenset(
    {"protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions", "resultType", "_meta"}
)
_HANDLED: Final = frozenset({"notifications/cancelled", "notifications/progress"})


def proxy(target: Any, *, name: str | None = None, **options: Unpack[ClientOptions]) -> Server[Any]:
    """Return a server that forwards everything to another one.

    It connects when it starts (its lifespan) and announces the identity, instructions and capabilities of the backend.
    Serve it like any `Server`, or give it to a `Client`.

    Args:
        target: anything that a `Client` can be made of, except a group.
        name: the name that it announces; the backend's if ``None``.
        options: for the connections to the backend, as for `Client`; requests of the backend go to the clients of the
            proxy, and ``client_info`` is theirs if it is not given.
    """
    from ferrule.client.options import ClientOptions  # needed only to name what exists

    check_options("proxy()", options, ClientOptions)
    return Proxy(target, name, options).server


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the backend announced at the first connection."""

    revision: Revision
    raw: Mapping[str, Any]
    info: Mapping[str, Any] | None
    capabilities: Mapping[str, Any]

    @property
    def has_sessions(self) -> bool:
        """Whether the backend knows its clients by sessions."""
        return self.revision.has_sessions


class Proxy:
    """The state of a server that `proxy` made; see `of`.

    Attributes:
        server: that server.
        main: the connection that read what the backend announces; with a modern backend it serves every client.
        sessions: the sessions of legacy clients, by the identity of their connection.
        changes: the subscriptions at the backend.
        background: runs its tasks.
    """

    def __init__(self, target: Any, name: str | None, options: ClientOptions) -> None:
        target = read_target(target)
        protected = target.server if isinstance(target, InProcessTarget) and target.server.protection else None
        self._origin: ContextVar[Any] | None = None
        if protected is not None:
            self._origin = ContextVar("ferrule-proxy-origin", default=None)
            target = replace(cast("InProcessTarget", target), origin=self._origin.get)
        self._target = target
        self._name = name
        self._options = options
        self._users = 0
        self._lock: anyio.Lock | None = None
        self.background = Background()
        self.sessions: dict[int, BackendSession] = {}
        self._closing: set[BackendSession] = set()
        self._parked: dict[str, ParkedCall] = {}
        self._facts: _Facts | None = None
        self.changes = UpstreamChanges(self)
        self.server: Server[Any] = Server(
            name or "proxy",
            lifespan=self._lifespan,
            middleware=[self._forward_unregistered],
            protection=None if protected is None else protected.protection,
        )
        self.server.resource_visibility = None if protected is None else protected.resource_visibility
        self.server.attachments[Proxy] = self
        self.server.capability_sources.append(self._capabilities)
        self._pool = BackendSessionPool(lambda key, declared, info: self._make_backend(declared, info, key=key))
        self._main = self._make_backend({}, None)
        self.main: BackendClient = self._main.client

    @classmethod
    def of(cls, server: Server[Any]) -> Proxy:
        """Return the proxy of a server that `proxy` made.

        Raises:
            KeyError: the server is not a proxy.
        """
        return server.attachments[Proxy]

    def use_bus(self, bus: SubscriptionBus) -> None:
        """Publish changes on the bus of another server, which mounts this one."""
        self.server.bus = bus
        self._main.bus = bus

    async def check(self, timeout_s: float) -> None:
        """Send a ping to the backend, on a session that is open if there is one.

        Raises:
            FerruleError: the backend does not answer within ``timeout_s``.
        """
        backends = [self._main, *self.sessions.values(), *self._pool.backends]
        backend = next((backend for backend in backends if backend.client.is_connected), self._main)
        await backend.connect()
        await backend.client.ping(timeout_s=timeout_s)

    # -- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        """Connect when the first transport starts to serve this server, and close after the last."""
        async with self._turn():
            if not self._users:
                await self._open(server)
            self._users += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._turn():
                    self._users -= 1
                    if not self._users:
                        await self._close()

    def _turn(self) -> anyio.Lock:
        if self._lock is None:
            self._lock = anyio.Lock()
        return self._lock

    async def _open(self, server: Server[Any]) -> None:
        self.background = Background()
        await self._main.connect()
        self._take_over(server)
        if not self.facts.has_sessions:
            await self.changes.follow(server)

    async def _close(self) -> None:
        await self.background.aclose()
        backends = [*self.sessions.values(), *self._pool.clear(), *self._closing]
        self.sessions.clear()
        self._closing.clear()
        self._parked.clear()
        self.changes.clear()
        for backend in backends:
            await backend.client.aclose()
        await self.main.aclose()

    @property
    def facts(self) -> _Facts:
        """What the backend announced.

        Raises:
            LocalError: the proxy has not connected yet.
        """
        if self._facts is None:
            raise LocalError("The proxy is not connected")
        return self._facts

    @property
    def _has_one_session(self) -> bool:
        """Whether every client shares one session, because a pair of streams cannot be opened twice."""
        return isinstance(self.main.target, PairTarget)

    def _take_over(self, server: Server[Any]) -> None:
        behind = self.main.session
        raw = behind.raw
        meta = raw.get("_meta")
        stamp: Any = cast("Mapping[str, Any]", meta).get(META_SERVER_INFO) if isinstance(meta, Mapping) else None
        info: Any = raw.get("serverInfo") if behind.revision.has_sessions else stamp
        capabilities = cast("Mapping[str, Any]", behind.capabilities)
        self._facts = _Facts(behind.revision, raw, info, capabilities)
        if behind.server_info is not None and self._name is None:
            server.server_info = behind.server_info
            server.info_stamp = {META_SERVER_INFO: info}
        server.instructions = behind.instructions
        for kind, methods in _METHODS.items():
            if capabilities.get(kind) is not None:
                for method in methods:
                    server.add_request_handler(method, self.forward, params_type=dict[str, Any], trusted=True)
        typed = behind.capabilities
        bundles = {"tools": typed.tools, "prompts": typed.prompts, "resources": typed.resources}
        server.list_changed = {kind for kind, bundle in bundles.items() if bundle is not None and bundle.list_changed}
        server.logging = typed.logging is not None
        server.resource_updates = typed.resources is not None and bool(typed.resources.subscribe)
        server.add_request_handler("logging/setLevel", self.set_level, params_type=dict[str, Any], trusted=True)
        server.add_request_handler(
            "resources/subscribe", self.changes.subscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler(
            "resources/unsubscribe", self.changes.unsubscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler("subscriptions/listen", self.changes.listen, trusted=True)

    def _capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """Return the capabilities of the backend, without those that the revision of the client does not have."""
        if self._facts is None:
            return {}
        found = dict(self._facts.capabilities)
        if revision.has_sessions is not self._facts.has_sessions:
            found = {key: found[key] for key in _BOTH_ERAS if key in found}
        if not revision.has_completions_capability:
            found.pop("completions", None)
        return found

    def _make_backend(
        self, declared: Mapping[str, Any], info: Any, *, owner: Connection | None = None, key: str = ""
    ) -> BackendSession:
        """Return a session with the backend that declares the capabilities of one client of the proxy."""
        options: ClientOptions = {**self._options, "cache": False}
        if info is not None and options.get("client_info") is None:
            options["client_info"] = info
        if self._facts is not None and options.get("mode", "auto") == "auto" and self._facts.has_sessions:
            options["mode"] = "legacy"  # the first connection has negotiated it
        client = BackendClient(self._target, settings_of(options, self._target), declared)
        return BackendSession(client, self.server.bus, owner=owner, key=key)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def forward(self, ctx: ServerRequestContext[Any]) -> Any:
        """Forward a request with raw params, and return the raw result."""
        method = ctx.method
        params = params_of(ctx)
        origin = self._origin
        if origin is not None:
            origin.set(ctx.transport)
        try:
            if not self.facts.has_sessions:
                raw = await self._to_modern(ctx, method, params)
            elif self.is_session(ctx.session.connection):
                backend = await self.own_backend(ctx.session.connection)
                raw = await backend.call(ctx, method, params, meta=meta_of(ctx), on_progress=_progress_to(ctx))
                raw = backend.client.usable_page(method, raw)
            else:
                raw = await self._to_pool(ctx, method, params)
        except RemoteError as error:
            refusal = error.__cause__
            # The backend knows the principal, so its error is forwarded unchanged.
            if origin is not None and isinstance(refusal, MCPError):
                raise refusal from None
            code = error.code
            if code == self.facts.revision.missing_resource_code and _names(error.data, params.get("uri")):
                code = ctx.revision.missing_resource_code
            raise MCPError(error.message, code=code, data=error.data) from error
        finally:
            if origin is not None:
                origin.set(None)
        return self._finished(method, raw)

    def _finished(self, method: str, raw: Any) -> Any:
        """Return the raw result in the form that `finish_result` takes."""
        if isinstance(raw, Encoded):
            return raw
        if raw.get("resultType", "complete") not in ("complete", "input_required"):
            # A result of an extension: the backend knew what this client declares.
            return Encoded(encode(raw))
        meta = raw.get("_meta")
        if self._name is not None and isinstance(meta, Mapping) and META_SERVER_INFO in meta:
            kept = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != META_SERVER_INFO}
            return {**raw, "_meta": kept}
        return raw

    async def _to_modern(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """Forward to a modern backend: any connection will do, if its messages can be distinguished."""
        connection = ctx.session.connection
        level = connection.log_level or "debug" if ctx.revision.has_sessions else ctx.meta.get(LOG_LEVEL_KEY)
        if self.facts.capabilities.get("logging") is None and ctx.revision.has_sessions:
            level = None
        meta = meta_of(ctx)
        meta[CLIENT_CAPABILITIES_KEY] = _declared(connection)
        if connection.client_info_raw is not None and self._options.get("client_info") is None:
            meta[CLIENT_INFO_KEY] = to_builtins(connection.client_info_raw)
        if level is not None:
            meta[LOG_LEVEL_KEY] = level
        # Log messages on a pipe do not say to which request they belong.
        exclusive = level is not None and isinstance(self.main.target, StdioTarget)
        backend = await self._pool.acquire("", {}, None, exclusive=True) if exclusive else self._main
        try:
            raw = await self._call_modern(backend, ctx, method, params, meta)
            if ctx.revision.has_rounds or raw.get("resultType") != "input_required":
                return raw

            async def send(sent: dict[str, Any]) -> dict[str, Any]:
                return await self._call_modern(backend, ctx, method, sent, meta)

            async def answer(key: str, question: str, asked: Mapping[str, Any] | None) -> Any:
                return await ctx.session.send_request(question, asked)

            return await run_rounds(method, params, raw, send, answer, max_rounds=16)
        finally:
            if exclusive:
                await self._pool.release(backend, exclusive=True)

    async def _call_modern(
        self,
        backend: BackendSession,
        ctx: ServerRequestContext[Any],
        method: str,
        params: dict[str, Any],
        meta: Mapping[str, Any],
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"meta": meta, "on_progress": _progress_to(ctx)}
        if method == "tools/call":
            client, name, arguments = backend.client, params.get("name"), params.get("arguments")
            try:
                mirrored = client.mirrored(name, arguments)
                return cast("dict[str, Any]", await backend.call(ctx, method, params, headers=mirrored, **options))
            except RemoteError as error:
                if error.code != JsonRpcErrorCode.HEADER_MISMATCH or not await client.learn_headers():
                    raise
                options["headers"] = client.mirrored(name, arguments)
        raw = await backend.call(ctx, method, params, **options)
        return backend.client.usable_page(method, raw)

    async def _to_pool(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """Forward to a legacy backend for a client without a session, on a shared session."""
        declared = _declared(ctx.session.connection)
        has_level = LOG_LEVEL_KEY in ctx.meta
        may_ask = method in ctx.revision.input_required_methods
        if not may_ask or self._has_one_session or not (declared or has_level):
            async with self.shared_backend(ctx, exclusive=False) as backend:
                raw = await backend.call(ctx, method, params, meta=meta_of(ctx), on_progress=_progress_to(ctx))
                return backend.client.usable_page(method, raw)
        state, answers = params.pop("requestState", None), params.pop("inputResponses", None)
        fingerprint, party = fingerprint_of(method, params), ctx.transport.principal
        if state is not None:
            parked = self._parked.get(state) if isinstance(state, str) else None
            is_theirs = parked is not None and parked.party == party
            if is_theirs:
                del self._parked[state]
            if parked is None or not is_theirs or parked.fingerprint != fingerprint:
                raise InvalidParams("This request cannot be continued: its state is unknown or has expired")
            parked.resume(ctx, cast("Mapping[str, Any]", answers) if isinstance(answers, Mapping) else {})
        else:
            parked = ParkedCall(fingerprint, party)
            parked.begin(ctx)
            self.background.start(self._run_parked(parked, method, params, ctx), "ferrule-proxy-call")
        return await self._await_parked(parked)

    async def _await_parked(self, parked: ParkedCall) -> Any:
        try:
            await parked.turned.wait()
        except BaseException:
            parked.abandon()
            raise
        if parked.error is not None:
            raise parked.error
        if parked.result is not None:
            return parked.result
        if len(self._parked) >= MAX_PARKED:
            parked.abandon()
            raise LocalError("Too many calls wait for answers of the client")
        state = secrets.token_urlsafe(24)
        self._parked[state] = parked
        return {"resultType": "input_required", "inputRequests": parked.questions(), "requestState": state}

    async def _run_parked(
        self, parked: ParkedCall, method: str, params: dict[str, Any], ctx: ServerRequestContext[Any]
    ) -> None:
        """Run one call on a session of the pool, across several requests of the client."""
        meta = meta_of(ctx)
        with parked.scope:
            try:
                async with self.shared_backend(ctx, exclusive=True, parked=parked) as backend:
                    parked.result = await backend.client.request(method, params, meta=meta, on_progress=parked.progress)
            except Exception as error:
                parked.error = error
        if parked.result is None and parked.error is None:
            parked.error = LocalError("The client did not continue the call in time")
        for state in [state for state, other in self._parked.items() if other is parked]:
            del self._parked[state]  # the client did not come back in time
        parked.turned.set()

    # -- sessions ---------------------------------------------------------------------------------------------------

    def is_session(self, connection: Connection) -> bool:
        """Return whether a connection is a legacy session; a legacy client of a stateless endpoint has none."""
        return connection.revision.has_sessions and connection.client_params is not None and not self._has_one_session

    async def own_backend(self, connection: Connection) -> BackendSession:
        """Return the session with the backend of one legacy client; it ends with the client's."""
        backend = self.sessions.get(id(connection))
        if backend is None:
            declared = _declared(connection)
            backend = self._make_backend(declared, connection.client_info, owner=connection)
            self.sessions[id(connection)] = backend
            made = backend

            def close() -> None:
                self.sessions.pop(id(connection), None)
                self._closing.add(made)
                self.background.start(self._close_backend(made), "ferrule-proxy-close")

            connection.on_closing(close)
        if self.sessions.get(id(connection)) is not backend:
            raise ConnectionClosed("The client has disconnected")
        await self._release_main()
        await backend.connect()
        return backend

    async def _close_backend(self, backend: BackendSession) -> None:
        await backend.client.aclose()
        self._closing.discard(backend)

    @asynccontextmanager
    async def shared_backend(
        self, ctx: ServerRequestContext[Any], *, exclusive: bool, parked: ParkedCall | None = None
    ) -> AsyncGenerator[BackendSession]:
        """Return a session with the backend for a client that has none of its own."""
        if self._has_one_session:
            yield self._main
            return
        connection = ctx.session.connection
        declared = _declared(connection)
        party = ctx.transport.principal
        info = connection.client_info
        # A principal may be an object of the program's own verifier.
        key = encode_str([str(getattr(party, "id", party)), to_builtins(declared), to_builtins(info)])
        await self._release_main()
        backend = await self._pool.acquire(key, declared, info, exclusive=exclusive)
        try:
            backend.parked = backend.parked if parked is None else parked
            if LOG_LEVEL_KEY in ctx.meta and backend.client.log_level is None:
                await self._ask_for_logs(backend)
            yield backend
        finally:
            if parked is not None:
                backend.parked = None
            await self._pool.release(backend, exclusive=exclusive)

    async def _ask_for_logs(self, backend: BackendSession) -> None:
        """Ask the backend for every level: modern clients name theirs in each request, and the proxy filters by it."""
        if self.facts.capabilities.get("logging") is None:
            return
        try:
            await backend.client.set_log_level("debug")
        except FerruleError as error:
            logger.warning("Log messages of %s are not available: %s", self.main.label, error)

    async def _release_main(self) -> None:
        """Close the session that read what the backend announces: clients have their own from now on, and some servers
        (a browser, a locked file) support one session at a time."""
        if isinstance(self.main.target, PairTarget) or not self.main.is_connected:
            return
        if isinstance(self.main.target, InProcessTarget):
            return  # in this process: closing it would end the lifespan of the server
        await self.main.aclose()

    # -- small requests ---------------------------------------------------------------------------------------------

    async def set_level(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve ``logging/setLevel``: the backend gets it if it keeps a level for each session."""
        connection = ctx.session.connection
        if not self.facts.has_sessions or not self.is_session(connection):
            return await builtin_set_level(typed(ctx))
        result = await self.forward(ctx)
        backend = await self.own_backend(connection)
        backend.client.note_log_level(ctx.params.get("level"))
        return result

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _forward_unregistered(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Middleware: forwards methods without a handler and notifications, and adds what the backend announces."""
        if ctx.request_id is None:
            await call_next(ctx)
            await self.take_notification(ctx)
            return None
        if ctx.method in ("initialize", "server/discover"):
            return self._introduced(ctx, await call_next(ctx))
        connection = ctx.session.connection
        is_ours = ctx.server.get_request_handler(ctx.method) is not None
        if is_ours or not connection.initialize_accepted or not self._exists_on_both_sides(ctx.method, connection):
            return await call_next(ctx)
        result = await self.forward(ctx)
        return finish_result(ctx.server, connection, ctx.method, result)

    def _exists_on_both_sides(self, method: str, connection: Connection) -> bool:
        """Return whether a method without a handler means the same to the client and to the backend.

        A method of the core does when both revisions have it. One that neither has is an extension's within an era.
        """
        if not is_core_method(method):
            return True
        if self._facts is None or connection.revision.has_sessions is not self._facts.has_sessions:
            return False
        return (method in connection.revision.requests) is (method in self._facts.revision.requests)

    def _introduced(self, ctx: ServerRequestContext[Any], result: Any) -> Any:
        made = cast("dict[str, Any]", to_builtins(result))
        facts = self.facts
        for key, value in facts.raw.items():
            if key not in _INTRODUCTION and (key not in made or ctx.revision.has_sessions is facts.has_sessions):
                made[key] = value
        if self._name is None and "serverInfo" in made and isinstance(facts.info, Mapping):
            made["serverInfo"] = {**{k: v for k, v in facts.info.items() if k not in _INFO}, **made["serverInfo"]}
        return made

    async def take_notification(self, ctx: ServerRequestContext[Any]) -> None:
        """Forward a notification of a legacy client to a legacy backend, on the session of that client."""
        connection = ctx.session.connection
        if self._facts is None or not self._facts.has_sessions or not self.is_session(connection):
            return
        if ctx.method in _HANDLED:
            return
        if ctx.method == "notifications/initialized":
            self.background.start(self._prepare(connection), "ferrule-proxy-session")
            return
        try:
            backend = await self.own_backend(connection)
            await backend.client.session.channel.notify(ctx.method, ctx.params or None)
        except (FerruleError, OSError) as error:
            logger.warning("%s did not reach %s: %s", ctx.method, self.main.label, error)

    async def _prepare(self, connection: Connection) -> None:
        """Open the session of a client at once: the backend may send messages before the first request."""
        try:
            await self.own_backend(connection)
        except (FerruleError, OSError) as error:
            logger.warning("No session with %s could be opened: %s", self.main.label, error)


_INFO: Final = frozenset(Implementation.__struct_encode_fields__)


def _declared(connection: Connection) -> dict[str, Any]:
    """Return the capabilities that a client declared, unchanged."""
    raw = connection.client_capabilities_raw
    return cast("dict[str, Any]", to_builtins(raw)) if isinstance(raw, Mapping) else {}


def _names(data: Any, uri: Any) -> bool:
    """Return whether the data of an error names the requested resource, which in each era means that it is missing."""
    return uri is not None and isinstance(data, Mapping) and cast("Mapping[str, Any]", data).get("uri") == uri


def _progress_to(ctx: ServerRequestContext[Any]) -> Callable[[float, float | None, str | None], Any] | None:
    """Return a function that forwards progress; ``None``: the client did not ask for any."""
    if ctx.meta.get("progressToken") is None:
        return None

    async def progress(value: float, total: float | None, message: str | None) -> None:
        await ctx.session.progress(value, total, message)

    return progress
