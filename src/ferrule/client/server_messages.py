"""What a server asks and sends its client, and what the client makes of results that are not final.

`ServerHooks` is the one value in which clients differ: `ProgramHooks` gives everything to the program's handlers;
the gateway has hooks that forward it to clients of its own.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from ferrule.client.calls.callbacks import QuestionHandlers, ServerQuestion
from ferrule.client.calls.requests import UnfinishedCall, UnfinishedHandler, meta_of
from ferrule.client.calls.rounds import is_input_required, run_rounds
from ferrule.client.errors import BadServerResponse, InputNotProvided
from ferrule.kernel.dispatch import DispatchContext
from ferrule.protocol.errors import MCPError, MethodNotFound
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.revisions import Revision, read_params
from ferrule.wire.types import LoggingMessageNotificationParams

if TYPE_CHECKING:
    from ferrule.client.calls.cache import ResultCache
    from ferrule.client.calls.notifications import NotificationQueue
    from ferrule.client.calls.subscriptions import SubscriptionSet
    from ferrule.client.connection.connector import Session
    from ferrule.client.settings import ClientSettings, Handlers

__all__ = ["LISTS_CHANGED_BY", "ProgramHooks", "ResultHandler", "ServerHooks", "ServerMessages"]

logger = logging.getLogger("ferrule.client")

LISTS_CHANGED_BY: Final = {
    "notifications/tools/list_changed": ("tools/list",),
    "notifications/prompts/list_changed": ("prompts/list",),
    "notifications/resources/list_changed": ("resources/list", "resources/templates/list", "resources/read"),
    "notifications/resources/updated": ("resources/read",),
}
"""Notification → the requests whose kept results it makes old."""

ResultHandler: TypeAlias = Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]
"""Makes a final result of one of a type that an extension defines: ``(method, params, result) -> result``."""


class ServerHooks(UnfinishedHandler, Protocol):
    """What a client does with what its server asks and sends; of one client."""

    def bind(self, label: Callable[[], str], session_now: Callable[[], Session | None]) -> None:
        """Take what returns the name of the server and the session in use; the client calls this once, first."""
        return

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return what to declare to a server of this revision, in the form of the newest one."""
        ...

    async def answer_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the result of a legacy server's request.

        Raises:
            MCPError: what the server gets instead.
        """
        ...

    async def take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Take a notification, in the form of the session's revision; cache and subscriptions have seen it already."""
        ...

    async def prepare(self, session: Session) -> None:
        """Bring a new session to the state of the last one; log level and subscriptions are set already."""
        ...


class ProgramHooks(ServerHooks):
    """Hooks for which the program's own handlers answer.

    Args:
        settings: the settings of the client; its handlers, its extensions and its bound of rounds.

    Attributes:
        result_types: ``resultType`` → what makes a final result of it.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self.result_types: dict[str, ResultHandler] = {}
        handlers = settings.handlers
        self._questions = QuestionHandlers(
            elicitation=handlers.elicitation,
            elicitation_modes=handlers.elicitation_modes,
            sampling=handlers.sampling,
            sampling_tools=handlers.sampling_tools,
            roots=handlers.roots,
        )
        self._extensions = {name: dict(options) for name, options in settings.extensions.items()}
        self._max_rounds = settings.max_rounds
        self._label: Callable[[], str] = str
        self._session_now: Callable[[], Session | None] = lambda: None

    def bind(self, label: Callable[[], str], session_now: Callable[[], Session | None]) -> None:
        """See `ServerHooks`."""
        self._label, self._session_now = label, session_now

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """See `ServerHooks`."""
        found = self._questions.capabilities(revision)
        if self._extensions:
            found["extensions"] = self._extensions
        return found

    async def answer_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """See `ServerHooks`."""
        return await self._questions.answer(method, params, self._question(None, params))

    async def take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """See `ServerHooks`: nothing more is to be done."""

    async def prepare(self, session: Session) -> None:
        """See `ServerHooks`: nothing more is to be done."""

    async def finish(self, call: UnfinishedCall, result: dict[str, Any]) -> dict[str, Any]:
        """Answer rounds of questions, and let extensions finish results of their types.

        Raises:
            BadServerResponse: the type is unknown.
        """
        result = await self.run_rounds(call, result)
        kind = result.get("resultType", "complete")
        if kind == "complete":
            return result
        handle = self.result_types.get(kind) if isinstance(kind, str) else None
        if handle is None:
            raise BadServerResponse(f"The server answered {call.method} with a result of the unknown type {kind!r}")
        return await handle(call.method, call.params, result)

    async def run_rounds(self, call: UnfinishedCall, result: dict[str, Any]) -> dict[str, Any]:
        """Answer questions until the result is none; a result that is none is returned as it is."""
        if not is_input_required(result):
            return result
        return await run_rounds(
            call.method, call.params, result, call.send, self.answer_question, max_rounds=self._max_rounds
        )

    async def answer_question(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """Answer a modern server's question. A failure cannot be reported to it, so the call ends with the error.

        Raises:
            InputNotProvided: there is no handler for it, or the handler failed.
        """
        try:
            return await self._questions.answer(method, params, self._question(key, params))
        except MethodNotFound as error:
            raise InputNotProvided(key, method, "this client has no handler for it and did not declare it") from error
        except MCPError as error:
            raise InputNotProvided(key, method, str(error.__cause__ or error.message)) from error
        except FerruleError:
            raise
        except Exception as error:
            raise InputNotProvided(key, method, f"the handler failed: {error!r}") from error

    def _question(self, key: str | None, params: Mapping[str, Any] | None) -> ServerQuestion:
        session = self._session_now()
        return ServerQuestion(self._label(), "" if session is None else session.version, key, meta_of(params))


class ServerMessages:
    """Requests and notifications of the server, as they come from the channel.

    Args:
        hooks: the hooks of the client.
        handlers: the handlers of the program, for log messages and for every notification.
        cache: loses what a notification says is old.
        subscriptions: see every notification.
        queue: calls handlers in order, outside the loop that reads.
        label: returns what to call the server.
        session_now: returns the session in use.
    """

    def __init__(
        self,
        hooks: ServerHooks,
        handlers: Handlers,
        *,
        cache: ResultCache,
        subscriptions: SubscriptionSet,
        queue: NotificationQueue,
        label: Callable[[], str],
        session_now: Callable[[], Session | None],
    ) -> None:
        self._hooks = hooks
        self._handlers = handlers
        self._cache = cache
        self._subscriptions = subscriptions
        self._queue = queue
        self._label = label
        self._session_now = session_now

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Answer a legacy server's request."""
        return {} if method == "ping" else await self._hooks.answer_request(dctx, method, params)

    async def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """Take a notification. This runs in the loop that reads: what may wait, or call this client, goes to a task."""
        session, sent = self._session_now(), params
        if session is not None and session.revision.renamed_fields:
            params = cast("Mapping[str, Any] | None", read_params(session.revision, method, params))
        changed = LISTS_CHANGED_BY.get(method)
        if changed is not None:
            await self._cache.invalidate(*changed)
        self._subscriptions.take(method, params)
        if method == "notifications/message" and self._handlers.log is not None:
            try:
                self._queue.put(self._handlers.log, convert(dict(params or {}), LoggingMessageNotificationParams))
            except ConvertError as error:
                logger.warning("Skipped a malformed log message of %s: %s", self._label(), error)
        if self._handlers.message is not None:
            self._queue.put(self._handlers.message, method, params or {})
        await self._hooks.take_notification(method, sent or {})
