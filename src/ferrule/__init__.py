"""Ferrule: servers and clients for the Model Context Protocol, both protocol eras.

The names of this package are loaded on first use: ``import ferrule`` costs a dozen modules, and a stdio server never
pays for the HTTP client. Type checkers follow the imports under ``TYPE_CHECKING``; a test holds the two lists, and
``__all__``, together.

The rule that a newcomer would break: nothing may be imported here at module level but the standard library's smallest
parts.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ferrule._version import __version__

if TYPE_CHECKING:
    from ferrule import bridges as bridges
    from ferrule import errors as errors
    from ferrule import forms as forms
    from ferrule import middleware as middleware
    from ferrule import questions as questions
    from ferrule import types as types
    from ferrule.app.authorization.handles import Handles as Handles
    from ferrule.app.authorization.handles import PerPrincipal as PerPrincipal
    from ferrule.app.errors import ToolError as ToolError
    from ferrule.app.execution.context import Context as Context
    from ferrule.app.execution.context import current_context as current_context
    from ferrule.app.execution.dependencies import Depends as Depends
    from ferrule.app.results.content import Audio as Audio
    from ferrule.app.results.content import Embedded as Embedded
    from ferrule.app.results.content import File as File
    from ferrule.app.results.content import Image as Image
    from ferrule.app.results.content import Link as Link
    from ferrule.app.results.content import WithContent as WithContent
    from ferrule.app.rounds.manual import InputRequired as InputRequired
    from ferrule.app.rounds.sealing import StateKey as StateKey
    from ferrule.app.server import MCPServer as MCPServer
    from ferrule.app.settings import Setting as Setting
    from ferrule.app.signatures.fields import Field as Field
    from ferrule.app.signatures.fields import Header as Header
    from ferrule.app.signatures.secret import Secret as Secret
    from ferrule.client.client import Client as Client
    from ferrule.client.gateway.gateway import Gateway as Gateway
    from ferrule.client.gateway.proxy import proxy as proxy
    from ferrule.client.groups.group import ClientGroup as ClientGroup
    from ferrule.client.sync import SyncClient as SyncClient
    from ferrule.extensions.cards.discovery import discover as discover
    from ferrule.kernel.server import Server as Server
    from ferrule.protocol.caching import CacheHint as CacheHint
    from ferrule.protocol.errors import MCPError as MCPError
    from ferrule.transports.hosting.running import asgi as asgi
    from ferrule.transports.hosting.running import run as run
    from ferrule.transports.stdio.client import StdioServer as StdioServer

# Public name -> the module that defines it.
_MODULES: dict[str, str] = {
    "Audio": "ferrule.app.results.content",
    "CacheHint": "ferrule.protocol.caching",
    "Client": "ferrule.client.client",
    "ClientGroup": "ferrule.client.groups.group",
    "Context": "ferrule.app.execution.context",
    "Depends": "ferrule.app.execution.dependencies",
    "Embedded": "ferrule.app.results.content",
    "Field": "ferrule.app.signatures.fields",
    "File": "ferrule.app.results.content",
    "Gateway": "ferrule.client.gateway.gateway",
    "Handles": "ferrule.app.authorization.handles",
    "Header": "ferrule.app.signatures.fields",
    "Image": "ferrule.app.results.content",
    "InputRequired": "ferrule.app.rounds.manual",
    "Link": "ferrule.app.results.content",
    "MCPError": "ferrule.protocol.errors",
    "MCPServer": "ferrule.app.server",
    "Secret": "ferrule.app.signatures.secret",
    "PerPrincipal": "ferrule.app.authorization.handles",
    "Server": "ferrule.kernel.server",
    "Setting": "ferrule.app.settings",
    "StateKey": "ferrule.app.rounds.sealing",
    "StdioServer": "ferrule.transports.stdio.client",
    "SyncClient": "ferrule.client.sync",
    "ToolError": "ferrule.app.errors",
    "WithContent": "ferrule.app.results.content",
    "asgi": "ferrule.transports.hosting.running",
    "current_context": "ferrule.app.execution.context",
    "discover": "ferrule.extensions.cards.discovery",
    "proxy": "ferrule.client.gateway.proxy",
    "run": "ferrule.transports.hosting.running",
}

# Public modules that `import ferrule` makes reachable as attributes.
_SUBMODULES = ("bridges", "errors", "forms", "middleware", "questions", "types")

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
    "Gateway",
    "Handles",
    "Header",
    "Image",
    "InputRequired",
    "Link",
    "MCPError",
    "MCPServer",
    "PerPrincipal",
    "Secret",
    "Server",
    "Setting",
    "StateKey",
    "StdioServer",
    "SyncClient",
    "ToolError",
    "WithContent",
    "__version__",
    "asgi",
    "bridges",
    "current_context",
    "discover",
    "errors",
    "forms",
    "middleware",
    "proxy",
    "questions",
    "run",
    "types",
]


class _MovedModules:
    """Asked by Python for modules that nothing else finds: see `ferrule._moved`."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> Any:
        """Return how to import the old name of a module of ours."""
        if not name.startswith("ferrule."):
            return None
        from ferrule._moved import spec_of

        found = spec_of(name)
        if found is None:
            from ferrule._elsewhere import explanation_of_module

            text = explanation_of_module(name)
            if text is not None:
                raise ModuleNotFoundError(text, name=name)
        return found


sys.meta_path.append(_MovedModules)


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name in _SUBMODULES:
        return import_module(f"ferrule.{name}")
    module = _MODULES.get(name)
    if module is None:
        from ferrule._elsewhere import IN_PACKAGE

        if name in IN_PACKAGE:
            # Not AttributeError: ``from ferrule import`` would replace its text.
            raise ImportError(f"ferrule has no {name!r}; its name here is {IN_PACKAGE[name]}", name="ferrule")
        raise AttributeError(f"module 'ferrule' has no attribute {name!r}")
    from ferrule._imports import without_collector

    with without_collector():
        value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *__all__})
