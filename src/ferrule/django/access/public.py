"""The public documents of a server, such as its card, as URL patterns of the project.

Some stand below the endpoint, the others at the root of the site, with ``path(".well-known/", mcp.well_known)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest
from django.urls import URLPattern
from django.urls.resolvers import RegexPattern

from ferrule.django.views import DjangoEndpoint
from ferrule.kernel.server import Server
from ferrule.transports.asgi.public_documents import PublicDocuments

__all__ = ["PublicPatterns"]

_ROOT: Final = "/.well-known/"


class PublicPatterns:
    """The patterns of one server; there are none before it publishes something.

    Args:
        server: the server.
        endpoint: its endpoint.
        endpoint_path: returns the path of the endpoint in the URLconf of a request.

    Attributes:
        below: the patterns below the endpoint.
        at_root: the patterns below ``.well-known/``.
    """

    def __init__(
        self, server: Server[Any], endpoint: DjangoEndpoint, endpoint_path: Callable[[HttpRequest], str | None]
    ) -> None:
        documents = server.attachments.get(PublicDocuments)  # type: ignore[type-abstract]
        paths = () if documents is None else documents.paths("")
        self.below: list[URLPattern] = []
        self.at_root: list[URLPattern] = []
        for path in paths:
            name = path.rpartition("/")[2]
            if path.startswith(_ROOT):
                route = RegexPattern(f"^{re.escape(path.removeprefix(_ROOT))}$", name, is_endpoint=True)
                self.at_root.append(endpoint.pattern(route, name, path, endpoint_path))
            else:
                # The route of the endpoint may end with a slash or not.
                route = RegexPattern(f"^(?:/)?{re.escape(path[1:])}$", name, is_endpoint=True)
                self.below.append(endpoint.pattern(route, name, path, _above(path, endpoint_path)))


def _above(path: str, endpoint_path: Callable[[HttpRequest], str | None]) -> Callable[[HttpRequest], str]:
    """Return a function from a request for a document below the endpoint to the path of the endpoint."""

    def found(request: HttpRequest) -> str:
        above = request.path.removesuffix(path).rstrip("/")
        known = endpoint_path(request)  # with its final slash, if it has one
        return known if known is not None and known.rstrip("/") == above else f"{above}/"

    return found
