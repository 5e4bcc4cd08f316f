"""Existing APIs as MCP servers: `expose` an application of this process, `from_openapi` an API with a description.

The names of this package are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.expose.api_client import APIClient as APIClient
    from ferrule.expose.applications import UnknownFramework as UnknownFramework
    from ferrule.expose.applications import expose as expose
    from ferrule.expose.callers.asgi import ASGICaller as ASGICaller
    from ferrule.expose.callers.http import HTTPCaller as HTTPCaller
    from ferrule.expose.callers.wsgi import WSGICaller as WSGICaller
    from ferrule.expose.choice import NothingMatches as NothingMatches
    from ferrule.expose.description.reader import NotADescription as NotADescription
    from ferrule.expose.openapi import from_openapi as from_openapi
    from ferrule.expose.openapi import read_openapi as read_openapi
    from ferrule.expose.operations import Operation as Operation

_MODULES: dict[str, str] = {
    "APIClient": "ferrule.expose.api_client",
    "ASGICaller": "ferrule.expose.callers.asgi",
    "HTTPCaller": "ferrule.expose.callers.http",
    "NotADescription": "ferrule.expose.description.reader",
    "NothingMatches": "ferrule.expose.choice",
    "Operation": "ferrule.expose.operations",
    "UnknownFramework": "ferrule.expose.applications",
    "WSGICaller": "ferrule.expose.callers.wsgi",
    "expose": "ferrule.expose.applications",
    "from_openapi": "ferrule.expose.openapi",
    "read_openapi": "ferrule.expose.openapi",
}
"""Public name and the module that defines it."""

__all__ = [
    "APIClient",
    "ASGICaller",
    "HTTPCaller",
    "NotADescription",
    "NothingMatches",
    "Operation",
    "UnknownFramework",
    "WSGICaller",
    "expose",
    "from_openapi",
    "read_openapi",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ferrule.expose' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
