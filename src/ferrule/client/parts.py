"""The parts of one client: they send requests, read results, and handle the server's requests and notifications.

`ferrule.Client` and the client of a gateway consist of these parts, with different options and `ServerHooks`.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from ferrule.client.calls.cache import MemoryCacheStore, ResultCache, context_of
from ferrule.client.calls.lists import ResultReader
from ferrule.client.calls.notifications import NotificationQueue
from ferrule.client.calls.request_sender import RequestSender
from ferrule.client.calls.subscriptions import SubscriptionSet
from ferrule.client.calls.tasks import task_meta
from ferrule.client.calls.tool_metadata import ToolMetadata
from ferrule.client.connection.authorization import bind_auth, explain_refusal
from ferrule.client.connection.connector import Connector, Session
from ferrule.client.connection.http import ClientHttp
from ferrule.client.connection.sessions import SessionHooks, SessionManager
from ferrule.client.errors import has_facts
from ferrule.client.server_messages import ServerHooks, ServerMessages
from ferrule.client.settings import CacheSettings, ClientSettings
from ferrule.client.targets import GroupTarget, HttpTarget, Target
from ferrule.kernel.dispatch import CallOptions
from ferrule.protocol.errors import LocalError, MCPError
from ferrule.protocol.inbound import LOG_LEVEL_KEY
from ferrule.wire.codec import to_builtins
from ferrule.wire.types import DiscoverResult, Implementation

if TYPE_CHECKING:
    from ferrule.transports.background import BackgroundTask

__all__ = ["ClientParts"]

logger = logging.getLogger("ferrule.client")

PREPARE_TIMEOUT_S: Final = 5.0
"""Seconds for each request that prepares a new session (log level, subscriptions) before the client goes on without
it."""


class ClientParts:
    """The parts of one client, made once and connected with each other.

    Args:
        target: the server to connect to.
        settings: the client's settings.
        hooks: handle the server's requests and notifications; used by this client only.

    Attributes:
        known_as: the name of the server among others, in a configuration or a group; ``None`` if it has none.
        log_level: the level of log messages to request in a new session; ``None``: no messages.
        sessions: opens the session, renews it and closes it.
        requests: sends one request.
        reader: converts results to their types, reads lists, and remembers the declarations of listed tools.
        messages: handles the server's requests and notifications.
        subscriptions, cache: the subscriptions and the cache of the client.
    """

    def __init__(self, target: Target, settings: ClientSettings, hooks: ServerHooks) -> None:
        handlers, http = settings.handlers, settings.http
        self.target = target
        self.known_as: str | None = target.known_as
        self.log_level = handlers.log_level or (None if handlers.log is None else "info")
        self._timeouts = settings.timeouts
        self._hooks = hooks
        hooks.bind(self.label, self._session)
        self._http = ClientHttp(http, target)
        auth = bind_auth(http.auth, target, self._http.client, self._forget_results, self._spawn, self._http.user_agent)
        self.cache = _make_cache(settings.cache, context_of(target, auth, self._http.headers, http.http, http.tls))
        self.subscriptions = SubscriptionSet(self)
        self.messages = ServerMessages(
            self._hooks,
            handlers,
            cache=self.cache,
            subscriptions=self.subscriptions,
            queue=NotificationQueue(self.start_task),
            label=self.label,
            session_now=self._session,
        )
        self.sessions = SessionManager(
            self._connector(settings, auth),
            SessionHooks(
                label=self.label,
                prepare=self._prepare_session,
                before_renewal=self._forget_results,
                after_renewal=self.subscriptions.put_gap,
                explain_failure=self._explain_failure,
                close_subscriptions=self.subscriptions.aclose,
                close_http=self._http.aclose,
            ),
            restarts=settings.restart,
        )
        self.requests = RequestSender(
            self.sessions,
            label=self.label,
            timeouts=settings.timeouts,
            progress=handlers.progress,
            unfinished=self._hooks,
            explain_failure=self._explain_failure,
        )
        self.reader = ResultReader(self.requests, self.cache, ToolMetadata(), target, self.label)

    def _connector(self, settings: ClientSettings, auth: Any) -> Connector:
        prior = settings.prior_discover
        if isinstance(prior, DiscoverResult):
            prior = cast("Mapping[str, Any]", to_builtins(prior))
        connector = Connector(
            target=cast("Any", self.target),
            mode=settings.mode,
            client_info=settings.client_info or _default_info(),
            capabilities=self._hooks.capabilities,
            on_request=self.messages.on_request,
            on_notify=self.messages.on_notify,
            connect_timeout_s=settings.timeouts.connect_timeout_s,
            probe_timeout_s=settings.timeouts.probe_timeout_s,
            http=self._http.client,
            headers=self._http.headers,
            auth=auth,
            max_message_bytes=settings.http.max_message_bytes,
            listens=settings.http.listen,
            prior_discover=prior,
            middleware=settings.middleware,
        )
        if not isinstance(self.target, GroupTarget):
            connector.check_mode()  # a wrong mode is the caller's mistake: say so now
        return connector

    def label(self) -> str:
        """Return the server's name for messages: `known_as`, else its URL, its command, or its name."""
        return self.known_as or self.target.label

    def _session(self) -> Session | None:
        return self.sessions.current

    # -- a new session ---------------------------------------------------------------------------

    async def _prepare_session(self, session: Session) -> None:
        """Set log level and subscriptions of a new session. A server that refuses them does not end the session."""
        if not session.revision.has_sessions:
            if self.log_level is not None:
                session.meta = {**session.meta, LOG_LEVEL_KEY: self.log_level}
        else:
            if self.log_level is not None and session.capabilities.logging is not None:
                await self._prepare(session, "logging/setLevel", {"level": self.log_level})
            for uri in self.subscriptions.uris():
                await self._prepare(session, "resources/subscribe", {"uri": uri})
        await self._hooks.prepare(session)

    async def _prepare(self, session: Session, method: str, params: Mapping[str, Any]) -> None:
        options: CallOptions = {"timeout_s": min(PREPARE_TIMEOUT_S, self._timeouts.connect_timeout_s)}
        try:
            await session.send_raw_request(method, params, options)
        except (MCPError, LocalError) as error:
            if session.channel.is_closed:
                raise
            logger.warning("%s did not take %s: %s", self.label(), method, error)

    async def set_log_level(self, level: str | None) -> None:
        """Set the level of the session and of later ones; see `ferrule.Client.set_log_level`."""
        self.log_level = level
        session = self.sessions.required()
        if session.revision.has_sessions:
            if level is not None:
                await session.send_raw_request("logging/setLevel", {"level": level}, {"timeout_s": 30})
            return
        meta = {key: value for key, value in session.meta.items() if key != LOG_LEVEL_KEY}
        session.meta = meta if level is None else {**meta, LOG_LEVEL_KEY: level}

    async def _explain_failure(self, error: BaseException) -> None:
        """Add to a 401 error of a client without credentials how to configure them."""
        target = self.target
        if self.sessions.connector.auth is not None or not isinstance(target, HttpTarget) or has_facts(error):
            return
        if not self._http.has_authorization:
            await explain_refusal(error, target.url, self._http.client)

    # -- used by subscriptions (see `SubscriptionHost`) ---------------------------------------------------------

    def start_task(self, work: Coroutine[Any, Any, None], name: str) -> BackgroundTask:
        """Run a coroutine in a task, which is cancelled when this client closes."""
        return self.sessions.background.start(work, name)

    def session_now(self) -> Session | None:
        """Return the session in use, if there is one that works."""
        return self.sessions.working()

    async def session_again(self) -> Session:
        """Return a session that works; open a new one if necessary."""
        return self.sessions.working() or await self.sessions.ensure()

    async def send_listen(self, session: Session, wanted: Mapping[str, Any]) -> None:
        """Send ``subscriptions/listen``, for tasks with the declaration that they need; return when the server ends
        it."""
        meta = task_meta(session) if "taskIds" in wanted else None
        await self.requests.send_once(session, "subscriptions/listen", {"notifications": wanted}, meta, {}, None)

    # -- credentials ------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> bool:
        """Run a coroutine in a task of the client, which no caller can cancel; return whether it was started."""
        background = self.sessions.background
        if background.is_closed:
            return False
        background.start(work, name)
        return True

    async def _forget_results(self) -> None:
        """Remove every cached result: the credentials may belong to another user, or the server may have changed."""
        await self.cache.invalidate(*(method for methods in self.messages.outdates.values() for method in methods))


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
