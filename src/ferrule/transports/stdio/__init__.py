"""A server and a client over the pipes of a process, one message per line.

The names of `ferrule.transports.stdio.server` are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.transports.stdio.server import DEFAULT_DRAIN_S as DEFAULT_DRAIN_S
    from ferrule.transports.stdio.server import DEFAULT_MAX_MESSAGE_BYTES as DEFAULT_MAX_MESSAGE_BYTES
    from ferrule.transports.stdio.server import ParentWatch as ParentWatch
    from ferrule.transports.stdio.server import StdioContext as StdioContext
    from ferrule.transports.stdio.server import StdioReadStream as StdioReadStream
    from ferrule.transports.stdio.server import StdioWriteStream as StdioWriteStream
    from ferrule.transports.stdio.server import run_stdio as run_stdio
    from ferrule.transports.stdio.server import serve_stdio as serve_stdio
    from ferrule.transports.stdio.server import stdio_streams as stdio_streams

__all__ = [
    "DEFAULT_DRAIN_S",
    "DEFAULT_MAX_MESSAGE_BYTES",
    "ParentWatch",
    "StdioContext",
    "StdioReadStream",
    "StdioWriteStream",
    "run_stdio",
    "serve_stdio",
    "stdio_streams",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.server"), name)
