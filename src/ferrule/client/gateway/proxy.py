"""`proxy(target)`: a server made of a client; either era on either side.

Requests, results, questions, notifications and ``_meta`` pass as they came, with whatever in them this library does not
know; only what one revision calls otherwise than the other is rewritten (`ferrule.wire.revisions`), and only what
belongs to one hop stays on it: ids, progress tokens, the modern envelope. Questions take four ways, by the eras of the
two sides:

* modern behind, modern before: the round of questions is the answer, states and all; nothing is kept here.
* modern behind, legacy before: the questions are pushed to the client, and the rounds go on here.
* legacy behind, legacy before: the request is passed on to the client.
* legacy behind, modern before: the call is *parked* (`ferrule.client.gateway.parked_calls`): its question becomes a
round, and the
  client's next request goes on with it.

Sessions are not mixed; whose is whose is in `ferrule.client.gateway.backend_sessions`. Modern servers are stateless:
one client serves everybody, and each request declares what its own client can do.

A server in this process that is protected stays so behind a proxy: the proxy is closed by the same protection, and each
request arrives as its own caller's (`ferrule.kernel.protection`).
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

from ferrule.client.calls.rounds import run_rounds
from ferrule.client.config import read_target
from ferrule.client.gateway.backend_sessions import Behind, Lane, LanePool
from ferrule.client.gateway.parked_calls import MAX_PARKED, Parked, fingerprint_of
from ferrule.client.gateway.upstream_changes import Hearing, meta_of, params_of, typed
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

_ASKING: Final = frozenset({"tools/call", "prompts/get", "resources/read"})
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
    """A server that passes everything on to another.

    It connects when it starts (its lifespan) and takes over identity, instructions and capabilities; serve it like any
    `Server`, or give it to a `Client`.

    Args:
        target: anything that a `Client` can be made of, except a group.
        name: its own name towards clients; the server's if ``None``.
        options: for the clients behind it, as for `Client`; handlers of questions come from the clients before it, and
            so does ``client_info`` if it is not given.
    """
    return Proxy(target, name, options).server


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the server behind said of itself when it was connected to first."""

    is_modern: bool
    revision: Revision
    raw: Mapping[str, Any]
    info: Mapping[str, Any] | None
    capabilities: Mapping[str, Any]


class Proxy:
    """What is under a server that `proxy` made; found again with `of`.

    Attributes:
        server: that server.
        main: the client that learned what the server behind is; in the modern era it serves everybody.
        sessions: the sessions behind of legacy clients, by the identity of their connection.
        hearing: what it hears of changes.
        background: where its tasks live.
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
        self.sessions: dict[int, Lane] = {}
        self._closing: set[Lane] = set()
        self._parked: dict[str, Parked] = {}
        self._facts: _Facts | None = None
        self.hearing = Hearing(self)
        self.server: Server[Any] = Server(
            name or "proxy",
            lifespan=self._lifespan,
            middleware=[self._pass_rest],
            protection=None if protected is None else protected.protection,
        )
        self.server.hearing_rule = None if protected is None else protected.hearing_rule
        self.server.attachments[Proxy] = self
        self.server.capability_sources.append(self._capabilities)
        self._pool = LanePool(lambda key, declared, info: self._make_lane(declared, info, key=key))
        self._main = self._make_lane({}, None)
        self.main: Behind = self._main.client

    @classmethod
    def of(cls, server: Server[Any]) -> Proxy:
        """The proxy that a server stands for.

        Raises:
            KeyError: it is another kind of server.
        """
        return cast("Proxy", server.attachments[Proxy])

    def use_bus(self, bus: SubscriptionBus) -> None:
        """Publish what changes on the bus of another server, which has this one under it."""
        self.server.bus = bus
        self._main.bus = bus

    async def check(self, timeout_s: float) -> None:
        """Find out whether the server behind answers, on the session that is there first.

        Raises:
            FerruleError: it does not.
        """
        lanes = [self._main, *self.sessions.values(), *self._pool.lanes]
        lane = next((lane for lane in lanes if lane.client.is_connected), self._main)
        await lane.connect()
        await lane.client.ping(timeout_s=timeout_s)

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
        self.background = Background()
        await self._main.connect()
        self._take_over(server)
        if self.facts.is_modern:
            await self.hearing.follow(server)

    async def _close(self) -> None:
        await self.background.aclose()
        lanes = [*self.sessions.values(), *self._pool.clear(), *self._closing]
        self.sessions.clear()
        self._closing.clear()
        self._parked.clear()
        self.hearing.clear()
        for lane in lanes:
            await lane.client.aclose()
        await self.main.aclose()

    @property
    def facts(self) -> _Facts:
        """What the server behind is.

        Raises:
            LocalError: it was never connected to.
        """
        if self._facts is None:
            raise LocalError("The proxy is not connected")
        return self._facts

    @property
    def _has_one_session(self) -> bool:
        """A stream pair cannot be opened twice: everybody shares it."""
        return isinstance(self.main.target, PairTarget)

    def _take_over(self, server: Server[Any]) -> None:
        behind = self.main
        raw = behind.discovered
        meta = raw.get("_meta")
        stamp: Any = cast("Mapping[str, Any]", meta).get(META_SERVER_INFO) if isinstance(meta, Mapping) else None
        info: Any = stamp if behind.is_modern else raw.get("serverInfo")
        capabilities = cast("Mapping[str, Any]", behind.server_capabilities)
        self._facts = _Facts(behind.is_modern, behind.session.revision, raw, info, capabilities)
        if behind.server_info is not None and self._name is None:
            server.server_info = behind.server_info
            server.info_stamp = {META_SERVER_INFO: info}
        server.instructions = behind.instructions
        for kind, methods in _METHODS.items():
            if capabilities.get(kind) is not None:
                for method in methods:
                    server.add_request_handler(method, self.pass_on, params_type=dict[str, Any], trusted=True)
        typed = behind.server_capabilities
        server.list_changed = {
            kind
            for kind in ("tools", "prompts", "resources")
            if (bundle := getattr(typed, kind)) is not None and bundle.list_changed
        }
        server.logging = typed.logging is not None
        server.resource_updates = typed.resources is not None and bool(typed.resources.subscribe)
        server.add_request_handler("logging/setLevel", self.set_level, params_type=dict[str, Any], trusted=True)
        server.add_request_handler(
            "resources/subscribe", self.hearing.subscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler(
            "resources/unsubscribe", self.hearing.unsubscribe, params_type=dict[str, Any], trusted=True
        )
        server.add_request_handler("subscriptions/listen", self.hearing.listen, trusted=True)

    def _capabilities(self, revision: Revision) -> Mapping[str, Any]:
        """The server's own words, as far as the other era has them."""
        if self._facts is None:
            return {}
        found = dict(self._facts.capabilities)
        if revision.is_modern is not self._facts.is_modern:
            found = {key: found[key] for key in _BOTH_ERAS if key in found}
        if not revision.has_completions_capability:
            found.pop("completions", None)
        return found

    def _make_lane(
        self, declared: Mapping[str, Any], info: Any, *, owner: Connection | None = None, key: str = ""
    ) -> Lane:
        """A client for behind, which declares what a client before declared and answers through it."""
        options: dict[str, Any] = {**self._options}
        if info is not None and options.get("client_info") is None:
            options["client_info"] = info
        if self._facts is not None and options.get("mode", "auto") == "auto" and not self._facts.is_modern:
            options["mode"] = "legacy"  # found out once
        options.update(cache=False, validate_output=False)
        client = Behind(self._target, **options)
        client.declared = declared
        return Lane(client, self.server.bus, owner=owner, key=key)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def pass_on(self, ctx: ServerRequestContext[Any]) -> Any:
        """Pass a request on, whose params are raw, and give the raw result."""
        method = ctx.method
        params = params_of(ctx)
        origin = self._origin
        if origin is not None:
            origin.set(ctx.transport)
        try:
            if self.facts.is_modern:
                raw = await self._to_modern(ctx, method, params)
            elif self.is_session(ctx.session.connection):
                lane = await self.own_lane(ctx.session.connection)
                raw = await lane.carry(ctx, method, params, meta=meta_of(ctx), on_progress=_progress_to(ctx))
                raw = lane.client.usable_page(method, raw)
            else:
                raw = await self._to_pool(ctx, method, params)
        except RemoteError as error:
            refusal = error.__cause__
            if origin is not None and isinstance(refusal, MCPError):  # of a server that knows who asks: as it is
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
        """The raw result as `finish_result` is to see it."""
        if isinstance(raw, Encoded):
            return raw
        if raw.get("resultType", "complete") not in ("complete", "input_required"):
            # An extension's kind. The server behind knew what this very client declared.
            return Encoded(encode(raw))
        meta = raw.get("_meta")
        if self._name is not None and isinstance(meta, Mapping) and META_SERVER_INFO in meta:
            kept = {key: value for key, value in cast("Mapping[str, Any]", meta).items() if key != META_SERVER_INFO}
            return {**raw, "_meta": kept}
        return raw

    async def _to_modern(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """To a stateless server: any client of ours will do, if what it says can be told apart."""
        connection = ctx.session.connection
        level = ctx.meta.get(LOG_LEVEL_KEY) if connection.is_modern else connection.log_level or "debug"
        if self.facts.capabilities.get("logging") is None and not connection.is_modern:
            level = None
        meta = meta_of(ctx)
        meta[CLIENT_CAPABILITIES_KEY] = _declared(connection)
        if connection.client_info_raw is not None and self._options.get("client_info") is None:
            meta[CLIENT_INFO_KEY] = to_builtins(connection.client_info_raw)
        if level is not None:
            meta[LOG_LEVEL_KEY] = level
        # Log messages on a pipe do not say whose they are.
        alone = level is not None and isinstance(self.main.target, StdioTarget)
        lane = await self._pool.take("", {}, None, alone=True) if alone else self._main
        try:
            raw = await self._call_modern(lane, ctx, method, params, meta)
            if connection.is_modern or raw.get("resultType") != "input_required":
                return raw

            async def send(sent: dict[str, Any]) -> dict[str, Any]:
                return await self._call_modern(lane, ctx, method, sent, meta)

            async def answer(key: str, question: str, asked: Mapping[str, Any] | None) -> Any:
                return await ctx.session.send_request(question, asked)

            return await run_rounds(method, params, raw, send, answer, max_rounds=16)
        finally:
            if alone:
                await self._pool.give_back(lane, alone=True)

    async def _call_modern(
        self, lane: Lane, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any], meta: Mapping[str, Any]
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"meta": meta, "on_progress": _progress_to(ctx)}
        if method == "tools/call":
            client, name, arguments = lane.client, params.get("name"), params.get("arguments")
            try:
                mirrored = client.mirrored(name, arguments)
                return cast("dict[str, Any]", await lane.carry(ctx, method, params, headers=mirrored, **options))
            except RemoteError as error:
                if error.code != JsonRpcErrorCode.HEADER_MISMATCH or not await client.learn_headers():
                    raise
                options["headers"] = client.mirrored(name, arguments)
        raw = await lane.carry(ctx, method, params, **options)
        return lane.client.usable_page(method, raw)

    async def _to_pool(self, ctx: ServerRequestContext[Any], method: str, params: dict[str, Any]) -> Any:
        """To a legacy server, for a client without a session: on one that it shares with its like."""
        declared = _declared(ctx.session.connection)
        has_level = LOG_LEVEL_KEY in ctx.meta
        if method not in _ASKING or self._has_one_session or not (declared or has_level):
            async with self.shared_lane(ctx, alone=False) as lane:
                raw = await lane.carry(ctx, method, params, meta=meta_of(ctx), on_progress=_progress_to(ctx))
                return lane.client.usable_page(method, raw)
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
            parked = Parked(fingerprint, party)
            parked.begin(ctx)
            self.background.start(self._run_parked(parked, method, params, ctx), "ferrule-proxy-call")
        return await self._await_parked(parked)

    async def _await_parked(self, parked: Parked) -> Any:
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
        return {"resultType": "input_required", "inputRequests": parked.questions(), "requestState": state}

    async def _run_parked(
        self, parked: Parked, method: str, params: dict[str, Any], ctx: ServerRequestContext[Any]
    ) -> None:
        """One call on a session of the pool, across as many requests from before as its questions take."""
        meta = meta_of(ctx)
        with parked.scope:
            try:
                async with self.shared_lane(ctx, alone=True, parked=parked) as lane:
                    parked.result = await lane.client.request(method, params, meta=meta, on_progress=parked.progress)
            except Exception as error:
                parked.error = error
        if parked.result is None and parked.error is None:
            parked.error = LocalError("Nobody went on with the call")
        for state in [state for state, other in self._parked.items() if other is parked]:
            del self._parked[state]  # nobody came back in time
        parked.turned.set()

    # -- sessions ---------------------------------------------------------------------------------------------------

    def is_session(self, connection: Connection) -> bool:
        """Whether somebody before has a session (a legacy client whose endpoint keeps none has not)."""
        return not connection.is_modern and connection.client_params is not None and not self._has_one_session

    async def own_lane(self, connection: Connection) -> Lane:
        """The one session behind of a legacy session before; it ends with that."""
        lane = self.sessions.get(id(connection))
        if lane is None:
            declared = _declared(connection)
            lane = self._make_lane(declared, connection.client_info, owner=connection)
            self.sessions[id(connection)] = lane
            made = lane

            def close() -> None:
                self.sessions.pop(id(connection), None)
                self._closing.add(made)
                self.background.start(self._close_lane(made), "ferrule-proxy-close")

            connection.on_closing(close)
        if self.sessions.get(id(connection)) is not lane:
            raise ConnectionClosed("The client has gone")
        await self._release_main()
        await lane.connect()
        return lane

    async def _close_lane(self, lane: Lane) -> None:
        await lane.client.aclose()
        self._closing.discard(lane)

    @asynccontextmanager
    async def shared_lane(
        self, ctx: ServerRequestContext[Any], *, alone: bool, parked: Parked | None = None
    ) -> AsyncGenerator[Lane]:
        """A session behind for a client that has none before."""
        if self._has_one_session:
            yield self._main
            return
        connection = ctx.session.connection
        declared = _declared(connection)
        party = ctx.transport.principal
        info = connection.client_info
        key = encode_str([str(getattr(party, "id", party)), to_builtins(declared), to_builtins(info)])
        await self._release_main()
        lane = await self._pool.take(key, declared, info, alone=alone)
        try:
            lane.parked = lane.parked if parked is None else parked
            if LOG_LEVEL_KEY in ctx.meta and lane.client.log_level is None:
                await self._ask_for_logs(lane)
            yield lane
        finally:
            if parked is not None:
                lane.parked = None
            await self._pool.give_back(lane, alone=alone)

    async def _ask_for_logs(self, lane: Lane) -> None:
        """A modern client names the level in each request; what is below it is held back here."""
        if self.facts.capabilities.get("logging") is None:
            return
        try:
            await lane.client.set_log_level("debug")
        except FerruleError as error:
            logger.warning("Log messages of %s cannot be had: %s", self.main.label, error)

    async def _release_main(self) -> None:
        """End the session that only learned what the server is: from now on there are real ones, and some servers
        (a browser, a locked file) bear one at a time."""
        if isinstance(self.main.target, PairTarget) or not self.main.is_connected:
            return
        if getattr(self.main.target, "server", None) is not None and not isinstance(self.main.target, StdioTarget):
            return  # in this process; its lifespan goes on
        await self.main.aclose()

    # -- small requests ---------------------------------------------------------------------------------------------

    async def set_level(self, ctx: ServerRequestContext[Any]) -> Any:
        """Choose a level (legacy): the server behind is told, if it remembers one."""
        connection = ctx.session.connection
        if self.facts.is_modern or not self.is_session(connection):
            return await builtin_set_level(typed(ctx))
        result = await self.pass_on(ctx)
        lane = await self.own_lane(connection)
        lane.client.log_level = ctx.params.get("level")
        return result

    # -- the rest -----------------------------------------------------------------------------------------------------

    async def _pass_rest(self, ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        """Middleware: methods that nobody registered, notifications, and what an introduction holds beyond ours."""
        if ctx.request_id is None:
            await call_next(ctx)
            await self.take_notification(ctx)
            return None
        if ctx.method in ("initialize", "server/discover"):
            return self._introduced(ctx, await call_next(ctx))
        connection = ctx.session.connection
        is_ours = ctx.server.get_request_handler(ctx.method) is not None
        is_other_era = self._facts is None or connection.is_modern is not self._facts.is_modern
        if is_ours or not connection.initialize_accepted or (is_other_era and is_core_method(ctx.method)):
            return await call_next(ctx)
        result = await self.pass_on(ctx)
        return finish_result(ctx.server, connection, ctx.method, result)

    def _introduced(self, ctx: ServerRequestContext[Any], result: Any) -> Any:
        made = cast("dict[str, Any]", to_builtins(result))
        facts = self.facts
        for key, value in facts.raw.items():
            if key not in _INTRODUCTION and (key not in made or ctx.revision.is_modern is facts.is_modern):
                made[key] = value
        if self._name is None and "serverInfo" in made and isinstance(facts.info, Mapping):
            made["serverInfo"] = {**{k: v for k, v in facts.info.items() if k not in _INFO}, **made["serverInfo"]}
        return made

    async def take_notification(self, ctx: ServerRequestContext[Any]) -> None:
        """A notification of a client: a legacy server behind hears it on the client's own session."""
        connection = ctx.session.connection
        if self._facts is None or self._facts.is_modern or not self.is_session(connection):
            return
        if ctx.method in _HANDLED:
            return
        if ctx.method == "notifications/initialized":
            self.background.start(self._prepare(connection), "ferrule-proxy-session")
            return
        try:
            lane = await self.own_lane(connection)
            await lane.client.session.channel.notify(ctx.method, ctx.params or None)
        except (FerruleError, OSError) as error:
            logger.warning("%s did not reach %s: %s", ctx.method, self.main.label, error)

    async def _prepare(self, connection: Connection) -> None:
        """Open the session of a client at once: a server may have something to say before it is asked."""
        try:
            await self.own_lane(connection)
        except (FerruleError, OSError) as error:
            logger.warning("No session with %s could be opened: %s", self.main.label, error)


_INFO: Final = frozenset(Implementation.__struct_encode_fields__)


def _declared(connection: Connection) -> dict[str, Any]:
    """What a client before declared, as it came."""
    raw = connection.client_capabilities_raw
    return cast("dict[str, Any]", to_builtins(raw)) if isinstance(raw, Mapping) else {}


def _names(data: Any, uri: Any) -> bool:
    """Whether the data of an error names the resource that was asked for: so each era says that it is missing."""
    return uri is not None and isinstance(data, Mapping) and cast("Mapping[str, Any]", data).get("uri") == uri


def _progress_to(ctx: ServerRequestContext[Any]) -> Callable[[float, float | None, str | None], Any] | None:
    """Where progress goes; ``None``: the client did not ask for any."""
    if ctx.meta.get("progressToken") is None:
        return None

    async def progress(value: float, total: float | None, message: str | None) -> None:
        await ctx.session.progress(value, total, message)

    return progress
