"""Ferrule: servers and clients for the Model Context Protocol, both protocol eras.

The names of this package are loaded on first use: ``import ferrule`` costs a dozen modules, and a stdio server never
pays for the HTTP client. Type checkers follow the imports under ``TYPE_CHECKING``; a test holds the two lists, and
``__all__``, together.

The rule that a newcomer would break: nothing may be imported here at module level but the standard library's smallest
parts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ferrule._version import __version__

if TYPE_CHECKING:
    from ferrule import errors as errors
    from ferrule import forms as forms
    from ferrule import middleware as middleware
    from ferrule import questions as questions
    from ferrule import types as types
    from ferrule.app.content import Audio as Audio
    from ferrule.app.content import Embedded as Embedded
    from ferrule.app.content import File as File
    from ferrule.app.content import Image as Image
    from ferrule.app.content import Link as Link
    from ferrule.app.context import Context as Context
    from ferrule.app.context import current_context as current_context
    from ferrule.app.errors import ToolError as ToolError
    from ferrule.app.fields import Field as Field
    from ferrule.app.fields import Header as Header
    from ferrule.app.handles import Handles as Handles
    from ferrule.app.handles import PerPrincipal as PerPrincipal
    from ferrule.app.inject import Depends as Depends
    from ferrule.app.rounds.manual import InputRequired as InputRequired
    from ferrule.app.rounds.sealing import StateKey as StateKey
    from ferrule.app.server import MCPServer as MCPServer
    from ferrule.client.client import Client as Client
    from ferrule.client.group import ClientGroup as ClientGroup
    from ferrule.client.proxy import proxy as proxy
    from ferrule.client.sync import SyncClient as SyncClient
    from ferrule.kernel.server import Server as Server
    from ferrule.protocol.caching import CacheHint as CacheHint
    from ferrule.protocol.errors import MCPError as MCPError
    from ferrule.transports.running import asgi as asgi
    from ferrule.transports.running import run as run
    from ferrule.transports.stdio_client import StdioServer as StdioServer

# Public name -> the module that defines it.
_MODULES: dict[str, str] = {
    "Audio": "ferrule.app.content",
    "CacheHint": "ferrule.protocol.caching",
    "Client": "ferrule.client.client",
    "ClientGroup": "ferrule.client.group",
    "Context": "ferrule.app.context",
    "Depends": "ferrule.app.inject",
    "Embedded": "ferrule.app.content",
    "Field": "ferrule.app.fields",
    "File": "ferrule.app.content",
    "Handles": "ferrule.app.handles",
    "Header": "ferrule.app.fields",
    "Image": "ferrule.app.content",
    "InputRequired": "ferrule.app.rounds.manual",
    "Link": "ferrule.app.content",
    "MCPError": "ferrule.protocol.errors",
    "MCPServer": "ferrule.app.server",
    "PerPrincipal": "ferrule.app.handles",
    "Server": "ferrule.kernel.server",
    "StateKey": "ferrule.app.rounds.sealing",
    "StdioServer": "ferrule.transports.stdio_client",
    "SyncClient": "ferrule.client.sync",
    "ToolError": "ferrule.app.errors",
    "asgi": "ferrule.transports.running",
    "current_context": "ferrule.app.context",
    "proxy": "ferrule.client.proxy",
    "run": "ferrule.transports.running",
}

# What other libraries call it -> what it is called here.
_NAMED_ELSEWHERE = {
    "FastMCP": "MCPServer",
    "McpServer": "MCPServer",
    "ClientSession": "Client",
    "StdioServerParameters": "StdioServer",
    "McpError": "MCPError",
}

# Public modules that `import ferrule` makes reachable as attributes.
_SUBMODULES = ("errors", "forms", "middleware", "questions", "types")

__all__ = [
    "Audio",
    "CacheHint",
    "Client",
    "ClientGroup",
    "Context",
    "Depends",
    "Embedded",
    "Field",
    "File",
    "Handles",
    "Header",
    "Image",
    "InputRequired",
    "Link",
    "MCPError",
    "MCPServer",
    "PerPrincipal",
    "Server",
    "StateKey",
    "StdioServer",
    "SyncClient",
    "ToolError",
    "__version__",
    "asgi",
    "current_context",
    "errors",
    "forms",
    "middleware",
    "proxy",
    "questions",
    "run",
    "types",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name in _SUBMODULES:
        return import_module(f"ferrule.{name}")
    module = _MODULES.get(name)
    if module is None:
        if name in _NAMED_ELSEWHERE:
            # Not AttributeError: ``from ferrule import`` would replace its text.
            raise ImportError(f"ferrule has no {name!r}; its name here is {_NAMED_ELSEWHERE[name]}", name="ferrule")
        raise AttributeError(f"module 'ferrule' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *__all__})
