"""`Context`: what a tool, prompt or resource function may know and say about the request it serves.

It is put in wherever a parameter has this type, whatever its name; `current_context` finds it without a parameter,
also in a worker thread. It holds nothing of its own, so making one costs nothing, and it is of no use after the
request has ended.

In a sync function the methods that only tell (progress, log messages, notifications) are called as they are, without
``await``; those with an answer through `Context.from_thread`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from ferrule.app.application import application_of
from ferrule.app.errors import NoRequest
from ferrule.app.execution.current import current_request
from ferrule.app.execution.threads import calling_loop
from ferrule.app.in_threads import with_result, without_result
from ferrule.app.rounds.interaction import InteractionMixin
from ferrule.kernel.changes.bus import Event
from ferrule.kernel.concurrency.yielding import yield_to_loop
from ferrule.kernel.connection import unguarded
from ferrule.kernel.dispatch import ClosesStream
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

# What other libraries call it -> what it is called here.
_NAMED_ELSEWHERE: Mapping[str, str] = {
    "report_progress": "`progress(progress, total, message)`",
    "warn": "`warning(data)`",
    "list_roots": "`roots()`",
    "create_message": "`sample(...)`",
    "fastmcp": "`app`",
    "request_context": "`request`",
    "client_id": "`principal`",
    "get_http_headers": "`headers`",
    "get_http_request": "`headers`",
    "get_state": "a `Handles` or `PerPrincipal` parameter",
    "set_state": "a `Handles` or `PerPrincipal` parameter",
}


class Context(InteractionMixin, Generic[LifespanT]):
    """One request, as its function sees it. ``Context[State]`` names the type of `lifespan`.

    Attributes:
        request: the kernel's own context, for what has no name here.
    """

    __slots__ = ("request",)

    __ferrule_injected__: ClassVar[str] = "context"

    if not TYPE_CHECKING:  # or any name would do for type checkers

        def __getattr__(self, name: str) -> Any:
            """Called for a name that does not exist: say what it is called here, where other libraries have it."""
            here = _NAMED_ELSEWHERE.get(name)
            told = f"Context has no {name!r}" + (f"; here it is {here}" if here else "")
            raise AttributeError(told, name=name, obj=self)

    def __init__(self, request: ServerRequestContext[Any]) -> None:
        self.request = request

    # -- the request -----------------------------------------------------------------------------------------------

    @property
    def app(self) -> Application:
        """The `MCPServer` that the function was registered with, also where that is mounted in another one."""
        mounted = self.request.component_server
        return cast("Application", application_of(self.request.server) if mounted is None else mounted)

    @property
    def session(self) -> ServerSession:
        """What may be said to the peer, one level below."""
        return self.request.session

    @property
    def lifespan(self) -> LifespanT:
        """What the server's lifespan yielded."""
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
        """The request's ``_meta`` as it came; empty if there was none."""
        return self.request.meta

    @property
    def protocol_version(self) -> str:
        """The revision that holds for this request."""
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
        """Who sent this request, as authentication said; ``None`` when nobody in particular."""
        return self.request.transport.principal

    def require_scopes(self, *scopes: str) -> None:
        """Refuse the request unless its token allows all of these: for needs that only the function can know.

        Over HTTP the client gets 403 with a challenge for them, if nothing has been said yet, and may step up. On other
        transports nothing is refused.

        Raises:
            InsufficientScope: let it through; it is the answer.
        """
        from ferrule.app.authorization.guards import require_scopes

        require_scopes(self.request, scopes)

    @property
    def client_info(self) -> Implementation | None:
        """The client's name and version, if it gave them. For display and logs, never for decisions."""
        return self.request.session.client_info

    @property
    def client_capabilities(self) -> ClientCapabilities:
        """What the client declared; in the modern era with this very request."""
        return self.request.session.client_capabilities

    @property
    def session_id(self) -> str | None:
        """The legacy HTTP session; ``None`` in the modern era and on other transports."""
        return self.request.session.session_id

    @property
    def cancelled(self) -> bool:
        """Whether this run is for nothing: the client has withdrawn the request, or the round has ended.

        What a sync function looks at between two steps.
        """
        return self.request.session.dispatch.cancel_requested or self.suspending

    @property
    def session_state(self) -> dict[str, Any]:
        """Values kept between the calls of one legacy connection or session.

        The modern era has no sessions. There, hand out an explicit handle (an unguessable id that the client passes
        back as an argument), or keep things under `principal`.

        Raises:
            NoSession: a modern request; nothing could be found again.
        """
        connection = self.request.session.connection
        if not connection.revision.has_sessions:
            from ferrule.app.errors import NoSession

            raise NoSession(
                "This request belongs to no session (2026-07-28 has none); return a handle that the client passes "
                "back, or key the state by ctx.principal"
            )
        return connection.state

    # -- telling the client ----------------------------------------------------------------------------------------

    @without_result
    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress, if the client asked for it; does nothing otherwise.

        Args:
            progress: must rise from call to call; what does not is not sent.
            total: when known.
            message: for people (2025-03-26 on).
        """
        await self._check_open()
        await self.request.session.progress(progress, total, message)

    @without_result
    async def log(self, level: str, data: Any, *, logger: str | None = None) -> None:
        """Send a log message to the client, where its era lets one through.

        Legacy: at or above the level that the client set. Modern: only when this request names a level. For the
        operator's log use ``logging``.

        Args:
            level: one of debug, info, notice, warning, error, critical, alert, emergency.
            data: any JSON value; no secrets.
            logger: a name for the source.

        Raises:
            ValueError: no such level.
        """
        warn_deprecated("logging")
        await self._log(level, data, logger)

    async def _log(self, level: str, data: Any, logger: str | None = None) -> None:
        await self._check_open()
        await self.request.session.log(level, data, logger)

    @without_result
    async def debug(self, data: Any) -> None:
        """`log` at level debug."""
        warn_deprecated("logging")
        await self._log("debug", data)

    @without_result
    async def info(self, data: Any) -> None:
        """`log` at level info."""
        warn_deprecated("logging")
        await self._log("info", data)

    @without_result
    async def warning(self, data: Any) -> None:
        """`log` at level warning."""
        warn_deprecated("logging")
        await self._log("warning", data)

    @without_result
    async def error(self, data: Any) -> None:
        """`log` at level error; it does not end the call, `ToolError` does."""
        warn_deprecated("logging")
        await self._log("error", data)

    @without_result
    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification that belongs to this request."""
        await self._check_open()
        await self.request.session.notify(method, params)

    @with_result
    async def close_stream(self, retry_ms: int | None = None) -> bool:
        """Close the connection that this request's answer streams over, and work on; the client comes back for the
        rest (2025-11-25, SEP-1699). For long work behind proxies that end idle connections.

        Args:
            retry_ms: when the client should come back; ``None`` takes the endpoint's option.

        Returns:
            Whether it was closed; where there is no stream that could be resumed, nothing happens.
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

    # -- telling everyone who listens ------------------------------------------------------------------------------

    @without_result
    async def notify_tools_changed(self) -> None:
        """Tell every listening client that the list of tools is not what it was."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("tools"))

    @without_result
    async def notify_prompts_changed(self) -> None:
        """Tell every listening client that the list of prompts is not what it was."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("prompts"))

    @without_result
    async def notify_resources_changed(self) -> None:
        """Tell every listening client that the list of resources is not what it was."""
        await yield_to_loop(self.request.session)
        self.request.server.bus.publish(Event.list_changed("resources"))

    @without_result
    async def notify_resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to ``uri``, or to something above it, that its contents changed.

        Args:
            uri: as in the server that the function belongs to.
        """
        await yield_to_loop(self.request.session)
        mounted = self.request.component_server
        bus = self.request.server.bus if mounted is None else mounted.lowlevel.bus
        bus.publish(Event.resource_updated(uri))

    # -- using the server ------------------------------------------------------------------------------------------

    @with_result
    async def read_resource(self, uri: str) -> ReadResourceResult:
        """Read one of this server's own resources, as the client would.

        Raises:
            ResourceNotFound: there is none.
        """
        await self._check_open()
        await yield_to_loop(self.request.session)
        return await self.app.resources.read(replace(self.request), uri)

    @with_result
    async def call_tool(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Call one of this server's own tools within this request.

        Raises:
            InvalidParams: there is no such tool.
        """
        await self._check_open()
        await yield_to_loop(self.request.session)
        return await self.app.tools.call(replace(self.request), name, dict(arguments or {}))

    # -- from a sync function --------------------------------------------------------------------------------------

    def from_thread(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run ``await function(*args, **kwargs)`` on the server's loop and wait for it: for sync functions.

        Example: ``ctx.from_thread(ctx.progress, 1, total=3)``.

        Raises:
            RuntimeError: not in a worker thread.
        """
        home = calling_loop()
        if home is None:
            raise RuntimeError("from_thread() is for sync functions in a worker thread; await the method instead")

        async def call() -> T:
            return await function(*args, **kwargs)

        if hasattr(home, "call_soon_threadsafe"):  # asyncio's loop; trio's token has no such method
            import asyncio
            from concurrent.futures import CancelledError

            try:
                return asyncio.run_coroutine_threadsafe(call(), home).result()
            except CancelledError:  # an Exception, which a body would take for a failure of its own and go on
                raise asyncio.CancelledError from None
        import anyio.from_thread

        return anyio.from_thread.run(call, token=home)


def current_context() -> Context[Any]:
    """Return the context of the request being served by this task or worker thread.

    Raises:
        NoRequest: no request is being served here.
    """
    request = current_request.get(None)
    if request is None:
        raise NoRequest("No request is being served here")
    return Context(request)
