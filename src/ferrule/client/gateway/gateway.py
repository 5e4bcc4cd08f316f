"""`Gateway`: one server in front of several.

It has a `proxy` for each of them (`ferrule.client.gateway.upstreams.upstream`), which handles the progress, the
questions of both eras, the cancellation and the log messages of a call. `ferrule.client.gateway.routes` has the names
and URIs.

A client never waits long for a server behind. A list is answered with what has come within a moment, and with the last
known list of every server that has not answered, which may be from an earlier start (`list_cache`); if the real list
differs from it, clients are notified that it has changed. A server that was late once is not waited for again until it
is quick. The capabilities of a server are announced as they were last known.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

import anyio

from ferrule._options import check_options
from ferrule.client.calls.tasks import TASKS_EXTENSION
from ferrule.client.concurrent import gather
from ferrule.client.config import read_target
from ferrule.client.gateway.backend_sessions import party_of
from ferrule.client.gateway.listening import UpstreamListener
from ferrule.client.gateway.members import GatewayMembers
from ferrule.client.gateway.other_requests import (
    NAMED_TASK_METHODS,
    GatewayTasks,
    forward_other,
    other_capabilities,
    task_of,
)
from ferrule.client.gateway.pages import LISTS, RawList
from ferrule.client.gateway.plain.tools import GatewayTools
from ferrule.client.gateway.proxy import METHODS_OF_KINDS, Proxy, proxy
from ferrule.client.gateway.routes import GatewayRoutes, prefix_for
from ferrule.client.gateway.status_tool import status_definition, status_name, status_result
from ferrule.client.gateway.upstreams.list_cache import ListCache, digest_of
from ferrule.client.gateway.upstreams.monitoring import Monitoring
from ferrule.client.gateway.upstreams.settings import DEFAULT_SETTINGS, UpstreamSettings, settings_from
from ferrule.client.gateway.upstreams.upstream import MOMENT_S, Upstream, UpstreamUnavailable
from ferrule.client.gateway.views import GatewayViews, views_of
from ferrule.client.supervision.feed import StatusFeed, StatusWatch
from ferrule.client.supervision.policy import DEFAULT_POLICY, ReconnectPolicy
from ferrule.client.supervision.supervisor import ConnectionSupervisor, Sleep
from ferrule.client.targets import GroupTarget
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.fast_path.fast_tools import FastTools
from ferrule.kernel.finish import finish_result
from ferrule.kernel.server import CallNext, Server, ServerMiddleware, ServerRequestContext
from ferrule.kernel.serving.members import MemberDirectory
from ferrule.kernel.serving.passed_states import PassedStates
from ferrule.kernel.standard_methods import set_level as builtin_set_level
from ferrule.protocol.app_pages import PAGE_MIME_TYPE, PAGE_URI_SCHEME, with_tool_prefix
from ferrule.protocol.caching import DEFAULT_CACHE_HINT
from ferrule.protocol.capabilities import APPS_EXTENSION, SKILLS_EXTENSION, extension_settings
from ferrule.protocol.errors import InvalidParams, LocalError, MCPError, ResourceNotFound
from ferrule.protocol.inbound import MirroredHeaders
from ferrule.transports.asgi.public_documents import PublicDocuments
from ferrule.transports.background import Background
from ferrule.wire.codec import Encoded, convert, encode
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import REVISIONS

if TYPE_CHECKING:
    from ferrule.client.gateway.tool_search import GatewaySearch
    from ferrule.client.options import ClientOptions
    from ferrule.kernel.protection import ServerProtection
    from ferrule.search.definitions import ToolSearchMode
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.hosting.options import AsgiOptions, RunOptions
    from ferrule.wire.revisions import Revision

__all__ = ["OPEN_S", "Gateway"]

logger = logging.getLogger("ferrule.client.gateway")

OPEN_S: Final = 0.25
"""Seconds that the start waits for servers of which nothing is known, so that it can announce what they can do."""
ATTEMPT_S: Final = 30.0
"""Seconds that one attempt to connect to a server may take, if ``connect_timeout_s`` is not given."""
_KNOWN_SHARE: Final = 1 / 7
"""The share of ``moment_s`` that a list waits for a server whose last list is known: 0.1 s."""
_SKILLS: Final = ("skills/get", "resources/directory/read")
_UNKNOWN: Final = (JsonRpcErrorCode.METHOD_NOT_FOUND, JsonRpcErrorCode.INVALID_PARAMS, -32002)
_KIND_OF_LIST: Final = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
}
_ANYTHING: Final[Mapping[str, Any]] = {
    "tools": {},
    "prompts": {},
    "resources": {"subscribe": True},
    "completions": {},
    "logging": {},
}
"""What a server of which nothing is known may turn out to have."""


class Gateway:
    """One server in front of several: ``run(Gateway("mcp.json"))``, ``Client(Gateway({"docs": docs_app}))``.

    It starts at once and answers at once. Servers that cannot be reached are tried again in the background; meanwhile
    their last known tools stay in the list, and a call to one says what is wrong.

    Args:
        target: a configuration in the ``mcpServers`` form (a mapping, or the path of a file); or a mapping of name →
            target of a `Client`, or the error that reading its entry raised.
        name: the name of the gateway as a server.
        settings: how single servers are used, by name.
        tool_search: whether a search is listed in place of the tools of all servers; see `ToolSearchMode`.
        status_tool: list a tool that says which servers are available.
        monitoring: serve a page with the state of the servers, metrics and their readiness beside the HTTP endpoint;
            see `ferrule.client.gateway.upstreams.monitoring`.
        list_cache: the folder of files with the last known lists; ``None``: they are forgotten at the end.
        open_s: seconds that the start waits for servers of which nothing is known.
        moment_s: seconds that a list waits for servers; a seventh of it for those whose last list is known. 0: it never
            waits.
        policy: the pauses between attempts to connect, and the circuit breaker.
        sleep: waits between two attempts to reach a server.
        wall_clock: returns seconds since the epoch.
        protection: authorizes the requests that come over a network, as of any server; ``None`` accepts all.
        server_middleware: the middleware of the server in front, outermost first, such as policies, quotas and audits.
            ``middleware`` among the options is that of the clients behind.
        options: options of the clients that connect to the servers, as for `Client`. ``fast_path=False``, or the
            environment variable ``FERRULE_FAST_PATH=0``, serves plain calls of tools as every other request.

    Attributes:
        server: the server in front; serve it like any `Server`.
        upstreams: the servers behind, by name.
        moment_s: as given.
        notice: a sentence for the status tool, such as why a changed configuration is not in force; ``None`` without.
        cache: the files with the last known lists; ``None``: there are none.
        client_middleware: the middleware of the clients that connect to the servers; the list may be changed later.

    Raises:
        TypeError: there is no such option.
        ValueError: ``tool_search`` is no such mode, the configuration is malformed, or none of its entries can be used.
    """

    def __init__(
        self,
        target: Any,
        *,
        name: str = "gateway",
        settings: Mapping[str, UpstreamSettings] | None = None,
        tool_search: ToolSearchMode = False,
        status_tool: bool = False,
        monitoring: bool = True,
        list_cache: str | Path | None = None,
        open_s: float = OPEN_S,
        moment_s: float = MOMENT_S,
        policy: ReconnectPolicy = DEFAULT_POLICY,
        sleep: Sleep = anyio.sleep,
        wall_clock: Callable[[], float] = time.time,
        protection: ServerProtection | None = None,
        server_middleware: Iterable[ServerMiddleware[Any]] = (),
        **options: Unpack[ClientOptions],
    ) -> None:
        from ferrule.client.options import ClientOptions  # only used to check the names

        check_options("Gateway()", options, ClientOptions)
        own: Any = self._pass_notifications
        self._own = own
        self.server: Server[Any] = Server(
            name, lifespan=self._lifespan, middleware=[*server_middleware, own], protection=protection
        )
        self.moment_s = moment_s
        self.notice: str | None = None
        self._open_s = open_s
        self._policy = policy
        self._sleep = sleep
        self._clock = wall_clock
        options["middleware"] = self.client_middleware = list(options.get("middleware", ()))
        self._options = options
        self.cache = None if list_cache is None else ListCache(Path(list_cache))
        self._feed = StatusFeed()
        self._background = Background()
        self._users = 0
        self._turn: anyio.Lock | None = None
        self._search: GatewaySearch | None = None
        self._has_status_tool = status_tool
        self._listeners: set[UpstreamListener] = set()
        self._last: dict[str, tuple[list[tuple[Upstream, RawList]], int, RawList]] = {}
        self._encoded: dict[tuple[str, Revision], tuple[RawList, Encoded]] = {}
        self.upstreams: dict[str, Upstream] = {}
        entries = _entries(target)
        given = {label: settings_from(said) for label, said in entries.settings.items()} | dict(settings or {})
        for label, entry in entries.servers.items():
            self.upstreams[label] = self._make(label, entry, given.get(label, DEFAULT_SETTINGS))
        self._routes = GatewayRoutes(self.upstreams)
        self._tasks = GatewayTasks()
        self._states = self.server.attachments.made(PassedStates)
        self._plain = GatewayTools(self.server, self._routes, own, self.is_own_tool)
        if options.get("fast_path", True) and os.environ.get("FERRULE_FAST_PATH") != "0":
            self.server.attachments[FastTools] = self._plain  # type: ignore[type-abstract]
        self.server.capability_sources.append(
            lambda revision: other_capabilities(self._usable(), revision, self.server.extensions)
        )
        if monitoring:
            self.server.attachments[PublicDocuments] = Monitoring(name, self.upstreams)  # type: ignore[type-abstract]
        if tool_search:
            self._offer_search(tool_search)
        self.server.attachments[MemberDirectory] = GatewayMembers(  # type: ignore[type-abstract]  # a protocol as a key
            self, self._routes, searches=self._search is not None
        )
        self.server.add_request_handler("subscriptions/listen", self._listen, trusted=True)
        if status_tool:
            self._serve_kind("tools")
        self.announce_known()

    @property
    def lowlevel(self) -> Server[Any]:
        """The server in front, for functions that take a server object: ``Client(gateway)``, ``run(gateway)``."""
        return self.server

    def run(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Unpack[RunOptions],
    ) -> None:
        """Serve until the input ends (stdio) or a signal comes; see `ferrule.run`."""
        from ferrule.transports.hosting.running import run

        run(self.server, transport, host=host, port=port, **options)

    async def run_async(
        self,
        transport: Literal["stdio", "http"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        **options: Unpack[RunOptions],
    ) -> None:
        """Serve in a running event loop until it is cancelled; see `ferrule.transports.hosting.running.run_async`."""
        from ferrule.transports.hosting.running import run_async

        await run_async(self.server, transport, host=host, port=port, **options)

    def asgi(self, **options: Unpack[AsgiOptions]) -> HttpEndpoint:
        """Return an ASGI application that serves both eras of the protocol on one URL; see `ferrule.asgi`."""
        from ferrule.transports.hosting.running import asgi

        return asgi(self.server, **options)

    def watch(self) -> StatusWatch:
        """Return an iterator over the states of all servers: the present ones, and each new one."""
        return self._feed.watch([upstream.status for upstream in self.upstreams.values()])

    # -- what views of it need ----------------------------------------------------------------------------------------

    def owner(self, kind: str, name: str) -> str | None:
        """Return the name of the server of an item by the last lists; ``None`` if none is known.

        Args:
            kind: ``"tools"``, ``"prompts"``, ``"resources"`` or ``"resourceTemplates"``.
            name: its name or URI as clients see it.
        """
        if kind in ("tools", "prompts"):
            found = None if self._routes.is_open(kind, name) else self._routes.of_name(kind, name)
            return None if found is None else found[0].name
        upstream = self._routes.of_template(name) if kind == "resourceTemplates" else None
        upstream = upstream or self._routes.of_uri(name)
        return None if upstream is None else upstream.name

    async def merged_list(self, ctx: ServerRequestContext[Any]) -> list[Any]:
        """Return the items of a list of all servers, also where a search stands in its place."""
        return (await self._merged(ctx)).items

    def instructions_for(self, servers: Collection[str] | None) -> str | None:
        """Return the instructions of some servers, of all for ``None``; ``None`` if there are none."""
        return self._instructions(servers)

    # -- the servers behind -----------------------------------------------------------------------------------------

    async def set_upstream(self, name: str, target: Any, settings: UpstreamSettings = DEFAULT_SETTINGS) -> None:
        """Add a server, or replace the one of this name, while the gateway runs; the others are not touched.

        Args:
            name: its name in the configuration.
            target: as an entry of the configuration.
            settings: how it is used.
        """
        last = self.upstreams.pop(name, None)
        self.upstreams[name] = upstream = self._make(name, target, settings)
        self._after_change()
        if self._users:
            upstream.start()
        if last is not None:
            await last.aclose()

    async def remove_upstream(self, name: str) -> None:
        """Remove a server while the gateway runs, and end its connections; nothing happens if there is none."""
        last = self.upstreams.pop(name, None)
        if last is not None:
            self._after_change()
            await last.aclose()

    def _after_change(self) -> None:
        self._routes.reset()
        self.server.instructions = self._instructions()
        for kind in sorted(self.server.list_changed):
            self._publish_change(kind)

    def _make(self, label: str, entry: Any, settings: UpstreamSettings) -> Upstream:
        wanted = label if settings.prefix is None else settings.prefix
        prefix = wanted and prefix_for(wanted, {upstream.prefix for upstream in self.upstreams.values()})
        made = error = key = None
        try:
            if isinstance(entry, Exception):
                raise entry
            target = read_target(entry)
            server = proxy(target, **self._options)
            if server.protection is not None:
                raise ValueError(
                    "it has auth=, and a gateway has no way to get a token: serve it itself, or give its URL"
                )
            made = Proxy.of(server)
            made.bound_processes(settings.sessions, settings.max_processes, settings.idle_s)
            if made.depends_on_caller:
                settings = replace(settings, is_per_user=True)
            made.use_bus(self.server.bus)  # changes of the servers are published to the gateway's clients
            if self._search is not None:
                made.tools_changed = self._search.note_change
            key = digest_of(label, target, str(self.server.server_info.name))
        except (TypeError, ValueError, KeyError, OSError) as raised:
            logger.warning("The server %r is left out: %s", label, raised)
            error = raised
        upstream = Upstream(
            label,
            prefix,
            made,
            settings,
            attempt_s=settings.connect_timeout_s or self._options.get("connect_timeout_s", ATTEMPT_S),
            clock=self._clock,
        )
        upstream.use_cache(self.cache, key)
        upstream.patience_s = lambda: self.moment_s
        upstream.on_up, upstream.on_changed = self._note_up, self._note_changed
        upstream.keeper = ConnectionSupervisor(
            label, upstream.connect, policy=self._policy, sleep=self._sleep, clock=self._clock, feed=self._feed
        )
        if error is not None:
            upstream.keeper.fail(error)
        return upstream

    def _usable(self) -> list[Upstream]:
        return [upstream for upstream in self.upstreams.values() if upstream.is_usable]

    def _up(self) -> list[Upstream]:
        """Return the servers that are connected."""
        return [upstream for upstream in self.upstreams.values() if upstream.is_up]

    def _offer_search(self, mode: ToolSearchMode) -> None:
        """List a search in place of the tools of all servers, always or where there are too many of them."""
        from ferrule.client.gateway.tool_search import GatewaySearch  # loads SQLite

        self._search = GatewaySearch(
            self.server,
            mode,
            self._merged,
            self._to_prefixed,
            announces=lambda: all(
                upstream.proxy is None or "tools" in upstream.proxy.server.list_changed for upstream in self._up()
            ),
            background=lambda: self._background,
        )
        for upstream in self._usable():
            assert upstream.proxy is not None
            upstream.proxy.tools_changed = self._search.note_change

    # -- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        """Start the servers when the first transport starts to serve, and end them after the last."""
        if self._turn is None:
            self._turn = anyio.Lock()
        async with self._turn:
            if not self._users:
                await self._open()
            self._users += 1
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                async with self._turn:
                    self._users -= 1
                    if not self._users:
                        await self._close()

    async def _open(self) -> None:
        usable = self._usable()
        if not usable and self.upstreams:
            why = "; ".join(f"{upstream.name}: {upstream.error}" for upstream in self.upstreams.values())
            raise LocalError(f"None of the servers can be used: {why}")
        self._background = Background()
        for upstream in usable:
            upstream.start()
        unknown = [upstream for upstream in usable if not upstream.is_known]
        with anyio.move_on_after(self._open_s):
            await gather([upstream.keeper.first_attempt() for upstream in unknown])
        if any(not upstream.is_known for upstream in unknown):
            # A legacy client asks for no list that was not announced at its handshake.
            self._announce(_ANYTHING)

    async def _close(self) -> None:
        await self._background.aclose()
        await gather([upstream.aclose() for upstream in self._usable()])
        self._turn = None

    async def _note_up(self, upstream: Upstream) -> None:
        """Announce what a server has that has just connected."""
        self._announce(upstream.known.capabilities)
        self.server.instructions = self._instructions()
        for listener in list(self._listeners):
            listener.add(upstream)

    # -- what is announced --------------------------------------------------------------------------------------------

    def announce_known(self) -> None:
        """Announce what is known of the servers, before any of them has connected."""
        for upstream in self.upstreams.values():
            if upstream.is_known:
                self._announce(upstream.known.capabilities)
        self.server.instructions = self._instructions()

    def _announce(self, capabilities: Mapping[str, Any]) -> None:
        """Serve what a server can do, beside what is served already."""
        for kind in METHODS_OF_KINDS:
            if capabilities.get(kind) is not None:
                self._serve_kind(kind)
        resources = capabilities.get("resources")
        if is_mapping(resources) and resources.get("subscribe") is True and not self.server.resource_updates:
            self.server.resource_updates = True
            for method in ("resources/subscribe", "resources/unsubscribe"):
                self.server.add_request_handler(method, self._to_owner, params_type=dict[str, Any], trusted=True)
        self.server.logging = self.server.logging or capabilities.get("logging") is not None
        self.server.add_request_handler("logging/setLevel", self._set_level, params_type=dict[str, Any], trusted=True)
        if extension_settings(capabilities, APPS_EXTENSION) is not None:
            self.server.add_extension(APPS_EXTENSION, in_handshake=True)
        names = self.server.attachments.made(MirroredHeaders).names
        if extension_settings(capabilities, TASKS_EXTENSION) is not None:
            names.update(dict.fromkeys(NAMED_TASK_METHODS, "taskId"))
        skills = extension_settings(capabilities, SKILLS_EXTENSION)
        if skills is not None:
            known = self.server.extensions.get(SKILLS_EXTENSION, {})
            self.server.add_extension(SKILLS_EXTENSION, {**known, **skills}, in_handshake=True)
            for method in ("skills/list", *_SKILLS):
                self._serve(method)
                if method != "resources/directory/read":
                    self.server.cache_hints.setdefault(method, DEFAULT_CACHE_HINT)

    def _serve_kind(self, kind: str) -> None:
        for method in METHODS_OF_KINDS[kind]:
            self._serve(method)
        if kind != "completions":
            self.server.list_changed.add(kind)  # it changes when a server comes, whatever the servers announce

    def _serve(self, method: str) -> None:
        self._encoded.clear()
        if self.server.get_request_handler(method) is not None:
            return
        handlers: Mapping[str, Any] = {
            "tools/call": self._to_prefixed,
            "prompts/get": self._to_prefixed,
            "resources/read": self._to_owner,
            **dict.fromkeys(_SKILLS, self._to_owner),
            "completion/complete": self._complete,
        }
        if self._search is not None:
            handlers = {**handlers, "tools/list": self._search.list_tools, "tools/call": self._search.call_tool}
        handler = handlers.get(method, self._list)
        if method == "tools/call":
            self._plain.handler = handler
        self.server.add_request_handler(method, handler, params_type=dict[str, Any], trusted=True)

    def _instructions(self, servers: Collection[str] | None = None) -> str | None:
        parts = [
            f"{upstream.prefix or upstream.name}: {upstream.known.instructions}"
            for upstream in self._usable()
            if upstream.known.instructions and (servers is None or upstream.name in servers)
        ]
        return "\n\n".join(parts) or None

    def _note_changed(self, upstream: Upstream, method: str) -> None:
        kind = _KIND_OF_LIST.get(method)
        if kind is not None and self.upstreams.get(upstream.name) is upstream:
            self._publish_change(kind)

    def _publish_change(self, kind: str) -> None:
        if kind != "tools" or self._search is None or self._search.note_change():
            self.server.bus.publish(Event.list_changed(kind))

    # -- lists ------------------------------------------------------------------------------------------------------

    async def _list(self, ctx: ServerRequestContext[Any]) -> Any:
        """Return every page of every server as one page, encoded if it is the same as the last one."""
        merged = await self._merged(ctx)
        made = {LISTS[ctx.method][0]: merged.items}
        if any(each is not self._own and not isinstance(each, GatewayViews) for each in self.server.middleware):
            return made  # other middleware reads what it passes
        at = ctx.method, ctx.revision
        kept = self._encoded.get(at)
        if kept is None or kept[0] is not merged:
            result = finish_result(self.server, ctx.session.connection, ctx.method, made)
            kept = self._encoded[at] = merged, Encoded(encode(result))
        return kept[1]

    async def _merged(self, ctx: ServerRequestContext[Any]) -> RawList:
        """Return the lists of every server as one: what comes within a moment, and else what is known."""
        party = party_of(ctx)
        found: dict[str, RawList] = {}
        usable = self._usable()

        async def live(upstream: Upstream) -> None:
            if not upstream.is_up:
                await upstream.keeper.first_attempt()
            request = upstream.begin_list(ctx, party)
            if request is None:
                return
            is_current = upstream.lists.is_current(party, ctx.method)
            with anyio.move_on_after(self.moment_s * (_KNOWN_SHARE if is_current else 1)):
                await request.done.wait()
            if request.result is not None:
                found[upstream.name] = request.result
            elif not request.done.is_set():
                upstream.is_late = True

        for upstream in usable:
            fresh = upstream.fresh_list(party, ctx.method)
            if fresh is not None:
                found[upstream.name] = fresh
        asked = [upstream for upstream in usable if upstream.name not in found]
        awaited = [upstream for upstream in asked if self._waits_for(upstream, ctx.method, party)]
        for upstream in asked:
            if upstream.is_late:
                upstream.begin_list(ctx, party)
        if awaited:
            with anyio.move_on_after(self.moment_s) as scope:
                await gather([live(upstream) for upstream in awaited])
            if scope.cancelled_caught:
                for upstream in awaited:
                    if upstream.name not in found:
                        upstream.is_late = True
        lists: list[tuple[Upstream, RawList]] = []
        for upstream in usable:
            shown = found.get(upstream.name)
            if shown is None:
                shown = upstream.lists.get(party, ctx.method)
                upstream.lists.note_shown(party, ctx.method, shown)
            if shown is not None:
                lists.append((upstream, shown))
        return self._merge(ctx.method, lists)

    def _merge(self, method: str, lists: list[tuple[Upstream, RawList]]) -> RawList:
        """Return the lists of several servers as one: the last one, if nothing of it has changed."""
        last = self._last.get(method)
        if last is not None and last[1] == self._routes.version and _are_same(last[0], lists):
            return last[2]
        merged = self._routes.merge(method, lists)
        if method == "tools/list":
            self._note_headers(lists)
        if self._has_status_tool and method == "tools/list":
            name = self._status_name()
            if all(tool["name"] != name for tool in merged.items):  # a server without prefix may have any name
                merged.items.append(status_definition(name))
        self._last[method] = lists, self._routes.version, merged
        return merged

    def _note_headers(self, lists: list[tuple[Upstream, RawList]]) -> None:
        """Have the headers checked that repeat arguments of tools: each server sees those that its proxy writes."""
        mirrored = self.server.attachments.made(MirroredHeaders).params
        for upstream, listed in lists:
            for own, plan in upstream.lists.header_plans(listed).items():
                mirrored[upstream.lead + own] = plan

    def _waits_for(self, upstream: Upstream, method: str, party: Any) -> bool:
        """Return whether a list may wait a moment for a server."""
        if upstream.is_late:
            return False
        return upstream.is_up or (upstream.is_starting and upstream.lists.get(party, method) is None)

    def is_own_tool(self, name: Any) -> bool:
        """Return whether a tool is the gateway's own, which says which servers are available."""
        return self._has_status_tool and name == self._status_name() and not self._routes.is_listed(name)

    def _status_name(self) -> str:
        return status_name(upstream.prefix for upstream in self.upstreams.values())

    # -- requests ---------------------------------------------------------------------------------------------------

    async def _to_prefixed(self, ctx: ServerRequestContext[Any]) -> Any:
        name: Any = ctx.params.get("name")
        is_call = ctx.method == "tools/call"
        if is_call and self.is_own_tool(name):
            return status_result(self.upstreams, self.notice)
        upstream, own = await self._split(ctx, "tools" if is_call else "prompts", name)
        try:
            result = await upstream.call(replace(ctx, params={**ctx.params, "name": own}))
            if isinstance(result, Encoded) or "task" in result:
                made = task_of(result)
                if made is not None:
                    self._routes.remember_task(made, upstream)
                    self._tasks.begin(ctx, upstream, made, name)
            return result
        except UpstreamUnavailable as error:
            if not is_call:
                raise
            # A result and not an error: hosts show models only the former.
            return {"content": [{"type": "text", "text": error.message}], "isError": True}

    async def _split(self, ctx: ServerRequestContext[Any], kind: str, name: Any) -> tuple[Upstream, str]:
        if not isinstance(name, str):
            raise InvalidParams(f"Invalid params for {ctx.method}: a name is text")
        if self._routes.is_open(kind, name):
            await self._merged(replace(ctx, method=f"{kind}/list", params={}))
        found = self._routes.of_name(kind, name)
        if found is None:
            raise InvalidParams(f"{name!r} begins with the name of no server")
        return found

    async def _to_owner(self, ctx: ServerRequestContext[Any]) -> Any:
        """Forward a request to the server of its URI: by the last list, by a template, or by trying each server."""
        uri: Any = ctx.params.get("uri")
        if not isinstance(uri, str):
            raise InvalidParams(f"Invalid params for {ctx.method}: a URI is text")
        sent, uri = uri, self._routes.spelled(uri)  # as middleware has judged it
        if uri != sent:
            if self._routes.of_uri(uri) is None and ctx.server.get_request_handler("resources/list") is not None:
                # The lists may not have been read yet, and a server may list another spelling.
                await self._merged(replace(ctx, method="resources/list", params={}))
                uri = self._routes.spelled(sent)
            ctx = replace(ctx, params={**ctx.params, "uri": uri})
        owner = self._routes.of_uri(uri)
        if owner is not None:
            return await self._read(owner, ctx)
        last: MCPError | None = None
        for upstream in sorted(self._up(), key=lambda each: each.is_late):
            if not _may_have(upstream, ctx.method):
                continue
            try:
                with anyio.fail_after(upstream.settings.list_s):
                    found = await self._read(upstream, ctx)
            except TimeoutError:
                upstream.is_late = True
            except UpstreamUnavailable as error:
                last = last or error
            except MCPError as error:
                if error.code not in _UNKNOWN:
                    raise
                if last is None or error.code != JsonRpcErrorCode.METHOD_NOT_FOUND:
                    last = error
            else:
                self._routes.remember(uri, upstream)
                return found
        raise last or ResourceNotFound(uri, code=ctx.revision.missing_resource_code)

    async def _read(self, upstream: Upstream, ctx: ServerRequestContext[Any]) -> Any:
        uri = str(ctx.params.get("uri"))
        result = await upstream.call(ctx)
        is_page = ctx.method == "resources/read" and uri.startswith(PAGE_URI_SCHEME)
        return _with_prefix(result, upstream.lead) if is_page and upstream.lead else result

    async def _complete(self, ctx: ServerRequestContext[Any]) -> Any:
        reference: Any = ctx.params.get("ref")
        if not is_mapping(reference):
            raise InvalidParams("Invalid params for completion/complete: `ref` is an object")
        if reference.get("type") == "ref/prompt":
            upstream, own = await self._split(ctx, "prompts", reference.get("name"))
            return await upstream.call(replace(ctx, params={**ctx.params, "ref": {**reference, "name": own}}))
        owner = self._routes.of_template(reference.get("uri"))
        if owner is None:
            raise InvalidParams(f"No server has a template {reference.get('uri')!r}: list them first")
        return await owner.call(ctx)

    async def _set_level(self, ctx: ServerRequestContext[Any]) -> Any:
        """Set the log level of every server with the logging capability, without waiting long for one."""
        typed = convert(ctx.params, REVISIONS[ctx.protocol_version].requests[ctx.method][0])
        result = await builtin_set_level(replace(ctx, params=typed))
        sent = [
            _sends_level(upstream, upstream.proxy, ctx)
            for upstream in _seen(ctx, self._up())
            if upstream.proxy is not None and upstream.proxy.server.logging
        ]
        with anyio.move_on_after(self.moment_s):
            for each in sent:
                await each.wait()
        return result

    async def _listen(self, ctx: ServerRequestContext[Any]) -> Any:
        """Serve one stream of the changes of all servers."""
        listener = UpstreamListener(ctx, self._routes, self._background)
        self._listeners.add(listener)
        try:
            return await listener.serve(self._up(), self.moment_s)
        finally:
            self._listeners.discard(listener)

    async def _pass_notifications(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Middleware: forward what has no handler, and notifications of a client to every server."""
        if ctx.request_id is not None:
            is_ours = ctx.server.get_request_handler(ctx.method) is not None
            if is_ours or not ctx.session.connection.initialize_accepted:
                return await self._states.serve(ctx, call_next)
            return await forward_other(_seen(ctx, self._usable()), self._routes, self._tasks, ctx, call_next)
        result = await call_next(ctx)
        if ctx.request_id is None:
            for upstream in _seen(ctx, self._up()):
                if upstream.proxy is not None:
                    upstream.post(partial(upstream.proxy.take_notification, ctx))
        return result


def _seen(ctx: ServerRequestContext[Any], upstreams: list[Upstream]) -> list[Upstream]:
    """Return those servers that the views of a request show."""
    views = views_of(ctx)
    return [each for each in upstreams if all(view.shows_server(each.name) for view in views)] if views else upstreams


def _are_same(last: list[tuple[Upstream, RawList]], lists: list[tuple[Upstream, RawList]]) -> bool:
    """Return whether two lists have the same lists of the same servers."""
    if len(last) != len(lists):
        return False
    return all(one is other and a is b for (one, a), (other, b) in zip(last, lists, strict=True))


def _sends_level(upstream: Upstream, forwards: Proxy, ctx: ServerRequestContext[Any]) -> anyio.Event:
    done = anyio.Event()

    async def send() -> None:
        try:
            await forwards.set_level(ctx)
        finally:
            done.set()

    upstream.post(send)
    return done


def _may_have(upstream: Upstream, method: str) -> bool:
    """Return whether a connected server may be asked with a method for a URI that no server has listed."""
    assert upstream.proxy is not None
    if method == "resources/read":
        # A server may announce skills alone, whose files are resources.
        return any(upstream.known.capabilities.get(each) is not None for each in ("resources", "extensions"))
    if method in _SKILLS:
        settings = extension_settings(upstream.known.capabilities, SKILLS_EXTENSION)
        return settings is not None and (method == "skills/get" or settings.get("directoryRead") is True)
    return upstream.proxy.server.resource_updates


def _entries(target: Any) -> GroupTarget:
    """Return the targets of a configuration by name, with their settings."""
    if is_mapping(target) and not {"mcpServers", "servers", "command", "url", "httpUrl"} & set(target):
        return GroupTarget(target)
    found = read_target(target)
    return found if isinstance(found, GroupTarget) else GroupTarget({"server": found})


def _with_prefix(result: Any, prefix: str) -> Any:
    """Return the contents of a page, which calls tools by their names on its own server, with the prefix of these."""
    contents: Any = result.get("contents") if is_mapping(result) else None
    if not is_list(contents):
        return result
    made = [
        {**each, "text": with_tool_prefix(each["text"], prefix)}
        if is_mapping(each) and each.get("mimeType") == PAGE_MIME_TYPE and isinstance(each.get("text"), str)
        else each
        for each in contents
    ]
    return {**result, "contents": made}
