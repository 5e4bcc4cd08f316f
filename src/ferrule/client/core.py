"""The part of a client that sends: one request from its params to its raw result; and what the server asks and sends.

The parts that hold state are values of classes of their own: the session with all recovery of connections
(`SessionManager`), the HTTP client (`HttpOfClient`), handlers of notifications (`NotificationQueue`), answers to the
server's questions (`QuestionHandlers`), subscriptions and the cache.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, cast

from ferrule.client.calls.cache import MemoryCacheStore, ResultCache, context_of
from ferrule.client.calls.callbacks import QuestionHandlers, ServerQuestion
from ferrule.client.calls.notifications import NotificationQueue
from ferrule.client.calls.rounds import is_input_required, run_rounds
from ferrule.client.calls.subscriptions import SubscriptionSet
from ferrule.client.connection.authorization import bind_auth, explain_refusal
from ferrule.client.connection.connector import Connector, Session
from ferrule.client.connection.http import HttpOfClient
from ferrule.client.connection.sessions import SessionHooks, SessionManager
from ferrule.client.errors import BadServerResponse, InputNotProvided, has_facts, note_facts
from ferrule.client.settings import CacheSettings, Handlers, HttpSettings, Timeouts
from ferrule.client.targets import GroupTarget, HttpTarget, Target
from ferrule.kernel.dispatch import CallOptions, DispatchContext, OnProgress
from ferrule.protocol.errors import ConnectionClosed, LocalError, MCPError, MethodNotFound, RemoteError
from ferrule.protocol.inbound import LOG_LEVEL_KEY
from ferrule.transports.http.errors import SessionLost
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.jsonrpc import JsonRpcErrorCode
from ferrule.wire.revisions import Revision, project_params, read_params, read_result
from ferrule.wire.types import DiscoverResult, Implementation, LoggingMessageNotificationParams, ServerCapabilities

if TYPE_CHECKING:
    from ferrule.transports.background import BackgroundTask

__all__ = ["NOT_GIVEN", "ClientCore"]

logger = logging.getLogger("ferrule.client")

PREPARE_TIMEOUT_S: Final = 5.0
"""Seconds for each request that prepares a new session (log level, subscriptions) before the client goes on without
it."""

_LISTS: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list", "resources/read"),
    "notifications/resources/updated": ("resources/read",),
}
NOT_GIVEN: Any = object()
"""Stands for "not given" where ``None`` means something."""


class ClientCore:
    """See the module; `ferrule.client.Client` adds the calls.

    Attributes:
        known_as: the name of the server among others, in a configuration or a group; ``None`` if it has none.
    """

    def __init__(
        self,
        target: Target,
        *,
        mode: str,
        client_info: Implementation | None,
        extensions: Mapping[str, Mapping[str, Any]],
        timeouts: Timeouts,
        http: HttpSettings,
        handlers: Handlers,
        cache: CacheSettings,
        max_rounds: int,
        restart: bool,
        prior_discover: DiscoverResult | Mapping[str, Any] | None,
    ) -> None:
        self.target = target
        self.known_as: str | None = target.known_as
        self.mode = mode
        self.timeouts = timeouts
        self.handlers = handlers
        self.log_level = handlers.log_level or (None if handlers.log is None else "info")
        self.max_rounds = max_rounds
        self.result_types: dict[str, Callable[..., Awaitable[dict[str, Any]]]] = {}
        self._extensions = {name: dict(settings) for name, settings in extensions.items()}
        self._questions = QuestionHandlers(
            elicitation=handlers.elicitation,
            elicitation_modes=handlers.elicitation_modes,
            sampling=handlers.sampling,
            sampling_tools=handlers.sampling_tools,
            roots=handlers.roots,
        )
        self._http = HttpOfClient(http, target)
        self._notifications = NotificationQueue(self.start_task)
        self.subscriptions = SubscriptionSet(self)
        if isinstance(prior_discover, DiscoverResult):
            prior_discover = cast("Mapping[str, Any]", to_builtins(prior_discover))
        auth = bind_auth(http.auth, target, self._http.client, self._forget_results, self._spawn, self._http.user_agent)
        connector = Connector(
            target=cast("Any", target),
            mode=mode,
            client_info=client_info or _default_info(),
            capabilities=self._capabilities,
            on_request=self._on_request,
            on_notify=self._on_notify,
            connect_timeout_s=timeouts.connect_timeout_s,
            probe_timeout_s=timeouts.probe_timeout_s,
            http=self._http.client,
            headers=self._http.headers,
            auth=auth,
            max_message_bytes=http.max_message_bytes,
            listens=http.listen,
            prior_discover=prior_discover,
        )
        if not isinstance(target, GroupTarget):
            connector.check_mode()  # a wrong mode is the caller's mistake: say so now
        hooks = SessionHooks(
            label=lambda: self.label,
            prepare=self._prepare_session,
            before_renewal=self._forget_results,
            after_renewal=self.subscriptions.put_gap,
            explain_failure=self._explain_failure,
            close_subscriptions=self.subscriptions.aclose,
            close_http=self._http.aclose,
        )
        self._sessions = SessionManager(connector, hooks, restarts=restart)
        self.cache = _make_cache(cache, context_of(target, auth, self._http.headers, http.http, http.tls))
        self._set_up()

    def _set_up(self) -> None:
        """Make what a subclass needs. (An ``__init__`` of its own would hide the options from editors.)"""

    # -- facts ------------------------------------------------------------------------------------------------------

    @property
    def label(self) -> str:
        """What to call the server in messages: `known_as`, else its URL, its command, its name."""
        return self.known_as or self.target.label

    @property
    def timeout_s(self) -> float | None:
        """Seconds without an answer or progress before a call is given up; ``None``: no bound."""
        return self.timeouts.timeout_s

    @property
    def max_total_s(self) -> float | None:
        """Absolute bound of a call in seconds; ``None``: no bound."""
        return self.timeouts.max_total_s

    @property
    def is_connected(self) -> bool:
        """Whether a session is open."""
        return self._sessions.working() is not None

    @property
    def session(self) -> Session:
        """The session in use.

        Raises:
            ConnectionClosed: there is none.
        """
        return self._sessions.required()

    @property
    def protocol_version(self) -> str:
        """The revision in use."""
        return self.session.version

    @property
    def is_modern(self) -> bool:
        """Whether the connection is of the modern era."""
        return self.session.is_modern

    @property
    def server_info(self) -> Implementation | None:
        """Name and version that the server reports; ``None`` if it reports none."""
        return self.session.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares."""
        return self.session.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's guidance for the model."""
        return self.session.instructions

    @property
    def discovered(self) -> Mapping[str, Any]:
        """The `DiscoverResult` or `InitializeResult` as JSON; a former can be another client's ``prior_discover``."""
        return self.session.raw

    # -- open and close ---------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *exc: object) -> None:
        await self.aclose()

    async def connect(self) -> Self:
        """Connect and negotiate. Any task may close what this opened. Connecting twice is connecting once.

        Raises:
            LocalError, RemoteError: it did not work; nothing is left open.
        """
        await self._sessions.connect()
        return self

    async def aclose(self) -> None:
        """Close: calls under way fail with `ConnectionClosed`, tasks, processes and connections end, within a bound.

        Any task; idempotent, and complete even where the caller is being cancelled. `connect` opens it again.
        """
        await self._sessions.aclose()

    # -- what a session needs of its client ---------------------------------------------------------------------------

    async def _prepare_session(self, session: Session) -> None:
        """Set log level and subscriptions of a new session. A server that refuses them does not end the session."""
        if not session.revision.has_sessions:
            if self.log_level is not None:
                session.meta = {**session.meta, LOG_LEVEL_KEY: self.log_level}
            return
        if self.log_level is not None and session.capabilities.logging is not None:
            await self._prepare(session, "logging/setLevel", {"level": self.log_level})
        for uri in self.subscriptions.uris():
            await self._prepare(session, "resources/subscribe", {"uri": uri})

    async def _prepare(self, session: Session, method: str, params: Mapping[str, Any]) -> None:
        options: CallOptions = {"timeout_s": min(PREPARE_TIMEOUT_S, self.timeouts.connect_timeout_s)}
        try:
            await session.channel.send_raw_request(method, params, options)
        except (MCPError, LocalError) as error:
            if session.channel.is_closed:
                raise
            logger.warning("%s did not take %s: %s", self.label, method, error)

    async def _send_level(self, session: Session, level: str) -> None:
        await session.channel.send_raw_request("logging/setLevel", {"level": level}, {"timeout_s": 30})

    async def _explain_failure(self, error: BaseException) -> None:
        """Add to the error of a client without credentials that it can be given some."""
        target = self.target
        if self._sessions.connector.auth is not None or not isinstance(target, HttpTarget) or has_facts(error):
            return
        if not self._http.has_authorization:
            await explain_refusal(error, target.url, self._http.client)

    # -- one request ------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout_s: float | None = NOT_GIVEN,
        max_total_s: float | None = None,
        on_progress: OnProgress | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Callable[[], Mapping[str, str]] | None = None,
    ) -> dict[str, Any]:
        """Send any request and return its result as JSON: with envelope, time-outs, recovery and rounds of input.

        Args:
            timeout_s: seconds without an answer or progress; the client's if not given; ``None``: no bound.
            max_total_s: absolute bound in seconds, progress or not.
            on_progress: called with each progress: ``(progress, total, message)``; sync or async.
            meta: further keys of ``_meta``, beside those that ``params`` has and before them.
            headers: gives further HTTP headers (mirrored parameters), anew for each attempt.

        Raises:
            RemoteError: the server answered with an error.
            RequestTimeout, ConnectionClosed, HttpStatusError: no answer.
            BadServerResponse: an answer of an unknown kind.
        """
        session = self._sessions.current
        started = time.monotonic()
        try:
            if session is None or session.channel.is_closed or session.is_lost:
                session = await self._sessions.ensure()
            options = self._options(timeout_s, max_total_s, on_progress)
            result = await self._send(session, method, params, meta, options, headers)
            kind = result.get("resultType", "complete")
            if kind == "complete":
                return result
            return await self._continue(method, dict(params or {}), result, meta, options, headers)
        except Exception as error:
            await self._explain_failure(error)
            note_facts(error, self.label, method, time.monotonic() - started)
            raise

    def _options(self, timeout_s: Any, max_total_s: float | None, on_progress: OnProgress | None) -> CallOptions:
        options: CallOptions = {}
        if timeout_s is NOT_GIVEN:
            timeout_s = self.timeouts.timeout_s
        if timeout_s is not None:
            options["timeout_s"] = timeout_s
            if self.timeouts.reset_on_progress:
                options["reset_on_progress"] = True
        cap_s = max_total_s if max_total_s is not None else self.timeouts.max_total_s
        if cap_s is not None:
            options["max_total_s"] = cap_s
            options.setdefault("timeout_s", cap_s)
        on_progress = on_progress or self.handlers.progress
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
        """Send a request once, and once more after the recovery of a lost session or a refused revision."""
        try:
            return await self._send_once(session, method, params, meta, options, headers)
        except SessionLost as lost:
            self._sessions.note_lost(session, lost)
            session = await self._sessions.ensure()
            try:
                return await self._send_once(session, method, params, meta, options, headers)
            except SessionLost:
                raise ConnectionClosed("The server lost the new session immediately") from None
        except RemoteError as error:
            if error.code != JsonRpcErrorCode.UNSUPPORTED_PROTOCOL_VERSION or session.revision.has_sessions:
                raise
            switched = self._sessions.switch_revision(session, error)
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
        result = await session.channel.send_raw_request(method, sent, options)
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
        """Go on from a result that is not final: a round of questions, or a type that an extension defines."""
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

    # -- requests and notifications of the server ---------------------------------------------------------------------

    def _capabilities(self, revision: Revision) -> dict[str, Any]:
        found = self._questions.capabilities(revision)
        if self._extensions:
            found["extensions"] = self._extensions
        return found

    async def _on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """A legacy server's request."""
        if method == "ping":
            return {}
        session = self._sessions.current
        version = "" if session is None else session.version
        question = ServerQuestion(self.label, version, None, _meta_of(params))
        return await self._questions.answer(method, params, question)

    async def _answer(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """Answer a modern server's question. A failure cannot be reported to it, so the call ends with the error."""
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
        """Take a notification. This runs in the loop that reads: what may wait, or call this client, goes to a task."""
        session = self._sessions.current
        if session is not None and session.revision.renamed_fields:
            params = cast("Mapping[str, Any] | None", read_params(session.revision, method, params))
        changed = _LISTS.get(method)
        if changed is not None:
            await self.cache.invalidate(*changed)
        self.subscriptions.take(method, params)
        if method == "notifications/message" and self.handlers.log is not None:
            try:
                self._notifications.put(
                    self.handlers.log, convert(dict(params or {}), LoggingMessageNotificationParams)
                )
            except ConvertError as error:
                logger.warning("Skipped a malformed log message of %s: %s", self.label, error)
        if self.handlers.message is not None:
            self._notifications.put(self.handlers.message, method, params or {})

    # -- what subscriptions stand on (see `SubscriptionHost`) ---------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> BackgroundTask:
        """Run something until it ends or this client closes."""
        return self._sessions.background.start(work, name)

    def session_now(self) -> Session | None:
        """The session in use, if there is one that works."""
        return self._sessions.working()

    async def session_again(self) -> Session:
        """A session that works, newly opened if need be."""
        return self._sessions.working() or await self._sessions.ensure()

    async def send_listen(self, session: Session, wanted: Mapping[str, Any]) -> None:
        """Send ``subscriptions/listen``; returns when the server ends it."""
        await self._send_once(session, "subscriptions/listen", {"notifications": wanted}, None, {}, None)

    # -- credentials ------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Run work that no caller's cancellation may end, and return whether it was started."""
        background = self._sessions.background
        if background.is_closed:
            return False
        background.start(work, name)
        return True

    async def _forget_results(self) -> None:
        """Drop every cached result: the credentials may be another user's now, or the server another one."""
        await self.cache.invalidate(*(method for methods in _LISTS.values() for method in methods))


def _make_cache(settings: CacheSettings, context: tuple[str, str]) -> ResultCache:
    """Return the cache of a client whose results belong to ``context`` (see `context_of`)."""
    store = settings.cache
    if isinstance(store, bool):
        store = MemoryCacheStore(max_bytes=32 << 20 if store else 0, clock=settings.clock)
    server, partition = context
    return ResultCache(store, server=server, partition=partition if settings.partition is None else settings.partition)


def _default_info() -> Implementation:
    from ferrule._version import __version__

    return Implementation(name="ferrule", version=__version__)


def _meta_of(params: Mapping[str, Any] | None) -> Mapping[str, Any]:
    meta: Any = None if params is None else params.get("_meta")
    return cast("Mapping[str, Any]", meta) if isinstance(meta, Mapping) else {}
