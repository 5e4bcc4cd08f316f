"""Sessions behind a proxy: whom each serves, and where goes what comes from it.

A legacy server knows its client by the session. A legacy client before has one session behind (`Lane.owner`), for
everything that it asks, from its handshake to its end. Modern clients have no sessions: whoever is the same party and
declares the same has one in common (`LanePool`), and a further one while a call that may ask something uses that.

What a server sends goes on as it came. It belongs to the call on whose stream it came, where the transport tells
that; else to the latest call on the session; else, in the legacy era, to the client itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from ferrule.client.calls.methods import ClientCalls
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, Event, SubscriptionBus
from ferrule.kernel.legacy.session import ServerSession
from ferrule.protocol.errors import (
    CapabilityNotDeclared,
    FerruleError,
    InvalidParams,
    MCPError,
    MethodNotFound,
    NoBackChannel,
    RemoteError,
)
from ferrule.wire.codec import convert
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
    from ferrule.client.gateway.parked_calls import Parked
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.dispatch import CallOptions, DispatchContext
    from ferrule.kernel.server import ServerRequestContext

__all__ = ["MAX_IDLE_SESSIONS", "MAX_SESSIONS", "Behind", "Lane", "LanePool"]

logger = logging.getLogger("ferrule.client.gateway.proxy")

MAX_SESSIONS: Final = 64
"""Sessions behind that modern clients before hold at once; a request that needs another one waits."""
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
_OWN: Final = frozenset(
    {"notifications/cancelled", "notifications/progress", "notifications/subscriptions/acknowledged"}
)
"""What belongs to the exchange behind and means nothing before: the layers below have acted on it."""

_serving: ContextVar[Any] = ContextVar("ferrule_proxy_serving", default=None)
"""What this task passes on: lane, request, and what it passed on before (one proxy may stand behind another)."""


class Behind(ClientCalls):
    """A client that declares what somebody else declared, and hands on what the server says and asks, as it came.

    Attributes:
        declared: the capabilities to declare.
        lane: takes what the server says.
    """

    declared: Mapping[str, Any]
    lane: Lane

    def _set_up(self) -> None:
        super()._set_up()
        self.declared = {}

    def _capabilities(self, is_modern: bool) -> dict[str, Any]:
        return dict(self.declared)

    async def _on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        return {} if method == "ping" else await self.lane.ask(dctx, method, params)

    async def _on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        await super()._on_notify(dctx, method, params)
        if method not in _OWN:
            await self.lane.tell(method, params or {})

    async def _continue(
        self,
        method: str,
        params: dict[str, Any],
        result: dict[str, Any],
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: Callable[[], Mapping[str, str]] | None,
    ) -> dict[str, Any]:
        return result  # questions, or an extension's kind: the client before knows what to do

    def mirrored(self, name: Any, arguments: Any) -> Callable[[], Mapping[str, str]] | None:
        """What gives the headers that repeat the arguments of a call; ``None`` where there are no such headers."""
        if not self._mirrors_headers or not isinstance(name, str):
            return None
        return lambda: self.tool_metadata.headers(name, arguments if is_mapping(arguments) else None)

    async def learn_headers(self) -> bool:
        """Read the tools for their headers; whether there are such headers."""
        if self._mirrors_headers:
            await self._all_tools()
        return self._mirrors_headers

    def usable_page(self, method: str, raw: dict[str, Any]) -> dict[str, Any]:
        """The raw page of a list without what no client could use; any other result as it is."""
        if method not in _PAGES:
            return raw
        try:
            page = convert(raw, _PAGES[method])
        except ConvertError:
            raw = self._without_malformed(method, raw)
            try:
                page = convert(raw, _PAGES[method])
            except ConvertError:
                return raw  # malformed beyond its members: for the client before to judge
        if method != "tools/list" or not self._mirrors_headers:
            return raw
        kept = {tool.name for tool in self._seen(page).tools}
        return raw if len(kept) == len(page.tools) else {**raw, "tools": [t for t in raw["tools"] if t["name"] in kept]}

    async def _prepare_session(self, session: Session) -> None:
        await super()._prepare_session(session)
        if not session.is_modern:
            for uri in list(self.lane.watched):
                await session.channel.send_raw_request("resources/subscribe", {"uri": uri}, {"timeout_s": 30})


class Lane:
    """One session behind, and who uses it.

    Args:
        client: leads to the server.
        bus: see below.
        owner: the legacy connection before that it belongs to; ``None``: it is shared.
        key: of the party that shares it.

    Attributes:
        active: the requests that it carries now.
        parked: the call that has it for itself; see `ferrule.client.gateway.parked_calls`.
        is_taken: whether some call has it for itself.
        watched: URI → how many listen to it.
        bus: where changes are published for modern clients.
    """

    def __init__(self, client: Behind, bus: SubscriptionBus, *, owner: Connection | None = None, key: str = "") -> None:
        self.client = client
        self.owner = owner
        self.key = key
        self.active: list[ServerRequestContext[Any]] = []
        self.parked: Parked | None = None
        self.is_taken = False
        self.users = 0
        self.watched: dict[str, int] = {}
        self.bus = bus
        client.lane = self

    # -- requests ---------------------------------------------------------------------------------------------------

    async def connect(self) -> None:
        """Open the session, if it is not open."""
        token = _serving.set(None)  # what is started here outlives the request that it is started for
        try:
            await self.client.connect()
        finally:
            _serving.reset(token)

    async def carry(
        self, ctx: ServerRequestContext[Any], method: str, params: Mapping[str, Any], **options: Any
    ) -> Any:
        """Pass one request on; what the server says meanwhile goes to whoever sent it."""
        token = _serving.set((self, ctx, _serving.get()))
        self.active.append(ctx)
        try:
            return await self.client.request(method, params, **options)
        finally:
            for at, other in enumerate(self.active):
                if other is ctx:
                    del self.active[at]
                    break
            _serving.reset(token)

    def _asking(self) -> ServerRequestContext[Any] | None:
        """The request on whose stream something came; ``None`` where the transport does not tell."""
        found: Any = _serving.get()
        while found is not None:
            lane, ctx, found = found
            if lane is self:
                return ctx if any(other is ctx for other in self.active) else None
        return None

    def _session(self) -> ServerSession | None:
        """The way to the client before that something from behind belongs to."""
        if self.parked is not None:
            return None if self.parked.ctx is None else self.parked.ctx.session
        ctx = self._asking() or (self.active[-1] if self.active else None)
        if ctx is not None:
            return ctx.session
        return self._standing()

    def _standing(self) -> ServerSession | None:
        """The way to the owner, outside its requests."""
        owner = self.owner
        return None if owner is None else ServerSession(owner, cast("Any", owner.outbound), {})

    # -- what the server asks -----------------------------------------------------------------------------------------

    async def ask(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Ask the client before, and give what it answers.

        Raises:
            MCPError: it answered with an error, cannot be asked that, or there is nobody to ask.
        """
        sent, options = _with_own_progress(dctx, params)
        if self.parked is not None:
            return await self.parked.ask(method, sent)
        session = self._session()
        if session is None:
            raise InvalidParams("The client has no call under way that this question could belong to")
        try:
            return await session.send_request(method, sent, options)
        except RemoteError as error:
            raise MCPError(error.message, code=error.code, data=error.data) from error
        except (CapabilityNotDeclared, NoBackChannel) as error:
            logger.debug("%s cannot be passed on: %s", method, error)
            raise MethodNotFound(method) from error

    # -- what the server says -----------------------------------------------------------------------------------------

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Pass a notification on, as it came. What cannot be said in the other era is dropped."""
        try:
            if method in _LISTS or method == _UPDATED:
                await self._tell_change(method, params)
                return
            session = self._session()
            if session is None or (method == "notifications/message" and not self._wants_log(session, params)):
                return
            await session.notify(method, params)
        except (FerruleError, OSError, ValueError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
            logger.debug("%s of %s was not passed on: %s", method, self.client.label, error)

    def _wants_log(self, session: ServerSession, params: Mapping[str, Any]) -> bool:
        # A client that has the session for itself has told the server its level.
        return self.owner is not None or session.passes_log(str(params.get("level")))

    async def _tell_change(self, method: str, params: Mapping[str, Any]) -> None:
        meta = params.get("_meta")
        if isinstance(meta, Mapping) and META_SUBSCRIPTION_ID in meta:
            return  # heard by whoever listens (`ferrule.client.calls.subscriptions`)
        topic = params.get("uri") if method == _UPDATED else method
        if not isinstance(topic, str):
            return
        event = Event(method, topic, params)
        if self.owner is None:
            self.bus.publish(event)
            return
        # The session is one client's own: nobody else's list has changed.
        session = None if not self.active else self._session()
        if session is None and self.owner.listener is not None:
            self.owner.listener.offer(event)
            return
        session = session or self._standing()
        if session is not None:
            await session.notify(method, params or None)

    # -- single resources ---------------------------------------------------------------------------------------------

    async def watch(self, uri: str, params: Mapping[str, Any], meta: Mapping[str, Any]) -> Any:
        """Ask the server to tell of a resource, if nobody on this session has.

        Args:
            uri: of the resource.
            params, meta: of the request, the latter without what belongs to its hop.

        Raises:
            RemoteError: the server refuses.
        """
        self.watched[uri] = self.watched.get(uri, 0) + 1
        if self.watched[uri] > 1:
            return {}
        try:
            await self.connect()
            return await self.client.request("resources/subscribe", params, meta=meta)
        except BaseException:
            self._forget(uri)
            raise

    async def unwatch(
        self, uri: str, params: Mapping[str, Any] | None = None, meta: Mapping[str, Any] | None = None
    ) -> Any:
        """One listener less; the last one tells the server."""
        if uri not in self.watched or self._forget(uri) or not self.client.is_connected:
            return {}
        return await self.client.request("resources/unsubscribe", params or {"uri": uri}, meta=meta, timeout_s=10)

    def _forget(self, uri: str) -> int:
        left = self.watched.get(uri, 0) - 1
        if left > 0:
            self.watched[uri] = left
        else:
            self.watched.pop(uri, None)
        return max(left, 0)


class LanePool:
    """The sessions that modern clients share.

    Args:
        make: a new lane that declares these capabilities in the name of this client, under this key.

    Attributes:
        lanes: those that are open, the one that was used last at the end.
    """

    def __init__(self, make: Callable[[str, Mapping[str, Any], Any], Lane]) -> None:
        self._make = make
        self.lanes: list[Lane] = []
        self._freed = anyio.Event()

    def clear(self) -> list[Lane]:
        """Forget every lane, and give them to be closed."""
        lanes, self.lanes = self.lanes, []
        return lanes

    async def take(self, key: str, declared: Mapping[str, Any], info: Any, *, alone: bool) -> Lane:
        """A connected lane of a party; give it back with `give_back`.

        Args:
            alone: no other call that was taken ``alone`` uses it meanwhile.
        """
        lane = await self._find(key, declared, info, alone)
        lane.users += 1
        lane.is_taken = lane.is_taken or alone
        self.lanes.remove(lane)
        self.lanes.append(lane)
        try:
            await lane.connect()
        except BaseException:
            await self.give_back(lane, alone=alone)
            raise
        return lane

    async def _find(self, key: str, declared: Mapping[str, Any], info: Any, alone: bool) -> Lane:
        while True:
            fitting = [lane for lane in self.lanes if lane.key == key and not (alone and lane.is_taken)]
            if fitting:
                # What knows most of this party: the one that it listens to, else the one that it used last.
                return max(reversed(fitting), key=lambda lane: len(lane.watched))
            if len(self.lanes) < MAX_SESSIONS or await self._drop_idle():
                lane = self._make(key, declared, info)
                self.lanes.append(lane)
                return lane
            self._freed = anyio.Event()
            await self._freed.wait()

    async def _drop_idle(self) -> bool:
        for lane in self.lanes:
            if not lane.users and not lane.watched:
                self.lanes.remove(lane)
                await lane.client.aclose()
                return True
        return False

    async def give_back(self, lane: Lane, *, alone: bool) -> None:
        """The request has ended."""
        lane.users -= 1
        if alone:
            lane.is_taken = False
        self._freed.set()
        with anyio.CancelScope(shield=True):
            while sum(not lane.users and not lane.watched for lane in self.lanes) > MAX_IDLE_SESSIONS:
                await self._drop_idle()


def _with_own_progress(
    dctx: DispatchContext, params: Mapping[str, Any] | None
) -> tuple[dict[str, Any] | None, CallOptions]:
    """Params of a question without the server's progress token, and the option that gives it a token of this side."""
    meta = None if params is None else params.get("_meta")
    if params is None or not isinstance(meta, Mapping) or "progressToken" not in meta:
        return None if params is None else dict(params), {}
    rest = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != "progressToken"}
    sent = {key: value for key, value in params.items() if key != "_meta"}
    if rest:
        sent["_meta"] = rest
    return sent, {"on_progress": dctx.progress}
