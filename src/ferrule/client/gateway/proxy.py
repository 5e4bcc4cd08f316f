"""`proxy(target)`: a server that forwards to another one, the backend, in any combination of eras.

Requests, results, notifications and ``_meta`` are forwarded unchanged, with members that this library does not know.
What differs between two revisions is rewritten (`ferrule.wire.revisions`). What belongs to one hop stays on it: ids,
progress tokens, the modern envelope. A request of the backend to the client is handled in one of four ways:

* modern backend, modern client: the ``input_required`` result is forwarded with its state; nothing is kept here.
* modern backend, legacy client: the input requests are sent to the client, and the rounds run here.
* legacy backend, legacy client: the request is forwarded to the client.
* legacy backend, modern client: the call is *parked* (`ferrule.client.gateway.parked_calls`): the request becomes an
  ``input_required`` result, and the client's next request continues the call.

`ferrule.client.gateway.backend_sessions` chooses the session with the backend for each client. Modern servers are
stateless: one connection serves every client, and each request declares the capabilities of its own client.

A protected server in this process stays protected: the proxy has the same protection, and each request reaches the
server with the principal of its own caller (`ferrule.kernel.protection`).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import anyio

from ferrule._options import check_options
from ferrule.client.calls.rounds import run_rounds
from ferrule.client.config import read_target
from ferrule.client.gateway.backend_sessions import (
    MAX_SESSIONS,
    BackendClient,
    BackendClientGone,
    BackendSession,
    BackendSessionPool,
    declared_by,
    shared_key,
)
from ferrule.client.gateway.forwarded import forwarded_result, names_resource, progress_to
from ferrule.client.gateway.pages import RawList, all_pages
from ferrule.client.gateway.parked_calls import ParkedCall, ParkedCalls
from ferrule.client.gateway.upstream_changes import UpstreamChanges, meta_of, params_of, typed, without_hop
from ferrule.client.gateway.upstreams.processes import ProcessBudget
from ferrule.client.settings import settings_of
from ferrule.client.targets import InProcessTarget, PairTarget, StdioTarget
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, SubscriptionBus
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.kernel.serving.passed_states import PassedStates
from ferrule.kernel.standard_methods import set_level as builtin_set_level
from ferrule.protocol.caching import DEFAULT_CACHE_HINT
from ferrule.protocol.capabilities import EXTENSIONS_OF_BOTH_ERAS, SKILLS_EXTENSION, extension_settings
from ferrule.protocol.errors import LocalError, MCPError, RemoteError
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, CLIENT_INFO_KEY, LOG_LEVEL_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import encode, to_builtins
from ferrule.wire.faults import FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import Revision, is_core_method
from ferrule.wire.types import META_SERVER_INFO, Implementation

if TYPE_CHECKING:
    from ferrule.client.gateway.tool_search import GatewaySearch
    from ferrule.client.gateway.upstreams.settings import SessionSharing
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.connection import Connection
    from ferrule.search.definitions import ToolSearchMode

__all__ = ["METHODS_OF_KINDS", "DependsOnCaller", "Proxy", "proxy"]

logger = logging.getLogger("ferrule.client.gateway.proxy")

METHODS_OF_KINDS: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("tools/list", "tools/call"),
    "prompts": ("prompts/list", "prompts/get"),
    "resources": ("resources/list", "resources/templates/list", "resources/read"),
    "completions": ("completion/complete",),
}
_BOTH_ERAS: Final = ("tools", "prompts", "resources", "completions", "logging", "experimental")
_INTRODUCTION: Final = frozenset(
    {"protocolVersion", "supportedVersions", "capabilities", "serverInfo", "instructions", "resultType", "_meta"}
)
_KINDS: Final = {method: kind for kind, method in LIST_CHANGED_METHODS.items()}
_TOOLS_CHANGED: Final = LIST_CHANGED_METHODS["tools"]
_HANDLED: Final = frozenset({"notifications/cancelled", "notifications/progress"})


def proxy(
    target: Any, *, name: str | None = None, tool_search: ToolSearchMode = False, **options: Unpack[ClientOptions]
) -> Server[Any]:
    """Return a server that forwards everything to another one.

    It connects when it starts (its lifespan) and announces the identity, instructions and capabilities of the backend.
    Serve it like any `Server`, or give it to a `Client`.

    Args:
        target: anything that a `Client` can be made of, except a group.
        name: the name that it announces; the backend's if ``None``.
        tool_search: ``True``: list three tools that find, describe and call those of the backend; ``"auto"``: where it
            has more than 60; a number: where it has more than that. All tools can still be called by their names.
        options: for the connections to the backend, as for `Client`; requests of the backend go to the clients of the
            proxy, and ``client_info`` is theirs if it is not given.
    """
    from ferrule.client.options import ClientOptions  # only used to check the names

    check_options("proxy()", options, ClientOptions)
    made = Proxy(target, name, options)
    if tool_search:
        made.offer_search(tool_search)
    return made.server


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


class DependsOnCaller:
    """Attached to a server in this process whose answers depend on the caller: a proxy of it tells it each caller."""


class Proxy:
    """The state of a server that `proxy` made; see `of`.

    Attributes:
        server: that server.
        main: the connection that read what the backend announces; with a modern backend it serves every client.
        sessions: the sessions of legacy clients, by the identity of their connection.
        changes: the subscriptions at the backend.
        background: runs its tasks.
        processes: the processes of a legacy backend; ``None`` where they are not bounded.
        on_change: called with the kind of each list of the backend that has changed.
        tools_changed: called when the tools of the backend have changed; returns whether clients are notified.
    """

    def __init__(self, target: Any, name: str | None, options: ClientOptions) -> None:
        target = read_target(target)
        protected = target.server if isinstance(target, InProcessTarget) and target.server.protection else None
        self._origin: ContextVar[Any] | None = None
        if isinstance(target, InProcessTarget) and (protected or DependsOnCaller in target.server.attachments):
            self._origin = ContextVar("ferrule-proxy-origin", default=None)
            target = replace(target, origin=self._origin.get)
        self._target = target
        self._name = name
        given = options.get("middleware", ())
        self.client_middleware = given if isinstance(given, list) else list(given)
        self._options: ClientOptions = {**options, "middleware": self.client_middleware}
        self._users = 0
        self._lock: anyio.Lock | None = None
        self.background = Background()
        self.tools_changed: Callable[[], bool] | None = None
        self.on_change: Callable[[str], None] | None = None
        self._search: GatewaySearch | None = None
        self.sessions: dict[int, BackendSession] = {}
        self._closing: set[BackendSession] = set()
        self.processes: ProcessBudget | None = None
        self._client_keys: dict[int, bytes] = {}
        self._parked = ParkedCalls(self.background, self._open_parked)
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
        self.server.attachments.made(PassedStates)
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

    def bound_processes(self, sharing: SessionSharing, max_processes: int, idle_s: float | None) -> None:
        """Bound the processes of the backend, if its sessions are processes; called before the proxy starts.

        Args:
            sharing: which clients share a process; see `UpstreamSettings.sessions`.
            max_processes: processes at the same time.
            idle_s: seconds without a request after which an unused one is ended; ``None``: never.
        """
        is_process = isinstance(self.main.target, StdioTarget)
        if not is_process and sharing == "auto":
            return
        self.processes = ProcessBudget(
            lambda: self.main.label,
            sharing=sharing,
            max_processes=max_processes if is_process else MAX_SESSIONS,
            idle_s=idle_s if is_process else None,
        )

    @property
    def depends_on_caller(self) -> bool:
        """Whether the backend answers each caller differently."""
        return self._origin is not None

    def use_bus(self, bus: SubscriptionBus) -> None:
        """Publish changes on the bus of another server, which mounts this one."""
        self.server.bus = bus
        self._main.bus = bus

    def offer_search(self, mode: ToolSearchMode) -> None:
        """List a search in place of the tools of the backend, always or where there are too many of them.

        Raises:
            ValueError: there is no such mode.
        """
        from ferrule.client.gateway.tool_search import GatewaySearch  # loads SQLite

        self._search = GatewaySearch(
            self.server,
            mode,
            self._all_tools,
            self.forward,
            announces=lambda: "tools" in self.server.list_changed,
            background=lambda: self.background,
            # What a protected server shows depends on its caller's token, of which only a name is known here.
            rereads=self._origin is not None,
        )
        self.tools_changed = self._search.note_change

    async def _all_tools(self, ctx: ServerRequestContext[Any]) -> RawList:
        async def ask(params: dict[str, Any]) -> Any:
            return await self.forward(replace(ctx, params=params))

        label = self.main.label
        return await all_pages(ask, ctx.params, method=ctx.method, key="tools", name="name", label=label)

    def tells_change(self, method: str) -> bool:
        """Return whether a change at the backend is forwarded; called with the notification of each."""
        if self.on_change is not None and method in _KINDS:
            self.on_change(_KINDS[method])
        return method != _TOOLS_CHANGED or self.tools_changed is None or self.tools_changed()

    async def check(self, timeout_s: float) -> None:
        """Send a ping to the backend, on a session that is open if there is one.

        Raises:
            FerruleError: the backend does not answer within ``timeout_s``.
        """
        backends = [self._main, *self.sessions.values(), *self._pool.backends]
        backend = next((backend for backend in backends if backend.client.is_connected), self._main)
        await backend.connect()
        await backend.client.ping(timeout_s=timeout_s)

    async def read_own(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return one page of a list for the proxy itself, which declares no capabilities.

        Raises:
            FerruleError: the backend does not answer, or answers with an error.
        """
        await self._main.connect()
        return self.main.usable_page(method, await self.main.request(method, params))

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
        if self.processes is not None:
            self.processes.clear()
        self._parked.clear()
        self.changes.clear()
        if self._search is not None:
            self._search.lists.clear()
        for backend in backends:
            await backend.aclose()
        await self._main.aclose()

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
        for kind, methods in METHODS_OF_KINDS.items():
            if capabilities.get(kind) is not None:
                for method in methods:
                    handler = self._searching(method) or self.forward
                    server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)
        typed = behind.capabilities
        bundles = {"tools": typed.tools, "prompts": typed.prompts, "resources": typed.resources}
        server.list_changed = {kind for kind, bundle in bundles.items() if bundle is not None and bundle.list_changed}
        server.logging = typed.logging is not None
        if extension_settings(capabilities, SKILLS_EXTENSION) is not None:
            for method in ("skills/list", "skills/get", "resources/directory/read"):
                server.add_request_handler(method, self.forward, params_type=dict[str, Any], trusted=True)
                if method != "resources/directory/read":  # hints are mandatory, and a legacy backend sends none
                    server.cache_hints.setdefault(method, DEFAULT_CACHE_HINT)
        server.resource_updates = typed.resources is not None and bool(typed.resources.subscribe)
        server.add_request_handler("logging/setLevel", self.set_level, params_type=dict[str, Any], trusted=True)
        server.add_request_handler(
            "resources/subscribe", self.changes.subscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler(
            "resources/unsubscribe", self.changes.unsubscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler("subscriptions/listen", self.changes.listen, trusted=True)

    def _searching(self, method: str) -> Callable[[ServerRequestContext[Any]], Any] | None:
        """Return how a search serves a method; ``None`` where it does not."""
        search = self._search
        handlers = {} if search is None else {"tools/list": search.list_tools, "tools/call": search.call_tool}
        return handlers.get(method)

    def _capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """Return the capabilities of the backend, without those that the revision of the client does not have."""
        if self._facts is None:
            return {}
        found = dict(self._facts.capabilities)
        if revision.has_sessions is not self._facts.has_sessions:
            extensions = {
                name: settings
                for name in EXTENSIONS_OF_BOTH_ERAS
                if (settings := extension_settings(found, name)) is not None
            }
            found = {key: found[key] for key in _BOTH_ERAS if key in found}
            if extensions:
                found["extensions"] = extensions
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
        return BackendSession(
            client,
            self.server.bus,
            owner=owner,
            key=key,
            tells_change=self.tells_change,
            processes=self.processes,
            admit=self._admit,
            adopted=self._adopt,
        )

    async def _admit(self, backend: BackendSession) -> None:
        """Wait until a session may be opened, where the backend has a bounded number of processes."""
        if self.processes is not None and self._facts is not None and self._facts.has_sessions:
            await self.processes.admit(backend, self.background)

    def _adopt(self, backend: BackendSession, connection: Connection) -> None:
        """Make a shared session that of its only client, whom its server has asked something."""
        if id(connection) not in self.sessions and self._pool.remove(backend):
            self._own(backend, connection)

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
                raw = await backend.call(ctx, method, params, meta=meta_of(ctx), on_progress=progress_to(ctx))
                raw = backend.client.usable_page(method, raw)
            else:
                raw = await self._to_pool(ctx, method, params)
        except RemoteError as error:
            refusal = error.__cause__
            # The backend knows the principal, so its error is forwarded unchanged.
            if origin is not None and isinstance(refusal, MCPError):
                raise refusal from None
            code = error.code
            if code == self.facts.revision.missing_resource_code and names_resource(error.data, params.get("uri")):
                code = ctx.revision.missing_resource_code
            raise MCPError(error.message, code=code, data=error.data) from error
        finally:
            if origin is not None:
                origin.set(None)
        return forwarded_result(raw, names_server=self._name is None)

    async def _to_modern(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """Forward to a modern backend, on any connection whose messages can be assigned to their requests."""
        connection = ctx.session.connection
        level = connection.log_level or "debug" if ctx.revision.has_sessions else ctx.meta.get(LOG_LEVEL_KEY)
        if self.facts.capabilities.get("logging") is None and ctx.revision.has_sessions:
            level = None
        meta = self._with_client(meta_of(ctx), connection)
        if level is not None:
            meta[LOG_LEVEL_KEY] = level
        # Log messages on a pipe do not name the request that they belong to.
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

    def _with_client(self, meta: dict[str, Any], connection: Connection) -> dict[str, Any]:
        """Add to the ``_meta`` of a request for a modern backend who the client is."""
        meta[CLIENT_CAPABILITIES_KEY] = declared_by(connection)
        if connection.client_info_raw is not None and self._options.get("client_info") is None:
            meta[CLIENT_INFO_KEY] = to_builtins(connection.client_info_raw)
        return meta

    # -- plain calls (`ferrule.client.gateway.plain`) -----------------------------------------------------------------

    def plain_backend(self, client: Connection | None) -> tuple[BackendSession | None, bytes | None]:
        """Return the session with the backend that a plain call of a client uses; ``None`` for one that is not plain.

        Args:
            client: the legacy connection; ``None`` for a modern client.

        Returns:
            The session, and what differs between the calls of its clients; ``None`` where nothing does.
        """
        facts = self._facts
        if facts is None or self._origin is not None or self._search is not None:
            return None, None
        if not facts.revision.has_sessions:
            if client is None:
                return self._main, None
            # A legacy client gets the log messages of its calls without asking.
            has_logs = facts.capabilities.get("logging") is not None
            return None if has_logs else self._main, self._client_keys.get(id(client)) or self._client_key(client)
        if client is None:
            return None, None
        if self.is_session(client):
            return self.sessions.get(id(client)), None
        if not self._shares or client.client_params is None or client.log_level is not None:
            return None, None
        attached = [backend for backend in self._pool.backends if id(client) in backend.attached]
        return attached[0] if len(attached) == 1 else None, None

    def _client_key(self, client: Connection) -> bytes:
        key = encode([declared_by(client), client.client_info_raw])
        if client.client_params is not None:
            self._client_keys[id(client)] = key
            client.on_closing(partial(_forget, self._client_keys, id(client)))
        return key

    def meta_of_plain(self, connection: Connection, meta: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the ``_meta`` that the backend gets with a plain call; ``None`` if the call asks for log messages."""
        if LOG_LEVEL_KEY in meta:
            return None
        kept = without_hop(meta)
        return kept if self.facts.has_sessions else self._with_client(kept, connection)

    def end_plain(self, backend: BackendSession, forward: Any) -> None:
        """Note that a plain call no longer uses its session with the backend."""
        backend.users -= 1
        backend.leave(forward)
        if backend is not self._main:
            self._pool.note_freed()

    async def _call_modern(
        self,
        backend: BackendSession,
        ctx: ServerRequestContext[Any],
        method: str,
        params: dict[str, Any],
        meta: Mapping[str, Any],
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"meta": meta, "on_progress": progress_to(ctx)}
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
        declared = declared_by(ctx.session.connection)
        has_level = LOG_LEVEL_KEY in ctx.meta
        may_ask = method in ctx.revision.input_required_methods
        if not may_ask or self._has_one_session or not (declared or has_level):
            async with self.shared_backend(ctx, exclusive=False) as backend:
                raw = await backend.call(ctx, method, params, meta=meta_of(ctx), on_progress=progress_to(ctx))
                return backend.client.usable_page(method, raw)
        return await self._parked.serve(ctx, method, params, meta_of(ctx))

    # -- sessions ---------------------------------------------------------------------------------------------------

    def is_session(self, connection: Connection) -> bool:
        """Return whether a connection is a legacy session; a legacy client of a stateless endpoint has none."""
        if not connection.revision.has_sessions or connection.client_params is None or self._has_one_session:
            return False
        return not self._shares or id(connection) in self.sessions

    @property
    def _shares(self) -> bool:
        """Whether clients share a process of the backend."""
        return self.processes is not None and self.processes.shares and self.facts.has_sessions

    async def own_backend(self, connection: Connection) -> BackendSession:
        """Return the session with the backend of one legacy client; it ends with the client's."""
        backend = self.sessions.get(id(connection))
        if backend is None:
            declared = declared_by(connection)
            backend = self._make_backend(declared, connection.client_info, owner=connection)
            self._own(backend, connection)
        if self.sessions.get(id(connection)) is not backend:
            raise BackendClientGone("The client has disconnected")
        await self._release_main()
        await backend.connect()
        return backend

    def _own(self, backend: BackendSession, connection: Connection) -> None:
        """Make a session that of one legacy client: it ends with the client's."""
        backend.owner = connection
        self.sessions[id(connection)] = backend

        def close() -> None:
            self.sessions.pop(id(connection), None)
            self._closing.add(backend)
            self.background.start(self._close_backend(backend), "ferrule-proxy-close")

        connection.on_closing(close)

    async def _close_backend(self, backend: BackendSession) -> None:
        await backend.aclose()
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
        declared = declared_by(connection)
        await self._release_main()
        is_attached = self._shares and connection.revision.has_sessions and connection.client_params is not None
        backend = await self._pool.acquire(
            shared_key(ctx),
            declared,
            connection.client_info,
            exclusive=exclusive,
            attached=connection if is_attached else None,
        )
        try:
            if parked is not None:
                backend.parked.append(parked)
            wants_logs = LOG_LEVEL_KEY in ctx.meta or (ctx.revision.has_sessions and connection.log_level is not None)
            if wants_logs and backend.client.log_level is None:
                await self._ask_for_logs(backend)
            yield backend
        finally:
            if parked is not None:
                backend.parked.remove(parked)
            await self._pool.release(backend, exclusive=exclusive)

    def _open_parked(
        self, ctx: ServerRequestContext[Any], parked: ParkedCall
    ) -> AbstractAsyncContextManager[BackendSession]:
        return self.shared_backend(ctx, exclusive=not self._shares, parked=parked)

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
        await self._main.aclose()
        if self.processes is not None:
            self.processes.forget(self._main)

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
        if is_ours or not connection.initialize_accepted or not self.exists_on_both_sides(ctx.method, connection):
            return await self.server.attachments.made(PassedStates).serve(ctx, call_next)
        result = await self.forward(ctx)
        return finish_result(ctx.server, connection, ctx.method, result)

    def exists_on_both_sides(self, method: str, connection: Connection) -> bool:
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
        if self._facts is None or not self._facts.has_sessions or ctx.method in _HANDLED:
            return
        if not self.is_session(connection):
            await self._notify_shared(ctx)
            return
        if ctx.method == "notifications/initialized":
            self.background.start(self._prepare(connection), "ferrule-proxy-session")
            return
        try:
            backend = await self.own_backend(connection)
            await backend.client.session.channel.notify(ctx.method, ctx.params or None)
        except (FerruleError, OSError) as error:
            logger.warning("%s did not reach %s: %s", ctx.method, self.main.label, error)

    async def _notify_shared(self, ctx: ServerRequestContext[Any]) -> None:
        """Forward a notification of a client that shares a process, if there is one; it has had its own handshake."""
        key = shared_key(ctx) if self._shares else None
        for backend in self._pool.backends:
            if backend.key == key and backend.client.is_connected and ctx.method != "notifications/initialized":
                await backend.client.session.channel.notify(ctx.method, ctx.params or None)
                return

    async def _prepare(self, connection: Connection) -> None:
        """Open the session of a client at once: the backend may send messages before the first request."""
        try:
            await self.own_backend(connection)
        except (FerruleError, OSError) as error:
            logger.warning("No session with %s could be opened: %s", self.main.label, error)


def _forget(keys: dict[int, bytes], client: int) -> None:
    keys.pop(client, None)


_INFO: Final = frozenset(Implementation.__struct_encode_fields__)
