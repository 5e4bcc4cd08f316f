"""The request that is being served by the running task or worker thread."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ferrule.kernel.fast_path.plain_tools import PlainCall
from ferrule.kernel.server import ServerRequestContext

__all__ = ["current_request", "request_of"]

current_request: ContextVar[ServerRequestContext[Any] | PlainCall] = ContextVar("ferrule_request")
"""The request being served, or the plain call whose request has not been used; set around the function that serves
it. Read it by `request_of`."""


def request_of(found: ServerRequestContext[Any] | PlainCall) -> ServerRequestContext[Any]:
    """Return the request that stands in `current_request`."""
    if type(found) is PlainCall:
        return found.tool.request_of(found) if found.request is None else found.request
    return found  # type: ignore[return-value]
