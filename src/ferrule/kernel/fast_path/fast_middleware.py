"""Middleware that plain calls may pass on the fast path, where they have no request context.

A subclass of `FastMiddleware` decides whether a plain call may take the fast path, does its work before and after the
function, and continues on the general path if that takes the call over. While a server has any other middleware, all
its calls take the general path, and so does a call that one of its middleware does not admit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from ferrule.kernel.dispatch import TransportContext
from ferrule.kernel.server import CallNext, Server, ServerRequestContext
from ferrule.wire.jsonrpc import RequestId
from ferrule.wire.revisions import Revision

__all__ = ["FastMiddleware", "PlainCall"]


class PlainCall(Protocol):
    """A plain ``tools/call`` that is served without a request context."""

    @property
    def id(self) -> RequestId:
        """The id of the request."""
        ...

    @property
    def name(self) -> str:
        """The name of the tool, as the client has sent it."""
        ...

    @property
    def server(self) -> Server[Any]:
        """The server that serves it."""
        ...

    @property
    def revision(self) -> Revision:
        """The revision of this message."""
        ...

    @property
    def transport(self) -> TransportContext:
        """Facts of the transport that has received it, the principal among them."""
        ...

    @property
    def session_id(self) -> str | None:
        """The id of the legacy session; ``None`` elsewhere; see `ServerSession.session_id`."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """The raw ``params._meta``; decoded at each use."""
        ...


class FastMiddleware:
    """Base class of middleware that has an effect on plain calls without moving them to the general path.

    Together `enter_fast` and `leave_fast` must have the effect of ``__call__``. A plain call may become an ordinary
    request at any time after `enter_fast`: if its function raises, if it returns a value that is not plain, or if code
    reads its request. Then `resume_fast` is called instead of `leave_fast`. If a subclass overrides ``__call__`` and
    none of these methods, all calls of its server take the general path.
    """

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        """See `ServerMiddleware`."""
        return await call_next(ctx)

    def admits_fast(self, call: PlainCall) -> bool:
        """Return whether a call may take the fast path, without any effect: other middleware may refuse the call."""
        return True

    def enter_fast(self, call: PlainCall) -> Any:
        """Do the work before the function, with the context variables of the call.

        Returns:
            A value of any type; `leave_fast` or `resume_fast` gets it as ``kept``.

        Raises:
            Exception: the call fails with this exception, as if the function had raised it.
        """
        return None

    def leave_fast(self, call: PlainCall, kept: Any) -> None:
        """Do the work after the function, which has returned a plain value; ``kept`` is the result of `enter_fast`."""

    def resume_fast(self, ctx: ServerRequestContext[Any], call_next: CallNext, kept: Any) -> Awaitable[Any]:
        """Do the part of ``__call__`` after `enter_fast` for a call that goes on as an ordinary request.

        Args:
            ctx: the request.
            call_next: the rest of the chain.
            kept: the result of `enter_fast`.

        Returns:
            An awaitable of the result, as ``__call__`` returns it.

        Raises:
            Exception: as ``__call__`` does.
        """
        return self(ctx, call_next)
