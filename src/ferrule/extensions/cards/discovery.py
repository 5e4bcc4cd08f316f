"""`discover`: the MCP servers that a site publishes, read from its catalog and their cards.

The site is not trusted yet. Each URL, also of a redirect and of the server itself, is checked like those of an OAuth
flow (`ferrule.auth.urls`): a public site cannot send the client to a private network or to its own machine. A catalog
or card is at most 256 KiB, at most `MAX_SERVERS` entries are read, and all of it takes at most ``timeout_s`` seconds.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import anyio

from ferrule.auth.http import Fetch, get
from ferrule.auth.server.jwks import drive
from ferrule.auth.urls import HostClass, UrlPolicy, class_of_host, join_url, origin_of, split_url
from ferrule.extensions.cards.cache import DocumentCache
from ferrule.extensions.cards.documents import CARD_TYPE, CATALOG_PATH, CATALOG_TYPE, card_url
from ferrule.protocol.errors import ConnectionClosed, FerruleError
from ferrule.transports.http.backend import HttpClient
from ferrule.wire.codec import convert
from ferrule.wire.faults import ConvertError
from ferrule.wire.json_types import is_list, is_object
from ferrule.wire.types.cards import CardRemote, ServerCard

__all__ = ["MAX_SERVERS", "CardDiscoveryFailed", "DiscoveredServer", "discover", "read_card"]

MAX_SERVERS: Final = 50
"""Most entries of a catalog that are read."""

_AT_ONCE: Final = 4
_MAX_IDENTIFIER: Final = 500
_VARIABLE: Final = re.compile(r"\{([a-zA-Z_][a-zA-Z0-9_]*)\}")


class CardDiscoveryFailed(FerruleError):
    """A site publishes no catalog, or a server no card, that can be read."""


@dataclass(frozen=True, slots=True)
class DiscoveredServer:
    """One server of a catalog.

    What it says is not verified: a client decides by what the live server says.

    Attributes:
        identifier: its identifier in the catalog.
        card: its card; ``None`` if it cannot be read.
        card_url: where the card is; ``None`` for one inside the catalog.
        problem: why there is no card, as a sentence; ``None`` with a card.
    """

    identifier: str
    card: ServerCard | None
    card_url: str | None = None
    problem: str | None = None
    _policy: UrlPolicy = field(default_factory=UrlPolicy, repr=False)
    _host_class: HostClass = field(default=HostClass.PUBLIC, repr=False)

    def address(self, **variables: str) -> str:
        """Return the URL for `Client`: of the first address of type Streamable HTTP, else of the first one.

        Args:
            variables: values for the ``{variables}`` of the address; a default of the card stands for a missing one.

        Raises:
            CardDiscoveryFailed: there is no address, a variable has no value, or its value is none of the choices.
            UnsafeUrl: the address may not be used by a client of this site (see `discover`).
        """
        remotes = [] if self.card is None else self.card.remotes or []
        if not remotes:
            raise CardDiscoveryFailed(self.problem or f"The card of {self.identifier} has no address")
        remote = next((each for each in remotes if each.type == "streamable-http"), remotes[0])
        url = _filled(remote, variables)
        self._policy.check(url, self._host_class)
        return url


async def discover(
    site: str,
    *,
    policy: UrlPolicy | None = None,
    http: HttpClient | None = None,
    cache: DocumentCache | None = None,
    timeout_s: float = 30.0,
) -> list[DiscoveredServer]:
    """Return the MCP servers that a site publishes in ``/.well-known/ai-catalog.json``.

    Example: ``[server] = await discover("example.com")``, then ``Client(server.address())``.

    An entry whose card cannot be read has a ``problem`` instead; it does not hide the others.

    Args:
        site: a domain (``"example.com"``, read over https), or any URL of the site.
        policy: limits of the URLs that the site may name; ``None`` for the defaults.
        http: sends the requests; ``None`` for a client of its own.
        cache: documents of earlier calls, for a program that discovers again; ``None`` reads all anew.
        timeout_s: seconds for all requests together; a catalog that comes later is a `ConnectionClosed`, a card a
            problem of its entry.

    Raises:
        CardDiscoveryFailed: the site has no catalog, or something else in its place.
        UnsafeUrl: the site is plain http and not on loopback, or its catalog redirects to a forbidden address.
        ConnectionClosed: the site does not answer, or answers too much.
    """
    site = _url_of(site)
    async with _reading(site, policy, http, cache) as reader:
        deadline = anyio.current_time() + timeout_s
        url = f"{origin_of(site)}{CATALOG_PATH}"
        try:
            with anyio.fail_after(timeout_s):
                document = await reader.read(url, CATALOG_TYPE)
        except TimeoutError:
            raise ConnectionClosed(f"{url} did not answer within {timeout_s:g} s") from None
        if document is None:
            raise CardDiscoveryFailed(f"{url} is no catalog: {origin_of(site)} publishes no servers there")
        return await _read_entries(url, document, reader, deadline)


async def read_card(
    url: str,
    *,
    policy: UrlPolicy | None = None,
    http: HttpClient | None = None,
    cache: DocumentCache | None = None,
) -> DiscoveredServer | None:
    """Return the card of the server at a URL, from ``<url>/server-card``; ``None`` if there is none.

    Args:
        url: the URL of the MCP endpoint.
        policy, http, cache: see `discover`.

    Raises:
        CardDiscoveryFailed: there is a document that is no card.
        UnsafeUrl: the URL is plain http and not on loopback, or redirects to a forbidden address.
        ConnectionClosed: the server does not answer, or answers too much.
    """
    async with _reading(url, policy, http, cache) as reader:
        where = card_url(url)
        document = await reader.read(where, CARD_TYPE)
        if document is None:
            return None
        card = _card(document, where)
        return DiscoveredServer(card.name, card, where, None, reader.policy, reader.host_class)


class _Reader:
    """Reads the documents of one discovery."""

    def __init__(self, fetch: Fetch, policy: UrlPolicy, host_class: HostClass, cache: DocumentCache | None) -> None:
        self.policy = policy
        self.host_class = host_class
        self._fetch = fetch
        self._cache = cache

    async def read(self, url: str, media_type: str) -> dict[str, Any] | None:
        """Return the JSON object at a URL; ``None`` if the status is not 200 or the body is no JSON object."""
        cache = self._cache
        if cache is not None and (fresh := cache.fresh(url)) is not None:
            return fresh
        sent = {"accept": f"{media_type}, application/json;q=0.9"}
        if cache is not None:
            sent |= cache.conditions(url)
        response = await drive(get(url, self.policy, self.host_class, sent), self._fetch)
        if cache is not None and response.status == 304:
            return cache.unchanged(url, response.headers)
        document = response.json() if response.status == 200 else None
        if cache is not None and document is not None:
            cache.store(url, document, response.headers)
        return document


@asynccontextmanager
async def _reading(
    url: str, policy: UrlPolicy | None, http: HttpClient | None, cache: DocumentCache | None
) -> AsyncGenerator[_Reader]:
    """Enter with a reader of what the site at a URL names; an HTTP client that is made for it is closed at the end."""
    from ferrule.client.connection.authorization import fetch_over

    policy = policy or UrlPolicy()
    host_class = policy.class_for(url)
    client = _made_client() if http is None else http
    try:
        yield _Reader(fetch_over(lambda: client), policy, host_class, cache)
    finally:
        if http is None:
            await client.aclose()


async def _read_entries(
    base: str, document: Mapping[str, Any], reader: _Reader, deadline: float
) -> list[DiscoveredServer]:
    entries = list(islice(_card_entries(document), MAX_SERVERS))
    found: list[DiscoveredServer | None] = [None] * len(entries)
    limiter = anyio.CapacityLimiter(_AT_ONCE)

    async def read(at: int, entry: Mapping[str, Any]) -> None:
        async with limiter:
            found[at] = await _read_entry(base, entry, reader)

    with anyio.CancelScope(deadline=deadline):
        async with anyio.create_task_group() as tasks:
            for at, entry in enumerate(entries):
                tasks.start_soon(read, at, entry)
    return [
        each or DiscoveredServer(_identifier(entry), None, problem="Its card did not come in time")
        for each, entry in zip(found, entries, strict=True)
    ]


async def _read_entry(base: str, entry: Mapping[str, Any], reader: _Reader) -> DiscoveredServer:
    identifier, url, data = _identifier(entry), entry.get("url"), entry.get("data")
    policy, host_class = reader.policy, reader.host_class
    try:
        if (url is None) == (data is None):
            raise CardDiscoveryFailed("Its entry has neither a URL nor a card, or both")
        if is_object(data):
            return DiscoveredServer(identifier, _card(data, "the catalog"), None, None, policy, host_class)
        if not isinstance(url, str):
            raise CardDiscoveryFailed("Its entry has something else than a URL or a card")
        url = join_url(base, url)
        document = await reader.read(url, CARD_TYPE)
        if document is None:
            raise CardDiscoveryFailed(f"There is no card at {url}")
        return DiscoveredServer(identifier, _card(document, url), url, None, policy, host_class)
    except (FerruleError, OSError) as error:
        where = url if isinstance(url, str) else None
        return DiscoveredServer(identifier, None, where, str(error), policy, host_class)


def _card_entries(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    entries = document.get("entries")
    if not is_list(entries) or not str(document.get("specVersion", "")).startswith("1."):
        raise CardDiscoveryFailed("The catalog is malformed, or of a version that is not known here")
    for entry in entries:
        # `mediaType` is the name of the member in older catalogs.
        if is_object(entry) and CARD_TYPE in (entry.get("type"), entry.get("mediaType")):
            yield entry


def _identifier(entry: Mapping[str, Any]) -> str:
    return str(entry.get("identifier", ""))[:_MAX_IDENTIFIER]


def _card(document: Mapping[str, Any], where: str) -> ServerCard:
    try:
        return convert(document, ServerCard)
    except ConvertError as error:
        raise CardDiscoveryFailed(f"The card at {where} is malformed: {error}") from None


def _filled(remote: CardRemote, variables: Mapping[str, str]) -> str:
    known = remote.variables or {}

    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        described = known.get(name)
        value = variables.get(name) or (None if described is None else described.value or described.default)
        if value is None:
            text = "" if described is None or described.description is None else f" ({described.description})"
            raise CardDiscoveryFailed(f"The address {remote.url} needs a value for {name}{text}: address({name}=…)")
        if described is not None and described.choices and value not in described.choices:
            raise CardDiscoveryFailed(f"{name} is one of {', '.join(described.choices)}")
        return value

    return _VARIABLE.sub(value_of, remote.url)


def _url_of(site: str) -> str:
    """Return the URL of a site, with the scheme that a bare domain has.

    Raises:
        UnsafeUrl: it is malformed.
    """
    if "://" in site:
        split_url(site)
        return site
    host = split_url(f"https://{site}").hostname or ""
    return f"{'http' if class_of_host(host) is HostClass.LOOPBACK else 'https'}://{site}"


def _made_client() -> HttpClient:
    from ferrule.transports.http.aiohttp_backend import AiohttpClient

    return AiohttpClient()
