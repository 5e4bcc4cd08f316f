"""One server behind a gateway: its connection, its calls, its lists.

Nothing here makes a client wait for a server that is not there. Lists are asked for in tasks of the server, and the
gateway decides how long it waits for them. A call to a server that is not connected starts an attempt at once and waits
for `UpstreamSettings.reach_s` at most; its error says since when the server is down, why, and when it is tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from ferrule.client.gateway.backend_sessions import BackendClientGone
from ferrule.client.gateway.pages import ANNOUNCED_S, LISTS, MAX_KEPT_S, RawList, all_pages, hints_of
from ferrule.client.gateway.upstreams.known_lists import KnownLists
from ferrule.client.gateway.upstreams.reasons import is_lost_connection, reason_of, sentence_of
from ferrule.client.supervision.supervisor import ConnectionSupervisor
from ferrule.client.targets import StdioTarget
from ferrule.protocol.errors import ConnectionClosed, FerruleError, InvalidParams, MCPError, RequestTimeout
from ferrule.transports.background import Background
from ferrule.wire.json_types import is_mapping
from ferrule.wire.jsonrpc import JsonRpcErrorCode

if TYPE_CHECKING:
    from ferrule.client.gateway.proxy import Proxy
    from ferrule.client.gateway.upstreams.list_cache import KnownServer, ListCache
    from ferrule.client.gateway.upstreams.settings import UpstreamSettings
    from ferrule.client.supervision.limits import CallLimits
    from ferrule.client.supervision.status import ConnectionStatus
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["MOMENT_S", "ListRequest", "Upstream", "UpstreamUnavailable"]

logger = logging.getLogger("ferrule.client.gateway")

MAX_LIST_REQUESTS: Final = 64
"""Lists that are asked for at one server at the same time."""
MOMENT_S: Final = 0.7
"""Seconds that a list waits for a server that has not been late before."""
MAX_NOTIFICATIONS: Final = 256
"""Notifications and log levels of clients that wait for one server; further ones are dropped, with a warning."""


class UpstreamUnavailable(MCPError):
    """A server behind the gateway is not there, or went away during the request; the message says when and why."""

    default_code = JsonRpcErrorCode.INTERNAL_ERROR


class ListRequest:
    """A request for a list that is in progress.

    Args:
        changes: `KnownLists.changes` at its beginning.

    Attributes:
        done: set when it has ended.
        result: the list; ``None`` until then, and if the server failed.
    """

    __slots__ = ("began", "changes", "done", "result")

    def __init__(self, changes: int) -> None:
        self.changes = changes
        self.began = anyio.current_time()
        self.done = anyio.Event()
        self.result: RawList | None = None


class Upstream:
    """One server behind a gateway.

    Args:
        name: its key in the configuration.
        prefix: what the names of its tools begin with, without the separator.
        proxy: forwards to it; ``None`` if its entry cannot be used.
        settings: how it is used.
        attempt_s: seconds that one attempt to connect may take.
        clock: returns seconds since the epoch.

    Attributes:
        keeper: keeps the connection to it; set by the gateway.
        lists: its last known lists.
        is_late: whether the last list did not come in time, so that no other waits for it.
        announced_s: seconds that a list without ``ttlMs`` is reused, if the server announces changes; 0: it is not.
        patience_s: returns the seconds in which a list is in time.
        active: requests in progress.
        requests: requests that were forwarded.
        errors: requests of which no answer came, with those that were not forwarded because it was down.
    """

    keeper: ConnectionSupervisor

    def __init__(
        self,
        name: str,
        prefix: str,
        proxy: Proxy | None,
        settings: UpstreamSettings,
        *,
        attempt_s: float = 30.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.prefix = prefix
        self.proxy = proxy
        self.settings = settings
        self.is_late = False
        self.active = self.requests = self.errors = 0
        self._attempt_s = attempt_s
        self.announced_s = ANNOUNCED_S
        self._cache: ListCache | None = None
        self._cache_key = ""
        self._clock = clock
        self.lists = KnownLists(None, is_per_user=settings.is_per_user)
        self._life = AsyncExitStack()
        self._background = Background()
        self._requests: dict[tuple[Hashable, str], ListRequest] = {}
        self._waiting: list[Callable[[], Awaitable[Any]]] = []
        self._is_sending = False
        self._limits: CallLimits | None = None
        self._version = self._saved = 0
        self._is_saving = False
        self.patience_s: Callable[[], float] = lambda: MOMENT_S
        self.on_up: Callable[[Upstream], Awaitable[None]] | None = None
        self.on_changed: Callable[[Upstream, str], None] | None = None

    # -- its state ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> ConnectionStatus:
        """The state of its connection."""
        return self.keeper.status

    @property
    def is_up(self) -> bool:
        """Whether it is connected."""
        return self.keeper.is_up

    @property
    def error(self) -> Exception | None:
        """Why it is not connected; ``None`` while it is connected."""
        return self.keeper.error

    @property
    def lead(self) -> str:
        """What the names of its tools begin with, with the separator; empty if they stay as they are."""
        return f"{self.prefix}_" if self.prefix else ""

    @property
    def is_starting(self) -> bool:
        """Whether the first attempt to connect is in progress."""
        return self.status.state == "connecting" and self.status.down_since is None

    @property
    def is_usable(self) -> bool:
        """Whether its entry in the configuration can be used."""
        return self.proxy is not None

    @property
    def known(self) -> KnownServer:
        """What is known of it: from this connection, or from the last one."""
        return self.lists.known

    @property
    def is_known(self) -> bool:
        """Whether it has been connected, now or at an earlier start."""
        return bool(self.known.capabilities)

    @property
    def process_count(self) -> int:
        """The number of processes that its sessions are; 0 where they are none, or their number has no bound."""
        processes = None if self.proxy is None else self.proxy.processes
        return 0 if processes is None else processes.count

    def sentence(self) -> str:
        """Return its state for people and models; see `sentence_of`."""
        return sentence_of(self.status, self._clock())

    def use_cache(self, cache: ListCache | None, key: str | None) -> None:
        """Begin with what a cache knows of the server, and keep there what is learned; called before `start`.

        Args:
            cache: the cache; ``None``: nothing is kept.
            key: the key of the server; ``None``: nothing is kept.
        """
        if cache is not None and key is not None and not self.settings.is_per_user:
            self._cache, self._cache_key = cache, key
            self.lists = KnownLists(cache.load(key), is_per_user=False)

    # -- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Connect in the background, and stay connected."""
        self._background = Background()
        self.is_late = False
        if self.proxy is not None:
            self.keeper.start(self._background)

    async def aclose(self) -> None:
        """End the connection, its processes and its tasks. Idempotent."""
        await self._background.aclose()
        if self.proxy is not None:
            self.keeper.close()
        life, self._life = self._life, AsyncExitStack()
        await life.aclose()
        await self._save()

    async def connect(self) -> None:
        """Make one attempt to connect; used by the supervisor.

        Raises:
            RequestTimeout: it took too long.
            Exception: the reason why it failed.
        """
        assert self.proxy is not None
        await self._life.aclose()
        life = AsyncExitStack()
        try:
            with anyio.move_on_after(self._attempt_s) as scope:
                await life.enter_async_context(self.proxy.server.lifespan())
            if scope.cancelled_caught:
                raise RequestTimeout("initialize", self._attempt_s)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await life.aclose()
            raise
        self._life = life
        await self._note_up()

    async def _recover(self) -> None:
        """Find out whether it responds again; a process that does not is started anew, unless a call is in progress."""
        assert self.proxy is not None
        try:
            await self.proxy.check(self.settings.list_s)
        except (FerruleError, OSError):
            if self.active or not isinstance(self.proxy.main.target, StdioTarget):
                raise
            await self.connect()
        self.is_late = False

    async def _note_up(self) -> None:
        assert self.proxy is not None
        facts = self.proxy.facts
        self.is_late = False
        self.lists.expire()
        known = self.known
        processes = self.proxy.processes
        if processes is not None:
            processes.asks = processes.asks or known.asks
            processes.on_asks = self._note_asks
        self.proxy.on_change = self.lists.note_change
        is_new = (known.capabilities, known.instructions) != (facts.capabilities, self.proxy.server.instructions)
        known.capabilities, known.instructions = facts.capabilities, self.proxy.server.instructions
        known.has_sessions = facts.has_sessions
        if self.on_up is not None:
            await self.on_up(self)
        if is_new:
            self._save_soon()
        shown = self.lists.shown_without_answer()
        read = set(known.lists)
        if processes is not None and facts.has_sessions:
            # A client's own session is a process that has to start; until then it gets these lists.
            read |= {method for method in LISTS if self.proxy.server.get_request_handler(method) is not None}
        for method in sorted(shown - read):
            self._changed(method)  # no list had this server
        if read and facts.has_sessions:
            # Before any client comes: its first request closes the session that reads them.
            with anyio.move_on_after(self.settings.list_s) as scope:
                await self._compare(read, shown)
            meanwhile = self.lists.shown_without_answer()
            for method in sorted(meanwhile | (shown if scope.cancelled_caught else set())):
                self._changed(method)
        elif read:
            self._background.start(self._compare(read, shown), "ferrule-gateway-lists")

    def _note_asks(self) -> None:
        self.known.asks = True
        self._save_soon()

    async def _compare(self, methods: set[str], shown: set[str]) -> None:
        """Read lists as they are now, and report those that clients have seen otherwise.

        Args:
            methods: the lists to read.
            shown: the lists that clients got without an answer of the server.
        """
        assert self.proxy is not None
        for method in sorted(methods):
            key, name = LISTS[method]
            before = self.known.lists.get(method)
            found = RawList()
            if self.proxy.server.get_request_handler(method) is not None:
                try:
                    with anyio.fail_after(self.settings.list_s):
                        ask = partial(self.proxy.read_own, method)
                        found = await all_pages(ask, {}, method=method, key=key, name=name, label=self.name)
                except (FerruleError, OSError, TimeoutError) as error:
                    logger.debug("%s of the server %r cannot be read: %s", method, self.name, error)
                    self._changed(method)
                    continue
            if found != before and not self.settings.is_per_user:
                self.known.lists[method] = found
                self._save_soon()
            if found != (before or RawList()) and (before is not None or method in shown):
                self._changed(method)

    def _changed(self, method: str) -> None:
        if self.on_changed is not None:
            self.on_changed(self, method)

    # -- lists --------------------------------------------------------------------------------------------------------

    @property
    def is_listing(self) -> bool:
        """Whether a request for a list is in progress."""
        return bool(self._requests)

    def begin_list(self, ctx: ServerRequestContext[Any], party: Hashable) -> ListRequest | None:
        """Ask for a list in a task of this server, unless the same client waits for it already.

        Args:
            ctx: the request of the client.
            party: the client, or those clients that get the same list.

        Returns:
            The request; ``None`` if the server is not connected, or too many lists are asked for.
        """
        if not self.is_up:
            return None
        at = party, ctx.method
        request = self._requests.get(at)
        if request is None and len(self._requests) < MAX_LIST_REQUESTS:
            request = self._requests[at] = ListRequest(self.lists.changes)
            self._background.start(self._list(replace(ctx, meta=_without_progress(ctx)), at, request), "ferrule-list")
        return request

    async def _list(self, ctx: ServerRequestContext[Any], at: tuple[Hashable, str], request: ListRequest) -> None:
        try:
            found = await self._whole_list(ctx)
            if found is not None:
                if self.known.lists.get(ctx.method) != found:
                    self._save_soon()
                # One that is always slow stays late, so that no list waits for it again.
                self.is_late = anyio.current_time() - request.began > self.patience_s()
                is_another = self.lists.learn(*at, found)
                request.result = self.lists.get(*at)
                reusable_s = self._reusable_s(ctx.method, found)
                # A change that was announced meanwhile may be missing in this list.
                if reusable_s and request.result is not None and self.lists.changes == request.changes:
                    self.lists.keep_fresh(*at, request.result, anyio.current_time() + reusable_s)
                if is_another:
                    self._changed(ctx.method)
        finally:
            del self._requests[at]
            request.done.set()

    def fresh_list(self, party: Hashable, method: str) -> RawList | None:
        """Return a client's last list, if it need not be read again; ``None`` if it has to be.

        A server that announces changes is not asked again before it does, for `announced_s` at most; any other one as
        long as its list allows by ``ttlMs``. A call of a tool may change a list, so that it is read again after one.
        """
        return self.lists.fresh(party, method, anyio.current_time()) if self.is_up else None

    def _reusable_s(self, method: str, found: RawList) -> float:
        assert self.proxy is not None
        if self.settings.is_per_user:
            return 0.0
        is_announced = method.partition("/")[0] in self.proxy.server.list_changed
        return min(hints_of(found.rest) or (self.announced_s if is_announced else 0.0), MAX_KEPT_S)

    async def _whole_list(self, ctx: ServerRequestContext[Any]) -> RawList | None:
        """Return every page of a list; ``None`` if the server fails."""
        assert self.proxy is not None
        key, name = LISTS[ctx.method]
        entry = self.proxy.server.get_request_handler(ctx.method)
        if entry is None:
            return RawList()

        async def ask(params: dict[str, Any]) -> Any:
            return await entry.handler(replace(ctx, params=params))

        limit_s = self.settings.list_s
        try:
            with anyio.fail_after(limit_s):
                found = await all_pages(ask, ctx.params, method=ctx.method, key=key, name=name, label=self.name)
        except BackendClientGone:
            return None
        except TimeoutError:
            self._lose(RequestTimeout(ctx.method, limit_s))
            return None
        except MCPError as error:
            if error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:
                return RawList()
            logger.warning("The server %r did not answer: %s", self.name, error)
            return None
        except (FerruleError, OSError) as error:
            self._lose(error)
            return None
        self.keeper.succeed()
        return found

    def _lose(self, error: Exception) -> None:
        self.keeper.lose(error, self._recover)

    # -- what is kept -------------------------------------------------------------------------------------------------

    def _save_soon(self) -> None:
        if self._cache is not None:
            self._version += 1
            if not self._is_saving:
                self._is_saving = True
                self._background.start(self._save_all(), "ferrule-gateway-cache")

    async def _save_all(self) -> None:
        try:
            while self._saved != self._version:
                await anyio.lowlevel.checkpoint()  # what changes in the same turn of the loop is written once
                await self._save()
        finally:
            self._is_saving = False

    async def _save(self) -> None:
        if self._cache is not None and self._saved != self._version:
            version = self._version
            await anyio.to_thread.run_sync(self._cache.store, self._cache_key, self.known.copy())
            self._saved = version

    # -- calls --------------------------------------------------------------------------------------------------------

    async def reach(self) -> None:
        """Return when it is connected; where it is not, try at once and wait for a bounded time.

        Raises:
            UpstreamUnavailable: it is not connected then.
        """
        if self.is_up:
            return
        if self.proxy is not None:
            with anyio.move_on_after(self.settings.reach_s):
                try:
                    await self.keeper.reach()
                except Exception as error:
                    logger.debug("The server %r cannot be reached: %s", self.name, error)
        if not self.is_up:
            self.errors += 1
            raise UpstreamUnavailable(self.sentence())

    async def call(self, ctx: ServerRequestContext[Any]) -> Any:
        """Forward a request, and return its raw result.

        A request that the connection did not survive is sent once more if its tool says that this is safe.

        Raises:
            MCPError: the server answered with an error.
            UpstreamUnavailable: it is not connected, the connection was lost, or its deadline has passed.
        """
        await self.reach()
        try:
            return await self._forward(ctx)
        except UpstreamUnavailable as lost:
            if self.is_up or not self._may_repeat(ctx):
                raise
            logger.info("%s of the server %r is sent once more: %s", ctx.method, self.name, lost.__cause__)
        await self.reach()
        return await self._forward(ctx)

    async def _forward(self, ctx: ServerRequestContext[Any]) -> Any:
        assert self.proxy is not None
        entry = self.proxy.server.get_request_handler(ctx.method)
        handler = self.proxy.forward if entry is None else entry.handler
        if entry is None and not self.has_other(ctx):
            raise InvalidParams(f"The server {self.name!r} does not serve {ctx.method}")
        self.active += 1
        self.requests += 1
        if ctx.method == "tools/call":
            self.lists.expire()
        try:
            if self.has_limits:
                async with self._call_limits().call(ctx.method):
                    result = await handler(ctx)
            else:
                result = await handler(ctx)
        except (MCPError, BackendClientGone):
            raise
        except RequestTimeout as error:
            self.errors += 1
            raise UpstreamUnavailable(f"`{self.name}` did not answer within {error.timeout_s:g} s") from error
        except (FerruleError, OSError) as error:
            self.errors += 1
            logger.warning("%s of the server %r failed: %s", ctx.method, self.name, error)
            if is_lost_connection(error):
                self._lose(error)
            text = f"`{self.name}` failed during this request: {reason_of(error)}"
            text += "; the request may have had an effect" if isinstance(error, ConnectionClosed) else ""
            raise UpstreamUnavailable(text) from error
        finally:
            self.active -= 1
        self.keeper.succeed()
        return result

    def has_other(self, ctx: ServerRequestContext[Any]) -> bool:
        """Return whether a request without a handler is forwarded: its method means the same on both sides."""
        return self.proxy is not None and self.proxy.exists_on_both_sides(ctx.method, ctx.session.connection)

    @property
    def has_limits(self) -> bool:
        """Whether its calls have a time-out of their own or a bounded number."""
        return self.settings.timeout_s is not None or self.settings.max_concurrent is not None

    def _call_limits(self) -> CallLimits:
        if self._limits is None:
            from ferrule.client.supervision.limits import CallLimits

            self._limits = CallLimits(max_concurrent=self.settings.max_concurrent, deadline_s=self.settings.timeout_s)
        return self._limits

    def _may_repeat(self, ctx: ServerRequestContext[Any]) -> bool:
        """Return whether a request has no further effect when it is sent a second time."""
        if ctx.method != "tools/call":
            return ctx.method in ("resources/read", "prompts/get", "completion/complete")
        listed = self.known.lists.get("tools/list")
        name = ctx.params.get("name")
        tool = next((tool for tool in listed.items if tool.get("name") == name), None) if listed is not None else None
        hints: Any = None if tool is None else tool.get("annotations")
        return is_mapping(hints) and (hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True)

    # -- notifications ------------------------------------------------------------------------------------------------

    def post(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Send something in a task of this server, after what was posted before; a client does not wait for it."""
        if len(self._waiting) >= MAX_NOTIFICATIONS:
            logger.warning("A notification to the server %r is dropped: too many wait", self.name)
            return
        self._waiting.append(work)
        if not self._is_sending:
            self._is_sending = True
            self._background.start(self._send_posted(), "ferrule-gateway-notify")

    async def _send_posted(self) -> None:
        try:
            while self._waiting:
                work = self._waiting.pop(0)
                try:
                    with anyio.move_on_after(self.settings.list_s):
                        await work()
                except (FerruleError, OSError) as error:
                    logger.warning("A notification did not reach the server %r: %s", self.name, error)
        finally:
            self._is_sending = False


def _without_progress(ctx: ServerRequestContext[Any]) -> Mapping[str, Any]:
    return {key: value for key, value in ctx.meta.items() if key != "progressToken"}
