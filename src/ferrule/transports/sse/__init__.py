"""The HTTP+SSE transport of 2024-11-05: the server, and the client.

The names of `ferrule.transports.sse.server` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.transports.sse.server import SseEndpoint as SseEndpoint

__all__ = ["SseEndpoint"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.server"), name)
