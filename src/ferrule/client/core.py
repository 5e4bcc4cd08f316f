"""The part of a client that lives: opening, closing, recovery, and one request from params to raw result.

Nothing here is held open by a caller's task. A client's tasks belong to its `Background`; connecting and renewing are
single-flight under one lock, and whoever waits for it is cancelled alone.

Recovery, in one place:

* the link is closed (a server process died): the call that was under way failed; the next one opens a new link;
* the session is lost (404, legacy): one shared handshake and one more attempt;
* the revision is refused (-32022, modern): one more attempt with a revision that the server lists.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal, Self, cast

import anyio

from ferrule._options import explains_arguments
from ferrule.client.addresses import checked_headers
from ferrule.client.calls.cache import CacheStore, MemoryCacheStore, ResultCache, context_of
from ferrule.client.calls.callbacks import ElicitationHandler, QuestionHandlers, Roots, SamplingHandler, ServerQuestion
from ferrule.client.calls.rounds import DEFAULT_MAX_ROUNDS, is_input_required, run_rounds
from ferrule.client.calls.subscriptions import SubscriptionSet
from ferrule.client.config import read_target
from ferrule.client.connection.authorization import bind_auth, explain_refusal
from ferrule.client.connection.connector import Opener, Session
from ferrule.client.connection.negotiation import mutual_versions
from ferrule.client.errors import BadServerResponse, InputNotProvided, has_facts, note_facts
from ferrule.client.targets import GroupTarget, HttpTarget, InProcessTarget, Target
from ferrule.kernel.dispatch import CallOptions, DispatchContext, OnProgress
from ferrule.protocol.errors import ConnectionClosed, LocalError, MCPError, MethodNotFound, RemoteError
from ferrule.protocol.inbound import LOG_LEVEL_KEY, PROTOCOL_VERSION_KEY
from ferrule.transports.background import Background
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import MODERN_PROTOCOL_VERSIONS, project_params, read_params, read_result
from ferrule.wire.types import DiscoverResult, Implementation, LoggingMessageNotificationParams, ServerCapabilities

if TYPE_CHECKING:
    import ssl

    from ferrule.auth.client.oauth import OAuth
    from ferrule.transports.background import BackgroundTask
    from ferrule.transports.http.backend import HttpClient, TlsOptions
    from ferrule.transports.http.client import HttpAuth

__all__ = ["UNSAID", "ClientCore", "LogHandler", "MessageHandler"]

logger = logging.getLogger("ferrule.client")

LogHandler = Callable[[LoggingMessageNotificationParams], Any]
"""Takes each log message of the server; sync or async."""

MessageHandler = Callable[[str, Mapping[str, Any]], Any]
"""Takes each notification of the server as ``(method, params)``, progress excepted; sync or async."""

DEFAULT_TIMEOUT_S: Final = 300.0
"""Seconds without an answer or progress before a call is given up. Long, because tools may be; finite, because a
server may be dead."""

TELL_TIMEOUT_S: Final = 5.0
"""Seconds for what a new session is told (log level, subscriptions) before the client goes on without it."""

MAX_WAITING_NOTES: Final = 4096
"""Notifications that may wait for slow handlers; beyond it the oldest are dropped."""

_LISTS: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list", "resources/read"),
    "notifications/resources/updated": ("resources/read",),
}
UNSAID: Any = object()
"""Stands for "not given" where ``None`` means something."""


class ClientCore:
    """See the module; `ferrule.client.Client` adds the calls.

    Attributes:
        known_as: the name of the server among others, in a configuration or a group; ``None`` if it has none.
    """

    @explains_arguments("Client")
    def __init__(
        self,
        target: Any,
        *,
        mode: str = "auto",
        client_info: Implementation | None = None,
        elicitation_handler: ElicitationHandler | None = None,
        elicitation_modes: Iterable[Literal["form", "url"]] = ("form",),
        sampling_handler: SamplingHandler | None = None,
        sampling_tools: bool = False,
        roots: Roots | None = None,
        log_handler: LogHandler | None = None,
        log_level: str | None = None,
        progress_handler: OnProgress | None = None,
        message_handler: MessageHandler | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        timeout_s: float | None = UNSAID,
        max_total_s: float | None = None,
        reset_on_progress: bool = True,
        connect_timeout_s: float = 60.0,
        probe_timeout_s: float | None = None,
        max_rounds: int = DEFAULT_MAX_ROUNDS,
        raise_on_error: bool = False,
        validate_output: bool = True,
        cache: CacheStore | bool = True,
        cache_partition: str | None = None,
        clock: Callable[[], float] = time.time,
        restart: bool = True,
        prior_discover: DiscoverResult | Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: HttpAuth | OAuth | str | None = None,
        http: HttpClient | Any = None,
        tls: TlsOptions | ssl.SSLContext | None = None,
        proxy: str | None = "env",
        cookies: bool = True,
        listen: bool = True,
        max_message_bytes: int = 64 << 20,
    ) -> None:
        self.target: Target = read_target(target)
        self.known_as: str | None = self.target.known_as
        self.mode = mode
        self.timeout_s: float | None = DEFAULT_TIMEOUT_S if timeout_s is UNSAID else timeout_s
        self.max_total_s = max_total_s
        self.raise_on_error = raise_on_error
        self.validate_output = validate_output
        self.max_rounds = max_rounds
        self.log_level = log_level or (None if log_handler is None else "info")
        self.result_types: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {}
        # A call into this process is a call: nobody bounds those unless asked to.
        bounds = timeout_s is not UNSAID or not isinstance(self.target, InProcessTarget)
        self._default_timeout_s = self.timeout_s if bounds else None
        self._reset_on_progress = reset_on_progress
        self._restart = restart
        self._extensions = {name: dict(settings) for name, settings in (extensions or {}).items()}
        self._questions = QuestionHandlers(
            elicitation=elicitation_handler,
            elicitation_modes=elicitation_modes,
            sampling=sampling_handler,
            sampling_tools=sampling_tools,
            roots=roots,
        )
        self._log_handler = log_handler
        self._progress_handler = progress_handler
        self._message_handler = message_handler
        self._headers = checked_headers(headers or {})
        self._user_agent = _user_agent(self._headers, self.target)
        self._cookies = cookies
        self._http_given = http
        self._http: HttpClient | None = None
        self._tls = tls
        self._proxy = proxy
        self._background = Background()
        self._lock: anyio.Lock | None = None
        self._connecting: anyio.CancelScope | None = None
        self._guarded: Background | None = None
        self._session: Session | None = None
        self._is_open = False
        self._waiting_notes: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque(maxlen=MAX_WAITING_NOTES)
        self._is_handing_on = False
        self.subscriptions = SubscriptionSet(self)
        if isinstance(prior_discover, DiscoverResult):
            prior_discover = cast("Mapping[str, Any]", to_builtins(prior_discover))
        self._opener = Opener(
            target=cast("Any", self.target),
            mode=mode,
            client_info=client_info or _default_info(),
            capabilities=self._capabilities,
            on_request=self._on_request,
            on_notify=self._on_notify,
            connect_timeout_s=connect_timeout_s,
            probe_timeout_s=probe_timeout_s,
            http=self._http_client,
            headers=self._headers,
            auth=bind_auth(auth, self.target, self._http_client, self._forget_private, self._spawn, self._user_agent),
            max_message_bytes=max_message_bytes,
            listens=listen,
            prior_discover=prior_discover,
        )
        if not isinstance(self.target, GroupTarget):
            self._opener.check_mode()  # a wrong mode is the caller's mistake: say so now
        self.cache = self._make_cache(cache, cache_partition, clock)
        self._set_up()

    def _set_up(self) -> None:
        """What a subclass needs of its own. (An ``__init__`` there would hide the options from editors.)"""

    # -- facts ------------------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """What to call the server in messages: `known_as`, else its URL, its command, its name."""
        return self.known_as or self.target.label

    @property
    def is_connected(self) -> bool:
        """Whether a session is open."""
        return self.session_now() is not None

    @property
    def session(self) -> Session:
        """The session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        if self._session is None:
            raise ConnectionClosed(f"The client of {self.label} is not connected")
        return self._session

    @property
    def protocol_version(self) -> str:
        """The revision in use."""
        return self.session.version

    @property
    def is_modern(self) -> bool:
        """Whether the server speaks the modern era."""
        return self.session.is_modern

    @property
    def server_info(self) -> Implementation | None:
        """Who the server says it is; ``None`` if it does not."""
        return self.session.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """What the server says it can do."""
        return self.session.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's guidance for the model."""
        return self.session.instructions

    @property
    def discovered(self) -> Mapping[str, Any]:
        """The `DiscoverResult` or `InitializeResult` as JSON; a former can be another client's ``prior_discover``."""
        return self.session.raw

    # -- life -------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> Self:
        """Connect and negotiate. Any task may close what this opened. Connecting twice is connecting once.

        Raises:
            LocalError, RemoteError: it did not work; nothing is left open.
        """
        started = time.monotonic()
        async with self._locked():
            if self._session is None:
                try:
                    self._session = await self._new_session()
                except BaseException as error:
                    try:
                        if isinstance(error, Exception):
                            await self._explain(error)
                    finally:
                        with anyio.CancelScope(shield=True):
                            await self._let_go()
                    note_facts(error, self.label, "connect", time.monotonic() - started)
                    raise
                self._is_open = True
        return self

    async def aclose(self) -> None:
        """Close: calls under way fail with `ConnectionClosed`, tasks, processes and connections end, within a bound.

        Any task; idempotent, and complete even where the caller is being cancelled. `connect` opens it again.
        """
        self._is_open = False
        if self._connecting is not None:
            self._connecting.cancel()
        with anyio.CancelScope(shield=True):
            lock = self._locked()
            try:
                await lock.acquire()
            except BaseException:  # cancelled by asyncio itself, which no scope keeps out
                await self._close()
                raise
            try:
                await self._close()
            finally:
                lock.release()

    async def _close(self) -> None:
        """Each step is done even if one before it fails or is cancelled."""
        self._is_open = False
        session, self._session = self._session, None
        try:
            await self.subscriptions.aclose()
        finally:
            try:
                if session is not None:
                    await session.link.aclose()
            finally:
                await self._let_go()

    async def _let_go(self) -> None:
        life, self._opener.life = self._opener.life, None
        http, self._http = self._http, None
        try:
            if life is not None:
                await life.aclose()
        finally:
            try:
                await self._background.aclose()
            finally:
                if http is not None and self._http_given is None:
                    await http.aclose()

    def _locked(self) -> anyio.Lock:
        if self._lock is None:
            self._lock = anyio.Lock()
        return self._lock

    async def _ensure_session(self) -> Session:
        """The open session, or a new one where the last one died."""
        if not self._is_open:
            raise ConnectionClosed(f"The client of {self.label} is not connected: use 'async with' or await connect()")
        async with self._locked():
            session = self._session
            if not self._is_open:
                raise ConnectionClosed(f"The client of {self.label} is closed")
            if session is not None and not session.link.is_closed:
                return await self._renew(session) if session.is_lost else session
            if session is not None:
                if not self._restart:
                    raise ConnectionClosed(f"The connection to {self.label} has ended, and restart is off")
                logger.warning("The connection to %s has ended; connecting again", self.label)
                await session.link.aclose()
            self._session = await self._new_session()
            return self._session

    async def _new_session(self, lost: Session | None = None) -> Session:
        """Under the lock: a session on a new link, or on that of a lost one. Closing the client gives it up.

        Raises:
            Whatever it fails with; a link that was made for it is closed.
        """
        session: Session | None = None
        if self._background.is_closed:
            self._background = Background()
        with anyio.CancelScope() as self._connecting:
            try:
                if lost is None:
                    session = await self._opener.open(self._background)
                else:
                    session = await self._opener.reinitialize(lost)
                await self._after_opening(session)
                if lost is None:
                    self._guard(self._background)
                return session
            except BaseException:
                if session is not None and lost is None:
                    with anyio.CancelScope(shield=True):
                        await session.link.aclose()
                raise
            finally:
                self._connecting = None
        raise ConnectionClosed(f"The client of {self.label} was closed while it connected")

    def _guard(self, background: Background) -> None:
        """Close with the event loop, if that ends before the client: nothing that is open would work in another one.

        The next call opens again, in the loop that runs then.
        """
        if self._guarded is not background:
            self._guarded = background
            background.start(self._close_with_loop(background), "ferrule-client")

    async def _close_with_loop(self, background: Background) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            if not background.is_closed:
                logger.debug("The event loop of the client of %s ends before the client", self.label)
                session, self._session = self._session, None
                self._lock = None
                with anyio.CancelScope(shield=True):
                    await self.subscriptions.aclose()
                    if session is not None:
                        await session.link.aclose()
                    await self._let_go()

    async def _after_opening(self, session: Session) -> None:
        """What a new session must be told again. What the server makes of it does not decide about the session."""
        if session.is_modern:
            if self.log_level is not None:
                session.meta = {**session.meta, LOG_LEVEL_KEY: self.log_level}
            return
        if self.log_level is not None and session.capabilities.logging is not None:
            await self._tell(session, "logging/setLevel", {"level": self.log_level})
        for uri in self.subscriptions.uris():
            await self._tell(session, "resources/subscribe", {"uri": uri})

    async def _tell(self, session: Session, method: str, params: Mapping[str, Any]) -> None:
        options: CallOptions = {"timeout_s": min(TELL_TIMEOUT_S, self._opener.connect_timeout_s)}
        try:
            await session.link.send_raw_request(method, params, options)
        except (MCPError, LocalError) as error:
            if session.link.is_closed:
                raise
            logger.warning("%s did not take %s: %s", self.label, method, error)

    async def _tell_level(self, session: Session, level: str) -> None:
        await session.link.send_raw_request("logging/setLevel", {"level": level}, {"timeout_s": 30})

    async def _renew(self, lost: Session) -> Session:
        """Under the lock: a new handshake for a lost session. If that fails, the next call tries again."""
        logger.info("%s has forgotten the session; initializing again", self.label)
        await self.cache.invalidate(*(method for methods in _LISTS.values() for method in methods))
        self._session = renewed = await self._new_session(lost)
        self.subscriptions.tell_gap()
        return renewed

    def _switch_version(self, session: Session, error: RemoteError) -> Session | None:
        """A session in another modern revision that the server lists."""
        data: Any = error.data
        supported = cast("Mapping[str, Any]", data).get("supported") if isinstance(data, Mapping) else None
        versions = mutual_versions(supported, MODERN_PROTOCOL_VERSIONS)
        if not versions:
            return None
        from ferrule.wire.revisions import REVISIONS

        meta = {**session.meta, PROTOCOL_VERSION_KEY: versions[0]}
        switched = replace(session, revision=REVISIONS[versions[0]], meta=meta)
        if self._session is session:
            self._session = switched
        return switched

    # -- one request ------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = UNSAID,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Any request as JSON: envelope, time-outs, recovery and input rounds included.

        Args:
            timeout_s: seconds without an answer or progress; the client's if not given; ``None``: no bound.
            max_total_s: absolute bound in seconds, progress or not.
            on_progress: is told of progress.
            meta: further keys of ``_meta``, beside those that ``params`` has and before them.
            headers: gives further HTTP headers (mirrored parameters), anew for each attempt.

        Raises:
            RemoteError: the server answered with an error.
            RequestTimeout, ConnectionClosed, HttpStatusError: no answer.
            BadServerResponse: an answer of an unknown kind.
        """
        session = self._session
        started = time.monotonic()
        try:
            if session is None or session.link.is_closed or session.is_lost:
                session = await self._ensure_session()
            options = self._options(timeout_s, max_total_s, on_progress)
            result = await self._send(session, method, params, meta, options, headers)
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            return await self._continue(method, dict(params or {}), result, meta, options, headers)
        except Exception as error:
            await self._explain(error)
            note_facts(error, self.label, method, time.monotonic() - started)
            raise

    async def _explain(self, error: BaseException) -> None:
        """What the error of a client without credentials does not say by itself."""
        target = self.target
        if self._opener.auth is not None or not isinstance(target, HttpTarget) or has_facts(error):
            return
        if "authorization" not in {name.lower() for name in (*self._headers, *target.headers)}:
            await explain_refusal(error, target.url, self._http_client)

    def _options(self, timeout_s: Any, max_total_s: float | None, on_progress: OnProgress | None) -> CallOptions:
        options: CallOptions = {}
        if timeout_s is UNSAID:
            timeout_s = self._default_timeout_s
        if timeout_s is not None:
            options["timeout_s"] = timeout_s
            if self._reset_on_progress:
                options["reset_on_progress"] = True
        cap_s = max_total_s if max_total_s is not None else self.max_total_s
        if cap_s is not None:
            options["max_total_s"] = cap_s
            options.setdefault("timeout_s", cap_s)
        on_progress = on_progress or self._progress_handler
        if on_progress is not None:
            options["on_progress"] = on_progress
        return options

    async def _send(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: Callable[[], Mapping[str, str]] | None,
    ) -> dict[str, Any]:
        """One exchange, with the recovery that one exchange may need."""
        from ferrule.transports.http.client import SessionLost

        try:
            return await self._send_once(session, method, params, meta, options, headers)
        except SessionLost as lost:
            current = self._session
            is_same: bool = cast("Any", session.link).session_id == lost.session_id
            # Another id: the answer is old, and somebody has renewed the session, or is doing so.
            if current is not None and current.link is session.link and is_same:
                current.is_lost = True
            session = await self._ensure_session()
            try:
                return await self._send_once(session, method, params, meta, options, headers)
            except SessionLost:
                raise ConnectionClosed("The server forgot the new session at once") from None
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION or not session.is_modern:
                raise
            switched = self._switch_version(session, error)
            if switched is None:
                raise
            return await self._send_once(switched, method, params, meta, options, headers)

    async def _send_once(
        self,
        session: Session,
        method: str,
        params: Mapping[str, Any] | None,
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: Callable[[], Mapping[str, str]] | None,
    ) -> dict[str, Any]:
        revision = session.revision
        if revision.renamed_fields:
            params = cast("Mapping[str, Any] | None", project_params(revision, method, params))
        if params is not None and "_meta" in params:
            meta = {**_meta_of(params), **(meta or {})}
        if session.meta:
            sent = {**(params or {}), "_meta": {**session.meta, **meta} if meta else session.meta}
            if headers is not None and (extra := headers()):
                options = cast("CallOptions", {**options, "headers": extra})
        elif meta:
            sent = {**(params or {}), "_meta": dict(meta)}
        else:
            sent = cast("dict[str, Any]", params)
        result = await session.link.send_raw_request(method, sent, options)
        if type(result) is not dict:
            raise BadServerResponse(f"The result of {method} is no object")
        if revision.renamed_fields:
            return cast("dict[str, Any]", read_result(revision, method, result))
        return cast("dict[str, Any]", result)

    async def _continue(
        self,
        method: str,
        params: dict[str, Any],
        result: dict[str, Any],
        meta: Mapping[str, Any] | None,
        options: CallOptions,
        headers: Callable[[], Mapping[str, str]] | None,
    ) -> dict[str, Any]:
        """A result that is not the end: questions, or an extension's kind."""
        if is_input_required(result):

            async def send(sent: dict[str, Any]) -> dict[str, Any]:
                return await self._send(self.session, method, sent, meta, options, headers)

            result = await run_rounds(method, params, result, send, self._answer, max_rounds=self.max_rounds)
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return result
        handle = self.result_types.get(kind) if isinstance(kind, str) else None
        if handle is None:
            raise BadServerResponse(f"The server answered {method} with a result of the unknown type {kind!r}")
        return await handle(self, method, params, result)

    # -- what the server asks and says ------------------------------------------------------------------------------

    def _capabilities(self, is_modern: bool) -> dict[str, Any]:
        found = self._questions.capabilities(is_modern=is_modern)
        if self._extensions:
            found["extensions"] = self._extensions
        return found

    async def _on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """A legacy server's request."""
        if method == "ping":
            return {}
        session = self._session
        version = "" if session is None else session.version
        question = ServerQuestion(self.label, version, None, _meta_of(params))
        return await self._questions.answer(method, params, question)

    async def _answer(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """A modern server's question: there is no way to report a failure to it, so the call ends with it."""
        question = ServerQuestion(self.label, self.protocol_version, key, _meta_of(params))
        try:
            return await self._questions.answer(method, params, question)
        except MethodNotFound as error:
            raise InputNotProvided(key, method, "this client has no handler for it and did not declare it") from error
        except MCPError as error:
            raise InputNotProvided(key, method, str(error.__cause__ or error.message)) from error
        except FerruleError:
            raise
        except Exception as error:
            raise InputNotProvided(key, method, f"the handler failed: {error!r}") from error

    async def _on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """Runs in a reading loop: what may wait, or call this client, is handed to a task."""
        session = self._session
        if session is not None and session.revision.renamed_fields:
            params = cast("Mapping[str, Any] | None", read_params(session.revision, method, params))
        changed = _LISTS.get(method)
        if changed is not None:
            await self.cache.invalidate(*changed)
        self.subscriptions.take(method, params)
        if method == "notifications/message" and self._log_handler is not None:
            try:
                self._hand_on(self._log_handler, convert(dict(params or {}), LoggingMessageNotificationParams))
            except ConvertError as error:
                logger.warning("Skipped a malformed log message of %s: %s", self.label, error)
        if self._message_handler is not None:
            self._hand_on(self._message_handler, method, params or {})

    def _hand_on(self, handler: Callable[..., Any], *arguments: Any) -> None:
        """Call a handler after those before it: at once, unless an async one still runs.

        What a server says during a call reaches a sync handler before the call returns.
        """
        if self._is_handing_on:
            self._waiting_notes.append((handler, arguments))
            return
        waiting = _called(handler, *arguments)
        if waiting is not None:
            self._is_handing_on = True
            self._background.start(self._hand_on_all(waiting), "ferrule-notifications")

    async def _hand_on_all(self, waiting: Awaitable[Any] | None) -> None:
        try:
            while True:
                if waiting is not None:
                    await _finished(waiting)
                if not self._waiting_notes:
                    return
                handler, arguments = self._waiting_notes.popleft()
                waiting = _called(handler, *arguments)
        finally:
            self._is_handing_on = False

    # -- what subscriptions stand on (see `SubscriptionHost`) ---------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> BackgroundTask:
        """Run something until it ends or this client closes."""
        return self._background.start(work, name)

    def session_now(self) -> Session | None:
        """The session in use, if there is one that works."""
        session = self._session
        return None if session is None or session.link.is_closed or session.is_lost else session

    async def session_again(self) -> Session:
        """A session that works, newly opened if need be."""
        return self.session_now() or await self._ensure_session()

    async def send_listen(self, session: Session, wanted: Mapping[str, Any]) -> None:
        """Send ``subscriptions/listen``; returns when the server ends it."""
        await self._send_once(session, "subscriptions/listen", {"notifications": wanted}, None, {}, None)

    # -- HTTP -------------------------------------------------------------------------------------------------------

    def _http_client(self) -> HttpClient:
        if self._http is None:
            from ferrule.transports.http.adapters import adapt_http_client
            from ferrule.transports.http.backend import HttpOptions

            if self._http_given is not None:
                self._http = adapt_http_client(self._http_given)
            else:
                from ferrule.transports.http.aiohttp_backend import AiohttpClient

                self._http = AiohttpClient(
                    HttpOptions(tls=self._tls, proxy=self._proxy, cookies=self._cookies, user_agent=self._user_agent)
                )
        return self._http

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Run work that no caller's cancellation may end; whether it was started."""
        if self._background.is_closed:
            return False
        self._background.start(work, name)
        return True

    async def _forget_private(self) -> None:
        """The credentials may have become another user's: what was kept for the last one is not shown to them."""
        await self.cache.invalidate(*(method for methods in _LISTS.values() for method in methods))

    def _make_cache(self, cache: CacheStore | bool, partition: str | None, clock: Callable[[], float]) -> ResultCache:
        store: CacheStore = (
            MemoryCacheStore(max_bytes=0 if cache is False else 32 << 20, clock=clock)
            if isinstance(cache, bool)
            else cache
        )
        server, context = context_of(self.target, self._opener.auth, self._headers, self._http_given, self._tls)
        return ResultCache(store, server=server, partition=context if partition is None else partition)


def _default_info() -> Implementation:
    from ferrule._version import __version__

    return Implementation(name="ferrule", version=__version__)


def _user_agent(headers: Mapping[str, str], target: Target) -> str | None:
    """What the user wants to be called, which holds for sign-in and metadata too."""
    own = {**target.headers, **headers} if isinstance(target, HttpTarget) else headers
    return next((value for name, value in own.items() if name.lower() == "user-agent"), None)


def _meta_of(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    meta: Any = None if params is None else params.get("_meta")
    return cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}


def _called(handler: Callable[..., Any], *arguments: Any) -> Awaitable[Any] | None:
    """What is to be awaited, if anything. A handler's failure is no failure of the connection."""
    try:
        waiting = handler(*arguments)
    except Exception:
        logger.exception("A handler of notifications failed")
        return None
    return waiting if hasattr(waiting, "__await__") else None  # what Python itself asks of an awaitable


async def _finished(waiting: Awaitable[Any]) -> None:
    try:
        await waiting
    except Exception:
        logger.exception("A handler of notifications failed")
