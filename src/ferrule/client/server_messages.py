"""The requests and notifications of a server to its client, and results that are not final.

`ServerHooks` is the only part in which clients differ: `ProgramHooks` calls the program's handlers; the hooks of the
gateway forward messages to the gateway's clients.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, cast

from ferrule.client.calls.callbacks import QuestionHandlers, ServerQuestion
from ferrule.client.calls.request_sender import UnfinishedCall, UnfinishedHandler, meta_of
from ferrule.client.calls.rounds import is_input_required, run_rounds
from ferrule.client.errors import BadServerResponse, InputNotProvided
from ferrule.client.settings import declared_settings
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
"""Notification → the methods whose cached results it makes outdated."""

ResultHandler: TypeAlias = Callable[[str, dict[str, Any], dict[str, Any]], Awaitable[dict[str, Any]]]
"""Returns a final result for one of a type that an extension defines: ``(method, params, result) -> result``."""


class ServerHooks(UnfinishedHandler, Protocol):
    """Handles the server's requests, notifications and unfinished results for one client."""

    def bind(self, label: Callable[[], str], session_now: Callable[[], Session | None]) -> None:
        """Store two functions: for the server's name and the session in use; the client calls this once, first."""
        return

    def capabilities(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities to declare to a server of this revision, in the form of the newest one."""
        ...

    async def answer_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the result of a legacy server's request.

        Raises:
            MCPError: the error that the server receives.
        """
        ...

    async def take_notification(self, method: str, params: Mapping[str, Any]) -> None:
        """Handle a notification, in the form of the session's revision, after cache and subscriptions did."""
        ...

    async def prepare(self, session: Session) -> None:
        """Bring a new session to the state of the last one; log level and subscriptions are set already."""
        ...


class ProgramHooks(ServerHooks):
    """Hooks that call the program's handlers.

    Args:
        settings: the settings of the client; its handlers, its extensions and its bound of rounds.

    Attributes:
        result_types: ``resultType`` → the function that returns a final result for it.
        requests: the handlers of the server's requests that extensions define, by method.
        max_rounds: maximum number of rounds of questions in one call or task; 0 for none.
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
        self.requests = self._questions.of_extensions
        self._extensions = declared_settings(settings.extensions)
        self.max_rounds = settings.max_rounds
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
        """Answer rounds of questions, and return the first result that is not ``input_required``."""
        if not is_input_required(result):
            return result
        return await run_rounds(
            call.method, call.params, result, call.send, self.answer_question, max_rounds=self.max_rounds
        )

    async def answer_question(self, key: str, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the answer to a modern server's question; a failure ends the call (there is no error for it).

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
        cache: removes the results that a notification makes outdated.
        subscriptions: receive every notification.
        queue: calls handlers in order, outside the loop that reads.
        label: returns the server's name for messages.
        session_now: returns the session in use.

    Attributes:
        outdates: notification → the methods whose cached results it makes outdated.
        of_extensions: notification of an extension → the function that takes its params.
        on_tools_changed: called when the server has announced a change of its tools; ``None``: no function is called.
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
        self.outdates: Mapping[str, Iterable[str]] = LISTS_CHANGED_BY
        self.of_extensions: dict[str, Callable[[Mapping[str, Any]], Any]] = {}
        self.on_tools_changed: Callable[[], None] | None = None

    def add_outdates(self, more: Mapping[str, Iterable[str]]) -> None:
        """Add to `outdates`; a notification that is in it already gets further methods."""
        added = {name: (*self.outdates.get(name, ()), *methods) for name, methods in more.items()}
        self.outdates = {**self.outdates, **added}

    async def on_request(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> Any:
        """Return the result of a legacy server's request; see `ServerHooks.answer_request`."""
        return {} if method == "ping" else await self._hooks.answer_request(dctx, method, params)

    async def on_notify(self, dctx: DispatchContext, method: str, params: Mapping[str, Any] | None) -> None:
        """Handle a notification. It runs in the loop that reads, so handlers that may wait run in a task."""
        session, sent = self._session_now(), params
        if session is not None and session.revision.has_own_forms:
            params = cast("Mapping[str, Any] | None", read_params(session.revision, method, params))
        changed = self.outdates.get(method)
        if changed is not None:
            await self._cache.invalidate(*changed)
            if self.on_tools_changed is not None and "tools/list" in changed:
                self.on_tools_changed()
        self._subscriptions.on_notification(method, params)
        if method == "notifications/message" and self._handlers.log is not None:
            try:
                self._queue.put(self._handlers.log, convert(dict(params or {}), LoggingMessageNotificationParams))
            except ConvertError as error:
                logger.warning("Skipped a malformed log message of %s: %s", self._label(), error)
        if self.of_extensions and (taken := self.of_extensions.get(method)) is not None:
            self._queue.put(taken, params or {})
        if self._handlers.message is not None:
            self._queue.put(self._handlers.message, method, params or {})
        await self._hooks.take_notification(method, sent or {})
