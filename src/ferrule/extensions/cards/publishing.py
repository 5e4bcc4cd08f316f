"""`CardDocuments`: the card and the catalog of one server, as its HTTP endpoint serves them.

All that the server itself announces is read from it with each request, so that a card cannot say anything else than
``server/discover``: name, version, title, description, website, icons and protocol versions. The address is the one
given, that of ``auth=``, or the one of the request, where its host is known to be the server's own.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, runtime_checkable
from urllib.parse import urlsplit

from ferrule.extensions.cards.documents import (
    CARD_SCHEMA,
    CARD_SUFFIX,
    CARD_TYPE,
    CATALOG_PATH,
    CATALOG_TYPE,
    NAME,
    card_url,
    first_text,
    last_part,
    shortened,
)
from ferrule.kernel.server import Server
from ferrule.transports.asgi.public_documents import DocumentAnswer, DocumentRequest
from ferrule.transports.asgi.security import is_loopback_name
from ferrule.wire.codec import encode
from ferrule.wire.types.cards import AICatalog, CardHeader, CardRemote, CardRepository, CatalogEntry, ServerCard

__all__ = ["CardDocuments", "name_of", "read_repository"]

log = logging.getLogger("ferrule.http")

_OLD_CARD_PATHS: Final = ("/.well-known/mcp/server-card.json", "/.well-known/mcp/server-card", "/.well-known/mcp.json")
_OLD_CATALOG_PATH: Final = "/.well-known/mcp/catalog.json"
_METHODS: Final = "GET, HEAD, OPTIONS"
# Of the extension, "CORS Requirements": any page may read what is public.
_CORS: Final = [
    ("access-control-allow-origin", "*"),
    ("access-control-allow-methods", "GET"),
    ("access-control-allow-headers", "Content-Type, If-None-Match"),
    ("access-control-expose-headers", "ETag"),
]
_SOURCES: Final = {"github.com": "github", "gitlab.com": "gitlab", "bitbucket.org": "bitbucket"}


@runtime_checkable
class _KnowsItsUrl(Protocol):
    """A `ServerProtection` that knows the public URL of the endpoint."""

    @property
    def resource(self) -> str | None: ...


class CardDocuments:
    """The card and the catalog of a server.

    Args:
        server: the server that the card describes.
        name: the card's name, ``"com.example/weather"``; ``None``: the server's name, behind the host of ``url`` in
            reverse if it has no slash.
        url: the public URL of the endpoint; ``None``: see the module.
        repository: the source of the server, or its URL.
        headers: headers that clients have to send, such as one with an API key.
        meta: ``_meta`` of the card.
        entries: further entries of the catalog, of other servers of the site.
        catalog: whether the catalog is served, too.

    Attributes:
        given_name: the ``name`` argument.
        repository: the source of the server; ``None`` if it was not given.

    Raises:
        ValueError: ``name`` is no name of a card, or ends in another name than the server's; ``url`` is not an
            http(s) URL without query and fragment.
    """

    def __init__(
        self,
        server: Server[Any],
        *,
        name: str | None = None,
        url: str | None = None,
        repository: CardRepository | str | None = None,
        headers: Iterable[CardHeader] = (),
        meta: Mapping[str, Any] | None = None,
        entries: Iterable[CatalogEntry] = (),
        catalog: bool = True,
    ) -> None:
        if name is not None:
            _check_name(name, server.server_info.name)
        if url is not None:
            _check_url(url)
        self._server = server
        self.given_name = name
        self._url = url
        self.repository = read_repository(repository) if isinstance(repository, str) else repository
        self._headers = list(headers)
        self._meta = None if meta is None else dict(meta)
        self._entries = list(entries)
        self._has_catalog = catalog
        self._has_logged = False

    # -- the documents ----------------------------------------------------------------------------------------------

    def card(self, url: str, versions: Sequence[str] = ()) -> ServerCard:
        """Return the card of the server at a URL.

        Args:
            url: the URL of the endpoint, as clients use it.
            versions: the protocol versions that are served there; none are named if it is empty.
        """
        info = self._server.server_info
        return ServerCard(
            schema=CARD_SCHEMA,
            name=self.given_name or name_of(info.name, url),
            version=info.version,
            description=first_text(info.description, info.title, info.name),
            title=shortened(info.title or "") or None,
            website_url=info.website_url,
            repository=self.repository,
            icons=info.icons or None,
            remotes=[
                CardRemote(
                    type="streamable-http",
                    url=url,
                    headers=self._headers or None,
                    supported_protocol_versions=list(versions) or None,
                )
            ],
            meta=self._meta,
        )

    def catalog(self, url: str) -> AICatalog:
        """Return the catalog with the card of the server at a URL, and the further entries."""
        namespace, _, name = (self.given_name or name_of(self._server.server_info.name, url)).partition("/")
        publisher = ".".join(reversed(namespace.split(".")))
        identifier = f"urn:air:{publisher}:mcp:{name}"
        own = CatalogEntry(identifier=identifier, type=CARD_TYPE, url=card_url(url))
        return AICatalog(spec_version="1.0", entries=[own, *self._entries])

    # -- over HTTP --------------------------------------------------------------------------------------------------

    def paths(self, route: str) -> list[str]:
        """Return the paths of card, catalog and redirects; see `PublicDocuments`."""
        card = [f"{route}{CARD_SUFFIX}", *_OLD_CARD_PATHS]
        return [*card, CATALOG_PATH, _OLD_CATALOG_PATH] if self._has_catalog else card

    def answer(self, request: DocumentRequest) -> DocumentAnswer:
        """Return the response to a request; see `PublicDocuments`."""
        if request.method == "OPTIONS":
            return 204, b"", [*_CORS, ("access-control-max-age", "86400")]
        if request.method not in ("GET", "HEAD"):
            return 405, b"", [("allow", _METHODS), *_CORS]
        url = self._public_url(request)
        if url is None:
            return self._without_url()
        # What was derived from a loopback address is another server's tomorrow.
        is_local = is_loopback_name(urlsplit(url).hostname or "")
        kept = ("cache-control", "no-cache" if is_local else "public, max-age=3600")
        if request.path in (*_OLD_CARD_PATHS, _OLD_CATALOG_PATH):
            # Relative to the old place: a host may serve both below a prefix that is not known here.
            is_card = request.path != _OLD_CATALOG_PATH
            place = card_url(url) if is_card else "../ai-catalog.json"
            return 308, b"", [("location", place), kept, *_CORS]
        if request.path == CATALOG_PATH:
            body, kind = encode(self.catalog(url)), CATALOG_TYPE
        else:
            body, kind = encode(self.card(url, request.versions)), CARD_TYPE
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = [("etag", tag), kept, *_CORS]
        if _is_current(request.headers.get("if-none-match", ""), tag):
            return 304, b"", headers
        return 200, body, [("content-type", kind), *headers]

    @property
    def fixed_url(self) -> str | None:
        """The URL of the endpoint that the author gave, here or with ``auth=``; ``None`` if none was given."""
        protection: object = self._server.protection
        if self._url is None and isinstance(protection, _KnowsItsUrl):
            return protection.resource
        return self._url

    def _public_url(self, request: DocumentRequest) -> str | None:
        if self.fixed_url is not None or request.origin is None:
            return self.fixed_url
        return f"{request.origin}{request.endpoint_path}"

    def _without_url(self) -> DocumentAnswer:
        if not self._has_logged:
            self._has_logged = True
            log.warning(
                "the server card is not served, because the URL of this server is unknown: app.card(url='https://…')"
            )
        headers = [("content-type", "application/json"), ("cache-control", "no-store"), *_CORS]
        return 503, encode({"error": "the server does not know its own URL"}), headers


def name_of(name: str, url: str) -> str:
    """Return the name of a server's card: its own if it has that form, else behind the reversed host of a URL."""
    if NAME.fullmatch(name):
        return name
    host = (urlsplit(url).hostname or "").lower()
    is_domain = NAME.fullmatch(f"{host}/x") is not None and not host.replace(".", "").isdigit()
    namespace = ".".join(reversed(host.split("."))) if is_domain and not is_loopback_name(host) else "localhost"
    return f"{namespace}/{last_part(name)}"


def _check_name(name: str, server_name: str) -> None:
    if not NAME.fullmatch(name) or not 3 <= len(name) <= 200:
        raise ValueError(
            f"{name!r} is not a card name: a domain in reverse-DNS form, a slash, a name (com.example/weather)"
        )
    if last_part(name) != last_part(server_name):
        raise ValueError(
            f"The card's name {name!r} ends in another name than the server's, {server_name!r}: a card must say what "
            f"the server says; write {name.partition('/')[0]}/{last_part(server_name)}"
        )


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError("url is the http(s) URL of the MCP endpoint, without credentials, query and fragment")


def read_repository(url: str) -> CardRepository:
    """Return the repository at a URL, with the hosting service that its host names.

    Raises:
        ValueError: the URL has no host.
    """
    host = urlsplit(url).hostname
    if not host:
        raise ValueError(f"{url!r} is not the URL of a repository")
    return CardRepository(url=url, source=_SOURCES.get(host, host))


def _is_current(condition: str, tag: str) -> bool:
    """Return whether ``If-None-Match`` names an entity tag (RFC 9110, 13.1.2)."""
    return condition.strip() == "*" or any(each.strip().removeprefix("W/") == tag for each in condition.split(","))
