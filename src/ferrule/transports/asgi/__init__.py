"""Streamable HTTP as a plain ASGI callable: both eras on one URL.

``HttpEndpoint(server, HttpOptions(...))`` is the callable; ``ferrule.transports.hosting.uvicorn_server.run_http``
serves it. Names are loaded on first use, because the HTTP server needs one small module of this package before anything
else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.stores.events import EventStore as EventStore
    from ferrule.stores.events import MemoryEventStore as MemoryEventStore
    from ferrule.transports.asgi.context import HttpContext as HttpContext
    from ferrule.transports.asgi.context import HttpRefusal as HttpRefusal
    from ferrule.transports.asgi.endpoint import HttpEndpoint as HttpEndpoint
    from ferrule.transports.asgi.options import HttpOptions as HttpOptions

_MODULES = {
    "EventStore": "ferrule.stores.events",
    "HttpContext": f"{__name__}.context",
    "HttpEndpoint": f"{__name__}.endpoint",
    "HttpOptions": f"{__name__}.options",
    "HttpRefusal": f"{__name__}.context",
    "MemoryEventStore": "ferrule.stores.events",
}

__all__ = ["EventStore", "HttpContext", "HttpEndpoint", "HttpOptions", "HttpRefusal", "MemoryEventStore"]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
