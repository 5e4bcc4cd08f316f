"""`proxy(target)`: a server made of a client; either era on either side.

Lists, calls, reads, prompts and completions pass through page by page and result by result; progress, cancellation
and changes follow. Questions take four ways, by the eras of the two sides:

* modern behind, modern before: the round of questions is the answer, states and all; nothing is kept here.
* modern behind, legacy before: the questions are pushed to the client, and the rounds go on here.
* legacy behind, legacy before: the request is passed on to the client whose call is under way.
* legacy behind, modern before: the call is *parked*: its question becomes a round, and the client's next request goes
  on with it. Parked calls live in this process and for a bounded time.

A legacy server knows its client by the session, so sessions are not mixed: a legacy client before has one of its own
behind, which ends with it; modern clients, which have none, take turns on a pool of sessions, one call at a time.
Modern servers are stateless: one client serves everybody, and each request declares what its own client can do.

A server in this process that is protected stays so behind a proxy: the proxy is closed by the same protection, and each
request arrives as its own caller's (`ferrule.kernel.protection`).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Unpack, cast

import anyio

from ferrule.client.callbacks import ServerQuestion
from ferrule.client.calls import ClientCalls
from ferrule.client.config import InProcessTarget, read_target
from ferrule.client.errors import InputRequired
from ferrule.client.rounds import run_rounds
from ferrule.client.subscriptions import Subscription
from ferrule.kernel.builtin import listen as builtin_listen
from ferrule.kernel.builtin import subscribe as builtin_subscribe
from ferrule.kernel.builtin import unsubscribe as builtin_unsubscribe
from ferrule.kernel.bus import Event
from ferrule.kernel.context import ServerRequestContext
from ferrule.kernel.server import Server
from ferrule.protocol.errors import InvalidParams, LocalError, MCPError, RemoteError
from ferrule.protocol.inbound import CLIENT_CAPABILITIES_KEY, LOG_LEVEL_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import convert, encode_str, to_builtins
from ferrule.wire.revisions import LATEST_MODERN_VERSION, REVISIONS
from ferrule.wire.types import META_SERVER_INFO, InputRequiredResult, ListRootsResult, LoggingMessageNotificationParams

if TYPE_CHECKING:
    from ferrule.client.options import ClientOptions

__all__ = ["proxy", "watching"]

logger = logging.getLogger("ferrule.client.proxy")

PARKED_S: Final = 300.0
"""Seconds that a call waits for the answer to a question that became a round."""
MAX_PARKED: Final = 1024
READY_S: Final = 5.0
MAX_IDLE_SESSIONS: Final = 8

_ASKING: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
_METHODS: Final[Mapping[str, tuple[str, ...]]] = {
    "tools": ("tools/list", "tools/call"),
    "prompts": ("prompts/list", "prompts/get"),
    "resources": ("resources/list", "resources/templates/list", "resources/read"),
    "completions": ("completion/complete",),
}


def proxy(target: Any, *, name: str | None = None, **options: Unpack[ClientOptions]) -> Server[Any]:
    """A server that passes everything on to another.

    It connects when it starts (its lifespan) and takes over identity, instructions and capabilities; serve it like any
    `Server`, or give it to a `Client`.

    Args:
        target: anything that a `Client` can be made of, except a group.
        name: its own name towards clients; the server's if ``None``.
        options: for the clients behind it, as for `Client`; handlers of questions come from the clients before it.
    """
    made = _Proxy(target, name, options)
    made.server.attachments[_Proxy] = made
    return made.server


@asynccontextmanager
async def watching(server: Server[Any], uris: Iterable[str]) -> AsyncGenerator[None]:
    """While the block runs, hear of updates of resources behind a proxy; they are published on its bus.

    For a server that passes on to several proxies. Serving the proxy itself does this by itself.

    Args:
        server: made by `proxy`, and connected.
        uris: of its resources.
    """
    made: _Proxy = server.attachments[_Proxy]
    async with made.watching(list(uris)):
        yield


class _Proxy:
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
        self._background = Background()
        self._sessions: dict[int, _Lane] = {}
        self._idle: dict[str, list[_Lane]] = {}
        self._parked: dict[str, _Parked] = {}
        self._watched: dict[str, tuple[int, Any]] = {}
        self.server: Server[Any] = Server(
            name or "proxy",
            lifespan=self._lifespan,
            logging=True,
            protection=None if protected is None else protected.protection,
        )
        self.server.hearing_rule = None if protected is None else protected.hearing_rule
        self.main = self._make_client({})

    # -- life -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, server: Server[Any]) -> AsyncGenerator[None]:
        """Connected from the first who serves this server to the last (several clients in one process, say)."""
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
        self._background = Background()
        await self.main.connect()
        self._take_over(server)
        await self._follow_changes(server)

    async def _close(self) -> None:
        await self._background.aclose()
        lanes = [*self._sessions.values(), *(lane for idle in self._idle.values() for lane in idle)]
        self._sessions.clear()
        self._idle.clear()
        self._parked.clear()
        self._watched.clear()
        for lane in lanes:
            await lane.client.aclose()
        await self.main.aclose()

    def _take_over(self, server: Server[Any]) -> None:
        behind = self.main
        if behind.server_info is not None and self._name is None:
            server.server_info = behind.server_info
            server.info_stamp = {META_SERVER_INFO: to_builtins(behind.server_info)}
        server.instructions = behind.instructions
        capabilities = behind.server_capabilities
        for kind, methods in _METHODS.items():
            if getattr(capabilities, kind) is not None:
                for method in methods:
                    server.add_request_handler(method, self._handler(method))
        server.list_changed = {
            kind
            for kind in ("tools", "prompts", "resources")
            if (bundle := getattr(capabilities, kind)) is not None and bundle.list_changed
        }
        server.resource_updates = capabilities.resources is not None and bool(capabilities.resources.subscribe)
        if server.resource_updates:
            server.add_request_handler("resources/subscribe", self._subscribe, trusted=True)
            server.add_request_handler("resources/unsubscribe", self._unsubscribe, trusted=True)
            server.add_request_handler("subscriptions/listen", self._listen, trusted=True)

    def _make_client(self, capabilities: Mapping[str, Any], lane: _Lane | None = None) -> ClientCalls:
        """A client for behind, which declares what a client before declared and answers through it."""
        options = dict[str, Any](self._options)
        if lane is not None:
            elicitation = capabilities.get("elicitation")
            if isinstance(elicitation, Mapping):
                options["elicitation_handler"] = lane.asker("elicitation/create")
                options["elicitation_modes"] = tuple(cast("Mapping[str, Any]", elicitation)) or ("form",)
            if isinstance(sampling := capabilities.get("sampling"), Mapping):
                options["sampling_handler"] = lane.asker("sampling/createMessage")
                options["sampling_tools"] = "tools" in sampling
            if "roots" in capabilities:
                options["roots"] = lane.roots
            options["log_handler"] = lane.log
            options["log_level"] = "debug"
        return ClientCalls(self._target, max_rounds=0, cache=False, validate_output=False, **options)

    # -- requests ---------------------------------------------------------------------------------------------------

    def _handler(self, method: str) -> Callable[[ServerRequestContext[Any]], Any]:
        type_ = REVISIONS[LATEST_MODERN_VERSION].requests[method][1]

        async def handle(ctx: ServerRequestContext[Any]) -> Any:
            params = {key: value for key, value in to_builtins(ctx.params).items() if key != "_meta"}
            origin = self._origin
            if origin is not None:
                origin.set(ctx.transport)
            try:
                if method in _ASKING and not self.main.is_modern:
                    raw = await self._through_session(ctx, method, params)
                else:
                    raw = await self._through_main(ctx, method, params)
            except RemoteError as error:
                refusal = error.__cause__
                if origin is not None and isinstance(refusal, MCPError):  # of a server that knows who asks: as it is
                    raise refusal from None
                raise MCPError(error.message, code=error.code, data=error.data) from error
            finally:
                if origin is not None:
                    origin.set(None)
            if isinstance(raw, InputRequiredResult):
                return raw
            return convert(raw, type_)

        return handle

    async def _through_main(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """A stateless request, or one that asks nothing."""
        is_modern_before = ctx.session.connection.is_modern
        declared = ctx.session.connection.client_capabilities_raw
        meta: dict[str, Any] = {CLIENT_CAPABILITIES_KEY: declared} if self.main.is_modern else {}
        if (level := ctx.meta.get(LOG_LEVEL_KEY)) is not None and self.main.is_modern:
            meta[LOG_LEVEL_KEY] = level

        async def send(sent: Mapping[str, Any]) -> dict[str, Any]:
            try:
                return await self.main.request(method, sent, meta=meta, on_progress=_progress_to(ctx))
            except InputRequired as asked:
                return asked.result

        raw = await send(params)
        if raw.get("resultType") != "input_required":
            return raw
        if is_modern_before:
            return convert(raw, InputRequiredResult)

        async def answer(key: str, question: str, asked: Mapping[str, Any] | None) -> Any:
            return await ctx.session.send_request(question, asked)

        return await run_rounds(method, params, raw, send, answer, max_rounds=16)

    async def _through_session(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """A legacy server behind: on the session that belongs to whoever asks."""
        if not ctx.session.connection.is_modern:
            lane = await self._own_session(ctx)
            lane.active.append(ctx)
            try:
                return await lane.client.request(method, params, on_progress=_progress_to(ctx))
            finally:
                lane.active.remove(ctx)
        state, answers = params.pop("requestState", None), params.pop("inputResponses", None)
        if state is not None:
            parked = self._parked.pop(state, None)
            if parked is None or parked.fingerprint != _fingerprint(method, params):
                raise InvalidParams("This request cannot be continued: its state is unknown or has expired")
            parked.resume(ctx, cast("Mapping[str, Any]", answers or {}))
        else:
            parked = _Parked(_fingerprint(method, params))
            parked.begin(ctx)
            self._background.start(self._run_parked(parked, method, params, ctx), "ferrule-proxy-call")
        return await self._await_parked(parked)

    async def _await_parked(self, parked: _Parked) -> Any:
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
            raise LocalError("Too many calls wait for answers")
        state = secrets.token_urlsafe(24)
        self._parked[state] = parked
        return convert(
            {"resultType": "input_required", "inputRequests": parked.questions(), "requestState": state},
            InputRequiredResult,
        )

    async def _run_parked(
        self, parked: _Parked, method: str, params: dict[str, Any], ctx: ServerRequestContext[Any]
    ) -> None:
        """One call on a session of the pool, across as many requests from before as its questions take."""
        declared = ctx.session.connection.client_capabilities_raw
        key = encode_str(declared)
        with parked.scope:
            try:
                lane = await self._take_session(key, declared)
                lane.parked = parked
                try:
                    parked.result = await lane.client.request(method, params, on_progress=parked.progress)
                finally:
                    lane.parked = None
                    await self._give_back(key, lane)
            except Exception as error:
                parked.error = error
        if parked.result is None and parked.error is None:
            parked.error = LocalError("Nobody went on with the call")
        parked.turned.set()

    # -- sessions ---------------------------------------------------------------------------------------------------

    async def _own_session(self, ctx: ServerRequestContext[Any]) -> _Lane:
        connection = ctx.session.connection
        lane = self._sessions.get(id(connection))
        if lane is None:
            lane = self._sessions[id(connection)] = await self._open_session(connection.client_capabilities_raw)

            def close() -> None:
                self._sessions.pop(id(connection), None)
                self._background.start(lane.client.aclose(), "ferrule-proxy-close")

            connection.on_closing(close)
        await lane.client.connect()
        return lane

    async def _open_session(self, declared: Mapping[str, Any]) -> _Lane:
        lane = _Lane()
        lane.client = self._make_client(declared, lane)
        return lane

    async def _take_session(self, key: str, declared: Mapping[str, Any]) -> _Lane:
        idle = self._idle.get(key)
        lane = idle.pop() if idle else await self._open_session(declared)
        await lane.client.connect()
        return lane

    async def _give_back(self, key: str, lane: _Lane) -> None:
        idle = self._idle.setdefault(key, [])
        if len(idle) < MAX_IDLE_SESSIONS and lane.client.is_connected:
            idle.append(lane)
        else:
            await lane.client.aclose()

    # -- changes ----------------------------------------------------------------------------------------------------

    async def _follow_changes(self, server: Server[Any]) -> None:
        """Pass changes of lists on, from now on."""
        kinds = server.list_changed
        if not kinds:
            return
        changes = self.main.listen(tools="tools" in kinds, prompts="prompts" in kinds, resources="resources" in kinds)
        self._background.start(self._forward_changes(server, changes), "ferrule-proxy-changes")
        with anyio.move_on_after(READY_S):
            try:
                await changes.ready()
            except MCPError as error:
                logger.warning("Changes of %s will not be heard: %s", self.main.label, error)

    async def _forward_changes(self, server: Server[Any], changes: Subscription) -> None:
        async for event in changes:
            kinds = server.list_changed
            for kind in set(kinds) if event.kind == "gap" else kinds & {event.kind}:
                server.bus.publish(Event.list_changed(kind))

    async def _subscribe(self, ctx: ServerRequestContext[Any]) -> Any:
        result = await builtin_subscribe(ctx)
        uri: str = ctx.params.uri
        await self._watch(uri)

        def unwatch() -> None:
            self._background.start(self._unwatch(uri), "ferrule-proxy-unwatch")

        ctx.session.connection.on_closing(unwatch)
        return result

    async def _unsubscribe(self, ctx: ServerRequestContext[Any]) -> Any:
        result = await builtin_unsubscribe(ctx)
        await self._unwatch(ctx.params.uri)
        return result

    async def _listen(self, ctx: ServerRequestContext[Any]) -> Any:
        async with self.watching([str(uri) for uri in ctx.params.notifications.resource_subscriptions or ()]):
            return await builtin_listen(ctx)

    @asynccontextmanager
    async def watching(self, uris: list[str]) -> AsyncGenerator[None]:
        """See `watching`."""
        for uri in uris:
            await self._watch(uri)
        try:
            yield
        finally:
            for uri in uris:
                self._background.start(self._unwatch(uri))

    async def _watch(self, uri: str) -> None:
        count, subscription = self._watched.get(uri, (0, None))
        if subscription is None:
            subscription = self.main.listen(uris=[uri])
            self._background.start(self._forward_updates(subscription), "ferrule-proxy-updates")
        self._watched[uri] = (count + 1, subscription)
        if count == 0:
            await subscription.ready()

    async def _unwatch(self, uri: str) -> None:
        count, subscription = self._watched.get(uri, (0, None))
        if count > 1:
            self._watched[uri] = (count - 1, subscription)
        elif subscription is not None:
            del self._watched[uri]
            await subscription.aclose()

    async def _forward_updates(self, subscription: Any) -> None:
        async for event in subscription:
            if event.uri is not None:
                self.server.bus.publish(Event.resource_updated(event.uri))


class _Lane:
    """One session behind, and who is using it."""

    client: ClientCalls

    def __init__(self) -> None:
        self.active: list[ServerRequestContext[Any]] = []
        self.parked: _Parked | None = None

    def asker(self, method: str) -> Callable[[Any, ServerQuestion], Any]:
        """A handler of questions from behind that asks in front."""

        async def ask(params: Any, question: ServerQuestion) -> Any:
            return await self.ask(method, cast("dict[str, Any]", to_builtins(params)))

        return ask

    async def ask(self, method: str, params: dict[str, Any] | None) -> Any:
        if self.parked is not None:
            return await self.parked.ask(method, params)
        if not self.active:
            raise InvalidParams("The client has no call under way that this question could belong to")
        return await self.active[-1].session.send_request(method, params)

    async def roots(self) -> list[Any]:
        found = await self.ask("roots/list", None)
        return convert(found, ListRootsResult).roots

    async def log(self, message: LoggingMessageNotificationParams) -> None:
        ctx = self.parked.ctx if self.parked is not None else (self.active[-1] if self.active else None)
        if ctx is not None:
            await ctx.session.log(message.level, message.data, message.logger)


class _Parked:
    """A call to a legacy server whose questions a modern client answers in later requests."""

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.ctx: ServerRequestContext[Any] | None = None
        self.turned = anyio.Event()
        self.result: dict[str, Any] | None = None
        self.error: Exception | None = None
        self.scope = anyio.CancelScope()
        self._asked: dict[str, tuple[str, dict[str, Any] | None, _Answer]] = {}
        self._number = 0

    def begin(self, ctx: ServerRequestContext[Any]) -> None:
        """A request from before is being served."""
        self.ctx = ctx
        self.turned = anyio.Event()
        self.scope.deadline = float("inf")

    def resume(self, ctx: ServerRequestContext[Any], answers: Mapping[str, Any]) -> None:
        """The client came back with answers; unanswered questions are asked again."""
        self.begin(ctx)
        for key in [key for key in self._asked if key in answers]:
            self._asked.pop(key)[2].settle(answers[key])
        if self._asked:
            self._turn()

    async def ask(self, method: str, params: dict[str, Any] | None) -> Any:
        """A question from behind: wait until the client has come back with its answer."""
        self._number += 1
        answer = _Answer()
        self._asked[f"q{self._number}"] = (method, params, answer)
        self._turn()
        return await answer.wait()

    def questions(self) -> dict[str, Any]:
        """What is open, as input requests."""
        return {
            key: {"method": method} if params is None else {"method": method, "params": params}
            for key, (method, params, _) in self._asked.items()
        }

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Progress goes to the request that is being served, if it asked for it."""
        if self.ctx is not None:
            await self.ctx.session.progress(progress, total, message)

    def abandon(self) -> None:
        """Nobody waits any more."""
        self.scope.cancel()

    def _turn(self) -> None:
        self.ctx = None
        self.scope.deadline = anyio.current_time() + PARKED_S
        self.turned.set()


class _Answer:
    def __init__(self) -> None:
        self._event = anyio.Event()
        self._value: Any = None

    def settle(self, value: Any) -> None:
        """Hand it over."""
        self._value = value
        self._event.set()

    async def wait(self) -> Any:
        """Wait for it."""
        await self._event.wait()
        return self._value


def _progress_to(ctx: ServerRequestContext[Any]) -> Callable[[float, float | None, str | None], Any] | None:
    """Where progress goes; ``None``: the client did not ask for any."""
    if ctx.meta.get("progressToken") is None:
        return None

    async def progress(value: float, total: float | None, message: str | None) -> None:
        await ctx.session.progress(value, total, message)

    return progress


def _fingerprint(method: str, params: Mapping[str, Any]) -> str:
    return encode_str([method, dict(sorted(params.items()))])
