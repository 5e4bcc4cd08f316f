"""Django and Django REST framework: the project is the server, under WSGI and ASGI, in both eras.

``INSTALLED_APPS += ["ferrule.django"]``, ``path("mcp/", mcp.urls)`` in the URLconf, and a module ``mcp`` in each
application that has something to offer::

    from ferrule.django import mcp

    mcp.expose(InvoiceViewSet, actions=["list", "retrieve"])

    @mcp.tool
    def unpaid_total(ctx: Context) -> Decimal: ...

`mcp` is made from the setting ``MCP`` when it is first used; `DjangoServer` makes further ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.django.access.principals import DjangoPrincipal as DjangoPrincipal
    from ferrule.django.server import DjangoServer as DjangoServer

    mcp: DjangoServer

__all__ = ["DjangoPrincipal", "DjangoServer", "mcp"]


def __getattr__(name: str) -> Any:
    # Importing a server imports Django's settings, which are not there yet when Django imports its applications.
    if name == "mcp":
        from ferrule.django.server import default_server

        return default_server()
    if name == "DjangoServer":
        from ferrule.django.server import DjangoServer

        return DjangoServer
    if name == "DjangoPrincipal":
        from ferrule.django.access.principals import DjangoPrincipal

        return DjangoPrincipal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
