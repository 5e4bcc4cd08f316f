"""What the fast path of plain calls needs of the layer above: tools as it calls them, and the request as they see it.

A plain call is a ``tools/call`` without any unusual member (`ferrule.wire.plain_calls`). The fast path calls the tool's
function with typed arguments and makes no request context. Code that reads the request of such a call (a ``Context``
that is used, ``current_context()``) gets one that is made then (`PlainCall.carrier`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from msgspec import Raw, Struct

from ferrule.kernel.server import Handler, Server, ServerRequestContext
from ferrule.protocol.correlation import progress_token
from ferrule.protocol.inbound import LOG_LEVEL_KEY, InboundModernRoute, classify_inbound_request, has_modern_envelope
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.plain_calls import PLAIN_METHOD
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.kernel.concurrency.first_step import Begun
    from ferrule.kernel.dispatch import DispatchContext

__all__ = [
    "OWNER",
    "CallCarrier",
    "PlainCall",
    "PlainTool",
    "PlainTools",
    "WriteResult",
    "is_plain_legacy",
    "plain_route",
    "plain_tools_of",
]

OWNER: Final[Any] = object()
"""The sender of calls on stdio and in process, to whom guards of tools do not apply."""

WriteResult: TypeAlias = Callable[[Any], "tuple[bytes, ...] | None"]
"""What a function returned → the rest of the answer after its id, in pieces; ``None``: the general way makes it."""


class CallCarrier(Protocol):
    """Carries plain calls, and makes the request of one of them on demand."""

    def make_request(self, call: PlainCall, /) -> ServerRequestContext[Any]:
        """Return the request of a call as its handler would have got it; see `PlainTool.request_of`."""
        ...


class PlainCall(Struct, eq=False):
    """One plain call that is being served.

    Attributes:
        id: the id of the request.
        tool: the tool that is called.
        arguments: for `PlainTool.start`.
        frame: the bytes of the message.
        origin: what the carrier knows of its sender.
        carrier: makes `request`.
        dispatch: the dispatch context; ``None`` until it is needed.
        request: the request as the tool's function sees it; ``None`` until it is needed.
        is_over: it has been answered.
        task: runs the call, if that has waited; ``None`` before.
        token: resets the context variable that `PlainTool.start` has set.
    """

    id: RequestId
    tool: PlainTool
    arguments: Any
    frame: bytes
    origin: Any
    carrier: CallCarrier
    dispatch: DispatchContext | None = None
    request: ServerRequestContext[Any] | None = None
    is_over: bool = False
    task: Any = None
    token: Any = None


class PlainTool(Protocol):
    """A tool whose plain calls can be served by the fast path.

    Attributes:
        writers: protocol version → what writes its results; filled by the callers of `make_writer`.
    """

    @property
    def writers(self) -> dict[str, WriteResult]: ...

    def decode(self, arguments: bytes | Raw, /) -> Any:
        """Return `PlainCall.arguments`.

        Raises:
            Exception: the general path has to judge these arguments.
        """
        ...

    def start(self, call: PlainCall, /) -> Coroutine[Any, Any, Any]:
        """Make the coroutine of a call, inside the context of that call."""
        ...

    def leave(self, call: PlainCall, /) -> None:
        """Undo what `start` did to the context, where that is not the call's own."""
        ...

    def make_writer(self, revision: Revision, finish: Callable[[Any], Any]) -> WriteResult:
        """Return what writes results for clients of a revision; to be kept in `writers`.

        Args:
            revision: the revision of the client.
            finish: a result → the finished result.
        """
        ...

    def request_of(self, call: PlainCall, /) -> ServerRequestContext[Any]:
        """Return `PlainCall.request`, made now if it was not needed before."""
        ...

    def go_on(self, call: PlainCall, begun: Begun) -> Handler:
        """Return the handler of a call whose function has been begun."""
        ...


class PlainTools(Protocol):
    """The tools of a server that has a fast path; attached to the `Server` under this class.

    Attributes:
        handler: serves ``tools/call`` on the general path. If another handler does, no call is plain.
        fast_calls: how many calls the fast path has taken.
    """

    fast_calls: int

    @property
    def handler(self) -> Handler: ...

    def find_plain(self, name: str, sender: Any = OWNER, /) -> PlainTool | None:
        """Return a tool that a sender may call plainly; ``None`` if the general path has to serve the call.

        Args:
            name: the name that the client sent.
            sender: the principal of a request from a network; `OWNER` for the owner of the process.
        """
        ...


def plain_tools_of(server: Server[Any]) -> PlainTools | None:
    """Return the tools that the fast path may call; ``None`` if the server has no fast path."""
    return server.attachments.get(PlainTools)  # type: ignore[type-abstract]


def is_plain_legacy(params: dict[str, Any]) -> bool:
    """Judge the ``_meta`` of a legacy call by the rules of the general path; false if it makes the call unusual."""
    if "_meta" not in params:
        return True
    return type(params["_meta"]) is dict and progress_token(params) is None and not has_modern_envelope(params)


def plain_route(
    server: Server[Any], params: dict[str, Any], headers: Mapping[str, str] | None = None
) -> InboundModernRoute | None:
    """Judge the envelope of a modern call by the rules of the general path; ``None`` if it makes the call unusual.

    Args:
        server: its versions and names of headers hold.
        params: ``_meta``, decoded, and with headers the ``name``.
        headers: the headers of the HTTP request; ``None`` elsewhere.
    """
    route = classify_inbound_request(
        {"method": PLAIN_METHOD, "params": params},
        headers=headers,
        supported_modern_versions=server.modern_versions,
        name_params=server.name_params,
    )
    if not isinstance(route, InboundModernRoute):
        return None
    return None if LOG_LEVEL_KEY in params["_meta"] or progress_token(params) is not None else route
