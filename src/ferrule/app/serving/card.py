"""`publish_card`: gives a server its server card; loaded by the first `MCPServer.card`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any, TypedDict

from ferrule._options import check_options
from ferrule.kernel.server import Server
from ferrule.transports.asgi.public_documents import PublicDocuments
from ferrule.wire.types.cards import CardHeader, CardRepository, CatalogEntry

__all__ = ["CardOptions", "publish_card"]

# A name instead of an import: extensions are in a higher layer.
_CARDS = "ferrule.extensions.cards.publishing"


class CardOptions(TypedDict, total=False):
    """The options of `MCPServer.card`.

    Attributes:
        name: the name of the card, a domain in reverse-DNS form and the server's name: ``"com.example/weather"``;
            ``None`` takes the server's name, behind the reversed host of ``url`` if it has no slash.
        url: the URL of the endpoint as clients use it. ``None``: that of ``auth=``, or the URL of the request if its
            host is loopback or listed in ``allowed_hosts=``.
        repository: where the source is: a URL, or a `CardRepository`.
        headers: headers that clients have to send.
        meta: ``_meta`` of the card.
        entries: further entries of the catalog, for other servers of the site.
        catalog: whether to serve the catalog (default); ``False`` where the site has its own.
    """

    name: str | None
    url: str | None
    repository: CardRepository | str | None
    headers: Iterable[CardHeader]
    meta: Mapping[str, Any] | None
    entries: Iterable[CatalogEntry]
    catalog: bool


def publish_card(server: Server[Any], options: CardOptions) -> None:
    """Let the endpoints of a server that are made from now on serve its card.

    Raises:
        ValueError: ``name`` or ``url`` is malformed, or ``name`` ends in another name than the server's.
        TypeError: there is no such option.
    """
    check_options("card()", options, CardOptions)
    documents: Any = import_module(_CARDS)
    server.attachments[PublicDocuments] = documents.CardDocuments(server, **options)
