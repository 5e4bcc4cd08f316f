"""What a handler and each middleware get: one request or notification, with everything that belongs to it.

A real dataclass, because middleware rewrites it: ``call_next(replace(ctx, params=…))``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from ferrule.kernel.dispatch import TransportContext
from ferrule.wire.codec import Encoded
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.revisions import Revision

if TYPE_CHECKING:
    from ferrule.kernel.legacy.session import ServerSession
    from ferrule.kernel.server import Server

__all__ = ["CallNext", "Handler", "HandlerResult", "ServerMiddleware", "ServerRequestContext"]

# With a default, `MCPServer("x")` and a bare `Context` need no annotation. For type checkers alone: at run time
# `typing.TypeVar` knows defaults from Python 3.13 on.
if TYPE_CHECKING:
    from typing_extensions import TypeVar as _TypeVar

    LifespanT = _TypeVar("LifespanT", default=Any)
    LifespanT_co = _TypeVar("LifespanT_co", covariant=True, default=Any)
    LifespanT_contra = _TypeVar("LifespanT_contra", contravariant=True, default=Any)
else:
    LifespanT = TypeVar("LifespanT")
    LifespanT_co = TypeVar("LifespanT_co", covariant=True)
    LifespanT_contra = TypeVar("LifespanT_contra", contravariant=True)

HandlerResult: TypeAlias = Struct | Mapping[str, Any] | Encoded | None
"""A result: a protocol Struct, a mapping under wire names, ready-made JSON bytes, or ``None`` for an empty one."""


@dataclass(slots=True)
class ServerRequestContext(Generic[LifespanT_co]):
    """One inbound request or notification.

    Attributes:
        session: what the handler may say to its peer.
        lifespan_context: what the server's lifespan yielded.
        method: as the peer wrote it.
        params: middleware sees the raw mapping; the handler gets the typed params of its method.
        request_id: ``None`` marks a notification.
        meta: the raw ``params._meta``; empty if there is none.
        protocol_version: the revision that holds for this message.
        transport: typed facts of the transport that carried it.
        server: the registry that serves it.
        home: whose component serves it, where a layer above put several servers into one; ``None``: the server's own.
    """

    session: ServerSession
    lifespan_context: LifespanT_co
    method: str
    params: Any
    request_id: RequestId | None
    meta: Mapping[str, Any]
    protocol_version: str
    transport: TransportContext
    server: Server[Any]
    home: Any = None

    @property
    def revision(self) -> Revision:
        """The revision that holds for this message, with its tables and flags."""
        return self.session.connection.revision


Handler: TypeAlias = Callable[[ServerRequestContext[Any]], Awaitable[Any]]
"""The one shape: ``async (ctx) -> result``."""

CallNext: TypeAlias = Callable[[ServerRequestContext[Any]], Awaitable[Any]]
"""The rest of the chain, as middleware sees it."""


class ServerMiddleware(Protocol[LifespanT_contra]):
    """``async (ctx, call_next) -> result``, wrapping every request and notification.

    Generic over the lifespan state, so that a middleware written for ``object`` fits any server.
    """

    async def __call__(self, ctx: ServerRequestContext[LifespanT_contra], call_next: CallNext, /) -> Any:
        """Serve, refuse, rewrite or watch one message; ``ctx.request_id is None`` marks a notification."""
        ...
