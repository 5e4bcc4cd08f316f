"""The request that is being served by the running task or worker thread."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ferrule.kernel.fast_path.fast_tools import FastCall
from ferrule.kernel.server import ServerRequestContext

__all__ = ["current_request", "request_of"]

current_request: ContextVar[ServerRequestContext[Any] | FastCall] = ContextVar("ferrule_request")
"""The request that is being served, or a plain call (fast path), whose request is made on first use. Set around the
function that serves it; read it with `request_of`."""


def request_of(found: ServerRequestContext[Any] | FastCall) -> ServerRequestContext[Any]:
    """Return the request for a value of `current_request`; that of a plain call is made now, if it is not yet."""
    if type(found) is FastCall:
        return found.tool.request_of(found) if found.request is None else found.request
    return found  # type: ignore[return-value]
