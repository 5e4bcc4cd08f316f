"""The request that is being served by the running task or worker thread."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from ferrule.kernel.server import ServerRequestContext

__all__ = ["current_request"]

current_request: ContextVar[ServerRequestContext[Any]] = ContextVar("ferrule_request")
"""The request being served; set around the function that serves it."""
