"""The request and the session that a server of the old SDK sees, over Ferrule's request.

What a session asks its client goes out as a request in the handshake era. In the modern era it is a round: the call
ends with the question, and the function runs again when the client has answered. Only tools, prompts and resources
can ask there; elsewhere, and where the client does not offer it, `McpError` says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from ferrule import Context
from ferrule.errors import FerruleError
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.server import ServerRequestContext
from ferrule.questions import Question
from ferrule.wire.codec import to_builtins
from ferrule_compat.exceptions import as_mcp_error
from ferrule_compat.models import plain
from ferrule_compat.wire_types import find

__all__ = ["RequestContext", "ServerSession", "current", "kernel_request", "request_ctx", "session_of"]

_SESSION = "ferrule_compat.session"
_RESULTS = {
    "sampling/createMessage": "CreateMessageResult",
    "elicitation/create": "ElicitResult",
    "roots/list": "ListRootsResult",
    "ping": "EmptyResult",
}

kernel_request: ContextVar[ServerRequestContext[Any]] = ContextVar("kernel_request")
"""Ferrule's request that is being served."""


class RequestContext:
    """One request, with what belongs to it; ``request`` is Starlette's over HTTP, else ``None``."""

    def __init__(
        self,
        request_id: Any = None,
        meta: Any = None,
        session: Any = None,
        lifespan_context: Any = None,
        experimental: Any = None,
        request: Any = None,
        close_sse_stream: Any = None,
        close_standalone_sse_stream: Any = None,
    ) -> None:
        self.request_id = request_id
        self.meta = meta
        self.session = session
        self.lifespan_context = lifespan_context
        self.experimental = experimental
        self.close_sse_stream = close_sse_stream
        self.close_standalone_sse_stream = close_standalone_sse_stream
        self._request = request

    def __class_getitem__(cls, _: Any) -> type[RequestContext]:
        return cls

    @property
    def request(self) -> Any:
        """Starlette's request over HTTP; ``None`` on stdio."""
        return self._request() if callable(self._request) else self._request


request_ctx: ContextVar[RequestContext] = ContextVar("request_ctx")
"""The request that is being served."""


def current(ctx: ServerRequestContext[Any]) -> RequestContext:
    """Return Ferrule's request as the old SDK's."""
    scope = getattr(ctx.transport, "scope", None)

    def starlette_request() -> Any:
        from starlette.requests import Request

        return Request(dict(scope or {}))

    return RequestContext(
        request_id=ctx.request_id,
        meta=find("Meta")(**ctx.meta) if ctx.meta else None,
        session=session_of(ctx),
        lifespan_context=ctx.lifespan_context,
        request=starlette_request if scope else None,
    )


def session_of(ctx: ServerRequestContext[Any]) -> ServerSession:
    """Return the session of a request: the same for a whole handshake connection, one for each modern request."""
    connection = ctx.session.connection
    if not ctx.revision.has_sessions:
        return ServerSession(ctx)
    found: ServerSession | None = connection.state.get(_SESSION)
    if found is None:
        found = connection.state[_SESSION] = ServerSession(ctx)
    return found


class ServerSession:
    """The client of a request, as servers of the old SDK use it."""

    def __init__(self, ctx: ServerRequestContext[Any]) -> None:
        self._connection = ctx.session.connection
        self._server = ctx.server
        self._own = ctx if not ctx.revision.has_sessions else None

    def _request(self) -> ServerRequestContext[Any] | None:
        """Return the request that is being served for this client; ``None`` outside of one."""
        found = kernel_request.get(None) or self._own
        return found if found is not None and found.session.connection is self._connection else None

    # -- about the client ---------------------------------------------------------------------------------------------

    @property
    def client_params(self) -> Any:
        """What the client said of itself when it connected; ``None`` if it said nothing."""
        params = self._connection.client_params
        return None if params is None else find("InitializeRequestParams")(**to_builtins(params))

    def check_client_capability(self, capability: Any) -> bool:
        """Return whether the client declared all of a ``ClientCapabilities``."""
        return _includes(self._connection.client_capabilities_raw or {}, capability.to_wire())

    # -- notifications ------------------------------------------------------------------------------------------------

    async def _notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        request = self._request()
        try:
            await (self._connection if request is None else request.session).notify(method, params)
        except FerruleError:  # the revision has no such notification, or the client has gone
            return

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a ``ServerNotification``."""
        inner = getattr(notification, "root", notification)
        await self._notify(inner.method, plain(inner.params, mode="json", by_alias=True, exclude_none=True))

    async def send_log_message(
        self, level: str, data: Any, logger: str | None = None, related_request_id: Any = None
    ) -> None:
        """Send a log message, if the client wants its level."""
        request = self._request()
        data = plain(data, mode="json")
        if request is not None:
            await request.session.log(level, data, logger)
        elif self._connection.revision.has_sessions:
            await self._notify("notifications/message", {"level": level, "data": data, "logger": logger or ""})

    async def send_progress_notification(
        self,
        progress_token: Any,
        progress: float,
        total: float | None = None,
        message: str | None = None,
        related_request_id: Any = None,
    ) -> None:
        """Send progress; of the request that is being served by its own way."""
        request = self._request()
        if request is not None and request.meta.get("progressToken") == progress_token:
            await request.session.progress(progress, total, message)
            return
        params = {"progressToken": progress_token, "progress": progress, "total": total, "message": message}
        await self._notify("notifications/progress", {key: value for key, value in params.items() if value is not None})

    async def _changed(self, kind: str) -> None:
        event = Event.list_changed(kind)
        is_forwarded = kind in self._server.list_changed
        self._server.bus.publish(event)
        if self._connection.revision.has_sessions and not is_forwarded:  # it was sent without being announced
            await self._notify(event.method)

    async def send_tool_list_changed(self) -> None:
        """Tell clients that the list of tools has changed."""
        await self._changed("tools")

    async def send_prompt_list_changed(self) -> None:
        """Tell clients that the list of prompts has changed."""
        await self._changed("prompts")

    async def send_resource_list_changed(self) -> None:
        """Tell clients that the list of resources has changed."""
        await self._changed("resources")

    async def send_resource_updated(self, uri: Any) -> None:
        """Tell this client, and those that listen to it, that a resource has changed."""
        self._server.bus.publish(Event.resource_updated(str(uri)))
        if self._connection.revision.has_sessions:
            await self._notify("notifications/resources/updated", {"uri": str(uri)})

    async def send_elicit_complete(self, elicitation_id: str, related_request_id: Any = None) -> None:
        """Tell the client that a page of `elicit_url` was completed."""
        await self._notify("notifications/elicitation/complete", {"elicitationId": elicitation_id})

    # -- requests -----------------------------------------------------------------------------------------------------

    async def _ask(self, method: str, params: dict[str, Any] | None) -> Any:
        request = self._request()
        try:
            if self._connection.revision.has_rounds:
                if request is None:
                    raise as_mcp_error(ValueError(f"{method}: a modern client can only be asked within a request"))
                return await Context(request).ask(Question(method, params, lambda raw: raw))
            if request is not None:
                return await request.session.send_request(method, params)
            return await self._connection.send_raw_request(method, params)
        except FerruleError as error:
            raise as_mcp_error(error) from error

    async def send_request(self, request: Any, result_type: Any = None, *_: Any, **__: Any) -> Any:
        """Send a ``ServerRequest`` and return its result as ``result_type``."""
        inner = getattr(request, "root", request)
        answer = await self._ask(inner.method, plain(inner.params, mode="json", by_alias=True, exclude_none=True))
        kind = find(_RESULTS[inner.method]) if result_type is None else result_type
        return kind.model_validate(answer)

    async def create_message(
        self,
        messages: list[Any],
        *,
        max_tokens: int,
        system_prompt: str | None = None,
        include_context: str | None = None,
        temperature: float | None = None,
        stop_sequences: list[str] | None = None,
        metadata: dict[str, Any] | None = None,
        model_preferences: Any = None,
        tools: list[Any] | None = None,
        tool_choice: Any = None,
        related_request_id: Any = None,
    ) -> Any:
        """Return a message of the client's model."""
        params = {
            "messages": messages,
            "maxTokens": max_tokens,
            "systemPrompt": system_prompt,
            "includeContext": include_context,
            "temperature": temperature,
            "stopSequences": stop_sequences,
            "metadata": metadata,
            "modelPreferences": model_preferences,
            "tools": tools,
            "toolChoice": tool_choice,
        }
        given = {key: _wire(value) for key, value in params.items() if value is not None}
        answer = await self._ask("sampling/createMessage", given)
        return find("CreateMessageResultWithTools" if tools else "CreateMessageResult").model_validate(answer)

    async def elicit_form(self, message: str, requestedSchema: dict[str, Any], related_request_id: Any = None) -> Any:
        """Return the user's answer to a form."""
        params = {"message": message, "requestedSchema": requestedSchema}
        return find("ElicitResult").model_validate(await self._ask("elicitation/create", params))

    elicit = elicit_form

    async def elicit_url(self, message: str, url: str, elicitation_id: str, related_request_id: Any = None) -> Any:
        """Return whether the user agreed to open a page."""
        params = {"mode": "url", "message": message, "url": url}
        if not self._connection.revision.has_rounds:  # later revisions have no id
            params["elicitationId"] = elicitation_id
        return find("ElicitResult").model_validate(await self._ask("elicitation/create", params))

    async def list_roots(self) -> Any:
        """Return the client's root folders."""
        return find("ListRootsResult").model_validate(await self._ask("roots/list", None))

    async def send_ping(self) -> Any:
        """Send a ping; modern clients have none, so that nothing is sent to them."""
        if self._connection.revision.has_sessions:
            await self._ask("ping", None)
        return find("EmptyResult")()


def _wire(value: Any) -> Any:
    return plain(value, mode="json", by_alias=True, exclude_none=True)


def _includes(declared: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping):
        return bool(declared == wanted)
    if not isinstance(declared, Mapping):
        return False
    return all(key in declared and _includes(declared[key], value) for key, value in wanted.items())
