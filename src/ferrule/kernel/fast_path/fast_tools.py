"""Protocols between the fast path of plain calls and the layer above: the tools that it calls, and the calls.

A plain call is a ``tools/call`` without any unusual member (`ferrule.wire.plain_calls`). The fast path calls the tool's
function with typed arguments and makes no request context. If code reads the request of such a call (a method of its
``Context``, ``current_context()``), the request is made at that time (`CallCarrier.make_request`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

from msgspec import Raw, Struct

from ferrule.kernel.server import Handler, HandlerEntry, Server, ServerRequestContext
from ferrule.kernel.session import LOG_LEVELS
from ferrule.protocol.correlation import progress_token
from ferrule.protocol.inbound import (
    LOG_LEVEL_KEY,
    InboundModernRoute,
    MirroredHeaders,
    classify_inbound_request,
    has_modern_envelope,
)
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.plain_calls import PLAIN_METHOD
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.kernel.concurrency.first_step import StartedCoroutine
    from ferrule.kernel.connection import Connection
    from ferrule.kernel.dispatch import DispatchContext, TransportContext

__all__ = [
    "OWNER",
    "CallCarrier",
    "CallPassage",
    "CallSender",
    "FastCall",
    "FastTool",
    "FastTools",
    "WriteResult",
    "entry_of_plain_calls",
    "fast_tools_of",
    "is_plain_legacy",
    "plain_route",
]

OWNER: Final[Any] = object()
"""Stands for the sender of calls on stdio and in process: the owner of the process, for whom guards do not apply."""

WriteResult: TypeAlias = Callable[[Any], "tuple[bytes, ...] | None"]
"""Converts a function's return value to the part of the response after its id, as a tuple of byte strings. Returns
``None`` if the general path must write the response.

Made by `ferrule.app.results.fast_results.writer_for`."""


class CallSender(Protocol):
    """The sender of a plain call, as far as the fast path needs it."""

    @property
    def revision(self) -> Revision: ...


class CallCarrier(Protocol):
    """The channel that plain calls arrive on; it makes the request context of a call when code reads it."""

    @property
    def server(self) -> Server[Any]:
        """The server that serves the calls."""
        ...

    def make_request(self, call: FastCall, /) -> ServerRequestContext[Any]:
        """Return the request context of a call, as the general path makes it; see `FastTool.request_of`."""
        ...

    def params_of(self, call: FastCall, /) -> dict[str, Any]:
        """Return the raw params of a call."""
        ...

    def transport_of(self, call: FastCall, /) -> TransportContext:
        """Return the facts of the transport that received a call."""
        ...

    def session_id_of(self, call: FastCall, /) -> str | None:
        """Return the id of the legacy session of a call; ``None`` elsewhere."""
        ...

    def client_of(self, call: FastCall, /) -> Connection:
        """Return the connection of the client, for what is known of it; in the modern era without a channel to it.

        Raises:
            NotImplementedError: it is a client in this process.
        """
        ...


class CallPassage(Protocol):
    """The way of one call through middleware; see `ferrule.kernel.fast_path.middleware.Passage`."""

    def leave(self, call: FastCall) -> bool: ...

    def resume(self, call: FastCall, request: ServerRequestContext[Any], work: Any) -> Awaitable[Any]: ...


class FastCall(Struct, eq=False):
    """One plain call that is being served.

    Attributes:
        id: the id of the request.
        tool: the tool that is called.
        arguments: the decoded arguments (`FastTool.decode`), for `FastTool.start`.
        frame: the bytes of the message.
        sender: the sender of the call; its type depends on the carrier.
        carrier: the channel that the call arrived on; it makes ``request``.
        loop: the event loop of the carrier.
        dispatch: the dispatch context; ``None`` until it is needed.
        request: the request as the tool's function sees it; ``None`` until it is needed.
        is_over: whether the call has been answered.
        task: the asyncio task that serves the call; ``None`` until the function waits.
        token: the token to reset the context variable that `FastTool.start` has set.
        passage: the middleware that the call has entered; ``None`` without middleware.
    """

    id: RequestId
    tool: FastTool
    arguments: Any
    frame: bytes
    sender: Any
    carrier: CallCarrier
    loop: Any
    dispatch: DispatchContext | None = None
    request: ServerRequestContext[Any] | None = None
    is_over: bool = False
    task: Any = None
    token: Any = None
    passage: CallPassage | None = None

    # `ferrule.kernel.server.PlainCall`:

    @property
    def name(self) -> str:
        return self.tool.name

    @property
    def server(self) -> Server[Any]:
        return self.carrier.server

    @property
    def revision(self) -> Revision:
        return self.sender.revision  # type: ignore[no-any-return]

    @property
    def transport(self) -> TransportContext:
        return self.carrier.transport_of(self)

    @property
    def session_id(self) -> str | None:
        return self.carrier.session_id_of(self)

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.carrier.params_of(self).get("_meta") or {}


class FastTool(Protocol):
    """A tool whose plain calls can be served by the fast path.

    Attributes:
        name: as clients call it.
        writers: protocol version → function that writes its results; filled by the callers of `make_writer`.
        waits_plainly: whether the coroutine of a call uses no cancel scope, time-out or task group while it waits, so
            that no record is needed of the cancellations that it gets.
    """

    waits_plainly: ClassVar[bool]

    @property
    def name(self) -> str: ...

    @property
    def writers(self) -> dict[str, WriteResult]: ...

    def decode(self, arguments: bytes | Raw, /) -> Any:
        """Return the decoded arguments, for `FastCall.arguments`.

        Raises:
            Exception: of any class: the general path must serve this call, and judges the arguments itself.
        """
        ...

    @property
    def admits(self) -> Callable[[FastCall], bool] | None:
        """A function that returns whether the fast path may serve a call, called before `start`; ``None``: always."""
        ...

    def start(self, call: FastCall, /) -> Coroutine[Any, Any, Any]:
        """Return the coroutine of a call's function, not started; called with the context variables of that call."""
        ...

    def leave(self, call: FastCall, /) -> None:
        """Reset the context variable that `start` has set, if the context is not the call's own."""
        ...

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """Return the function that writes results for clients of a revision; the caller stores it in `writers`.

        Args:
            revision: the revision of the client.
            finish: converts a result to the finished result of the revision.
        """
        ...

    def request_of(self, call: FastCall, /) -> ServerRequestContext[Any]:
        """Return `FastCall.request`, made now if it was not needed before."""
        ...

    def go_on(self, call: FastCall, begun: StartedCoroutine) -> Handler:
        """Return the handler that finishes a call on the general path, with the function's started coroutine."""
        ...


class FastTools(Protocol):
    """The tools of a server that has a fast path; attached to the `Server` under this class.

    Attributes:
        handler: the handler of ``tools/call`` on the general path. While another handler is registered for the method,
            the fast path is not used.
        fast_calls: the number of calls that the fast path has served.
        barred: the last list of middleware that keeps every call from the fast path.
    """

    fast_calls: int
    barred: list[Any]

    @property
    def handler(self) -> Handler: ...

    def find_fast(self, name: str, sender: Any = OWNER, /) -> FastTool | None:
        """Return a tool that the fast path may call; ``None`` if the general path must serve the call.

        Args:
            name: the name that the client sent.
            sender: the principal of a request from a network; `OWNER` for the owner of the process.
        """
        ...


def fast_tools_of(server: Server[Any]) -> FastTools | None:
    """Return the tools that the fast path may call; ``None`` if the server has no fast path."""
    return server.attachments.get(FastTools)  # type: ignore[type-abstract]


def entry_of_plain_calls(
    server: Server[Any], handlers: Mapping[str, HandlerEntry], tools: FastTools
) -> HandlerEntry | None:
    """Return the registered handler of ``tools/call``; ``None`` while the general path must serve every call.

    The specification has no cache hints for ``tools/call``; the general path serves a server that sets one.

    Args:
        server: the server.
        handlers: its handlers (`Server.request_handlers`); callers ask for each call, and keep them.
        tools: its tools.
    """
    entry = handlers.get(PLAIN_METHOD)
    if entry is None or entry.handler != tools.handler or PLAIN_METHOD in server.cache_hints:
        return None
    return None if server.middleware and server.middleware == tools.barred else entry


def is_plain_legacy(params: dict[str, Any]) -> bool:
    """Return whether a legacy call with this ``_meta`` is plain, by the rules of the general path."""
    if "_meta" not in params:
        return True
    return type(params["_meta"]) is dict and progress_token(params) is None and not has_modern_envelope(params)


def plain_route(
    server: Server[Any], params: dict[str, Any], headers: Mapping[str, str] | None = None
) -> InboundModernRoute | None:
    """Check the envelope of a modern call by the rules of the general path.

    Args:
        server: the server, for its modern versions and its mirrored headers.
        params: the decoded ``_meta``, and with ``headers`` also ``name``.
        headers: the headers of the HTTP request; ``None`` on other transports.

    Returns:
        The version and the client of the call; ``None`` if the general path must serve it.
    """
    route = classify_inbound_request(
        {"method": PLAIN_METHOD, "params": params},
        headers=headers,
        supported_modern_versions=server.modern_versions,
        name_params=server.attachments.made(MirroredHeaders).names,
    )
    if not isinstance(route, InboundModernRoute) or progress_token(params) is not None:
        return None
    meta = params["_meta"]
    return route if LOG_LEVEL_KEY not in meta or meta[LOG_LEVEL_KEY] in LOG_LEVELS else None
