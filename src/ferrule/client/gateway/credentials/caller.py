"""The caller of a gateway for whom a request is made, in the task that makes it.

A connection to a server behind belongs to one caller. The tasks that keep it open are started while it is opened, so
that they inherit the value.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from ferrule.kernel.dispatch import TransportContext
from ferrule.protocol.errors import MCPError
from ferrule.wire.jsonrpc import JsonRpcErrorCode

__all__ = ["OWNER", "UnknownCaller", "caller_id", "caller_now", "token_of"]

OWNER: Final = "owner"
"""The id of the caller of a gateway that does not serve a network: the user who started it."""

caller_now: ContextVar[TransportContext | None] = ContextVar("ferrule-gateway-caller", default=None)
"""The transport context of the request that is being forwarded; ``None`` outside one."""


class UnknownCaller(MCPError):
    """A request over a network has no principal, so that no credential can be chosen for it."""

    def __init__(self, server: str) -> None:
        super().__init__(
            f"{server!r} is used with each caller's own credentials, and this gateway does not know its callers",
            code=JsonRpcErrorCode.INVALID_REQUEST,
        )


def caller_id(context: TransportContext, server: str) -> str:
    """Return a text that identifies the caller of a request, equal in every process.

    Args:
        context: the transport context of the request.
        server: the name of the server behind, for the error.

    Raises:
        UnknownCaller: the request came over a network, and its sender is not authenticated.
    """
    principal = context.principal
    if principal is None:
        if context.is_network:
            raise UnknownCaller(server)
        return OWNER
    # A principal may be an object of the program's own verifier.
    return f"principal {getattr(principal, 'id', principal)}"


def token_of(context: TransportContext | None) -> str | None:
    """Return the bearer token with which a request came; ``None`` without one."""
    if context is None:
        return None
    scheme, _, token = context.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
