"""`Context`: the request of a tool, prompt or resource function, and the messages that it may send.

It is passed to each parameter of this type, whatever its name; `current_context` returns it without a parameter, also
in a worker thread. It has no state besides the request, so that making one is cheap; it must not be used after the
request has ended.

In a sync function the methods without a result (progress, log messages, notifications) are called directly, without
``await``, and those with a result through `Context.from_thread`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from ferrule.app.application import application_of
from ferrule.app.errors import NoRequest
from ferrule.app.execution.current import current_request, request_of
from ferrule.app.execution.threads import calling_loop, run_on_loop
from ferrule.app.in_threads import with_result, without_result
from ferrule.app.rounds.interaction import InteractionMixin
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.connection import unguarded
from ferrule.kernel.dispatch import ClosesStream
from ferrule.kernel.fast_path.fast_tools import FastCall
from ferrule.kernel.server import LifespanT, ServerRequestContext
from ferrule.protocol.deprecations import warn_deprecated
from ferrule.protocol.errors import NoBackChannel

if TYPE_CHECKING:
    from ferrule.app.application import Application
    from ferrule.kernel.dispatch import TransportContext
    from ferrule.kernel.session import ServerSession
    from ferrule.wire.jsonrpc import RequestId
    from ferrule.wire.types import ClientCapabilities, Implementation, ReadResourceResult, ToolResult

__all__ = ["Context", "current_context"]

T = TypeVar("T")


class Context(InteractionMixin, Generic[LifespanT]):
    """One request, for the function that serves it. ``Context[State]`` declares the type of `lifespan`."""

    __slots__ = ("_request",)

    __ferrule_injected__: ClassVar[str] = "context"

    if not TYPE_CHECKING:  # or type checkers would accept any name

        def __getattr__(self, name: str) -> Any:
            """Raise the error for an unknown name; it suggests Ferrule's name for a name of another library."""
            from ferrule._elsewhere import ON_CONTEXT, explanation

            raise AttributeError(explanation("Context", name, ON_CONTEXT), name=name, obj=self)

    def __init__(self, request: ServerRequestContext[Any] | FastCall) -> None:
        self._request = request

    @property
    def request(self) -> ServerRequestContext[Any]:  # type: ignore[override]
        """The kernel's context, with all facts of the request."""
        found = self._request
        if type(found) is FastCall:
            found = self._request = request_of(found)
        return found  # type: ignore[return-value]

    # -- the request -----------------------------------------------------------------------------------------------

    @property
    def app(self) -> Application:
        """The `MCPServer` that the function was registered with, also where that is mounted in another one."""
        mounted = self.request.component_server
        return cast("Application", application_of(self.request.server) if mounted is None else mounted)

    @property
    def session(self) -> ServerSession:
        """The kernel's session, which sends messages to the peer."""
        return self.request.session

    @property
    def lifespan(self) -> LifespanT:
        """The value that the server's lifespan yielded."""
        return cast("LifespanT", self.request.lifespan_context)

    @property
    def request_id(self) -> RequestId | None:
        """The JSON-RPC id; unique among the requests in flight, not beyond."""
        return self.request.request_id

    @property
    def method(self) -> str:
        """``tools/call``, ``resources/read`` or ``prompts/get``."""
        return self.request.method

    @property
    def meta(self) -> Mapping[str, Any]:
        """The request's ``_meta``, unchanged; empty if there is none."""
        return self.request.meta

    @property
    def protocol_version(self) -> str:
        """The revision of this request."""
        return self.request.protocol_version

    @property
    def transport(self) -> TransportContext:
        """Typed facts of the transport, such as `HttpContext`."""
        return self.request.transport

    @property
    def headers(self) -> Mapping[str, str]:
        """This request's HTTP headers, lower-case names; empty on other transports. Never another request's."""
        return self.request.transport.headers

    @property
    def principal(self) -> Any:
        """The authenticated sender of this request; ``None`` for an anonymous sender."""
        return self.request.transport.principal

    def require_scopes(self, *scopes: str) -> None:
        """Refuse the request if its token lacks a scope; for scopes that only the function can determine.

        Over HTTP the client gets 403 with a challenge for the scopes, if the response has not begun, and may request
        them. On other transports nothing is refused.

        Raises:
            InsufficientScope: a scope is missing. Do not catch it: it becomes the response.
        """
        from ferrule.app.authorization.guards import require_scopes

        require_scopes(self.request, scopes)

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version; ``None`` if it sent none. For display and logs, not for decisions."""
        return self.request.session.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """The client's declared capabilities; in the modern era those of this request."""
        return self.request.session.client_capabilities

    @property
    def session_id(self) -> str | None:
        """The id of the legacy HTTP session; ``None`` in the modern era and on other transports."""
        return self.request.session.session_id

    @property
    def cancelled(self) -> bool:
        """Whether the client has withdrawn the request, or its round has ended; for loops in sync functions."""
        return self.request.session.dispatch.cancel_requested or self.suspending

    @property
    def session_state(self) -> dict[str, Any]:
        """A dictionary that is kept between the calls of one legacy connection or session.

        The modern era has no sessions. Use a handle there (a random id that the client passes back as an argument), or
        keep data by `principal`; see `Handles` and `PerPrincipal`.

        Raises:
            NoSession: the request is a modern one.
        """
        connection = self.request.session.connection
        if not connection.revision.has_sessions:
            from ferrule.app.errors import NoSession

            raise NoSession(
                "This request belongs to no session (2026-07-28 has none); return a handle that the client passes "
                "back, or keep the state by ctx.principal"
            )
        return connection.state

    # -- messages to the client ------------------------------------------------------------------------------------

    @without_result
    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Send progress of the request, if the client requested it; otherwise do nothing ("Progress").

        Args:
            progress: must rise from call to call; other values are not sent.
            total: the final value of ``progress``, if known.
            message: for people (2025-03-26 on).
        """
        await self._check_open()
        await self.request.session.progress(progress, total, message)

    @without_result
    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, if the rules of its era allow it ("Logging").

        Legacy era: at or above the level that the client set. Modern era: at or above the level that this request
        names, and none without one. For the operator's log use ``logging``.

        Args:
            level: one of debug, info, notice, warning, error, critical, alert, emergency.
            data: any JSON value; no secrets.
            logger: a name for the source.

        Raises:
            ValueError: there is no such level.
        """
        warn_deprecated("logging")
        await self._log(level, data, logger)

    async def _log(self, level: str, data: Any, logger: str | None = None) -> None:
        await self._check_open()
        await self.request.session.log(level, data, logger)

    @without_result
    async def debug(self, data: Any) -> None:
        """Send a log message at level debug; see `log`."""
        warn_deprecated("logging")
        await self._log("debug", data)

    @without_result
    async def info(self, data: Any) -> None:
        """Send a log message at level info; see `log`."""
        warn_deprecated("logging")
        await self._log("info", data)

    @without_result
    async def warning(self, data: Any) -> None:
        """Send a log message at level warning; see `log`."""
        warn_deprecated("logging")
        await self._log("warning", data)

    @without_result
    async def error(self, data: Any) -> None:
        """Send a log message at level error; see `log`. It does not end the call: raise `ToolError` for that."""
        warn_deprecated("logging")
        await self._log("error", data)

    @without_result
    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request.

        Raises:
            LocalError: the revision has no such notification.
        """
        await self._check_open()
        await self.request.session.notify(method, params)

    @with_result
    async def close_stream(self, retry_ms: int | None = None) -> bool:
        """Close the stream of this request's response while the function continues (2025-11-25, SEP-1699).

        The client reconnects for the remaining events. For long work behind proxies that close idle connections.

        Args:
            retry_ms: milliseconds after which the client should reconnect; ``None`` for the endpoint's option.

        Returns:
            Whether the stream was closed; ``False`` if there is no stream that can be resumed.
        """
        await self._check_open()
        await yield_to_loop(self.request.session)
        carrier = unguarded(self.request.session.dispatch)
        if not isinstance(carrier, ClosesStream):
            return False
        try:
            await carrier.close_stream(retry_ms)
        except NoBackChannel:
            return False
        return True

    # -- notifications to all listening clients --------------------------------------------------------------------

    @without_result
    async def notify_tools_changed(self) -> None:
        """Notify every listening client that the list of tools has changed."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("tools"))

    @without_result
    async def notify_prompts_changed(self) -> None:
        """Notify every listening client that the list of prompts has changed."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("prompts"))

    @without_result
    async def notify_resources_changed(self) -> None:
        """Notify every listening client that the list of resources has changed."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("resources"))

    @without_result
    async def notify_resource_updated(self, uri: str) -> None:
        """Notify every client that subscribed to ``uri``, or to a URI above it, that its contents have changed.

        Args:
            uri: as in the server with which the function was registered.
        """
        await yield_to_loop(self.request.session)
        mounted = self.request.component_server
        bus = self.request.server.bus if mounted is None else mounted.lowlevel.bus
        bus.publish(Event.resource_updated(uri))

    # -- using the server ------------------------------------------------------------------------------------------

    @with_result
    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Return the contents of one of this server's resources, as the client would get them.

        Raises:
            ResourceNotFound: no resource or template has this URI, or it does not exist for the client.
        """
        await self._check_open()
        await yield_to_loop(self.request.session)
        return await self.app.resources.read(replace(self.request), uri)

    @with_result
    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Return the result of one of this server's tools, called within this request.

        Raises:
            InvalidParams: there is no such tool, or it does not exist for the client.
        """
        await self._check_open()
        await yield_to_loop(self.request.session)
        return await self.app.tools.call(replace(self.request), name, dict(arguments or {}))

    # -- from a sync function --------------------------------------------------------------------------------------

    def from_thread(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an async function on the server's event loop from a sync function, and return its result.

        Example: ``ctx.from_thread(ctx.elicit, "Sure?", bool)``.

        Raises:
            RuntimeError: this is not a worker thread of a sync function.
        """
        loop = calling_loop()
        if loop is None:
            raise RuntimeError("from_thread() is for sync functions in a worker thread; await the method instead")

        async def call() -> T:
            return await function(*args, **kwargs)

        if hasattr(loop, "call_soon_threadsafe"):  # asyncio's loop; trio's token has no such method
            import asyncio
            from concurrent.futures import CancelledError

            try:
                return run_on_loop(call(), loop)
            except CancelledError:  # an `Exception`: a function could catch it as a failure and continue
                raise asyncio.CancelledError from None
        import anyio.from_thread

        return anyio.from_thread.run(call, token=loop)


def current_context() -> Context[Any]:
    """Return the context of the request that this task or worker thread serves.

    Raises:
        NoRequest: it serves no request.
    """
    request = current_request.get(None)
    if request is None:
        raise NoRequest("No request is being served here")
    return Context(request_of(request))
