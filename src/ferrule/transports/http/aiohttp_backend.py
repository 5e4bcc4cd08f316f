"""The default HTTP client: aiohttp behind `HttpClient`, imported when the first URL is opened.

Chosen by measurement (2026-11-28, Python 3.11, CPU per keep-alive POST over that of a raw socket loop, with 1 and 16
callers): aiohttp 6.1 and 5.5, aiosonic 8.0 and 6.6, curl_cffi 14 and 15, httpx2 31 and 38, niquests 35 and 42.
pyreqwest (5.5 and 3.9) delays the start of an event stream, dead-locks when a response is closed while another task
reads it, and keeps the connection of a cancelled request open, so that a cancelled tool would continue. An own client
took 50 µs and was rejected, because a maintained HTTP library is worth more. aiohttp needs asyncio; on trio pass an
httpx client.

The session sends cookies only to the origin that set them, follows no redirects, reads no netrc, and repeats no request
except an idempotent one on a connection that the server had closed before it was sent.
"""

from __future__ import annotations

import ipaddress
import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from anyio import to_thread

from ferrule._version import __version__
from ferrule.transports.http.adapters import AiohttpAdapter
from ferrule.transports.http.backend import (
    HttpClientOptions,
    HttpClientRequest,
    HttpConnectFailed,
    HttpResponse,
    TlsOptions,
    without_secrets,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AiohttpClient", "proxy_for"]

_MAX_FIELD_BYTES = 64 * 1024
_MAX_WAYS = 64  # a server can redirect to any URL of its origin

_Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"

_is_loaded = False


def _load() -> None:
    """Import aiohttp, in a thread: on the event loop it would delay every other task by 0.2 to 0.5 s."""
    global _is_loaded
    import_module("aiohttp")
    _is_loaded = True


class AiohttpClient:
    """An `HttpClient` that uses aiohttp; see the module.

    Args:
        options: TLS, proxy and limits; ``None`` for the defaults.

    Raises (``open``):
        HttpConnectFailed, HttpConnectionLost: as `HttpClient`.
    """

    def __init__(self, options: HttpClientOptions | None = None) -> None:
        self._options = options or HttpClientOptions()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._in_use: set[Any] = set()
        self._ways: dict[str, tuple[Any, AiohttpAdapter]] = {}

    async def open(self, request: HttpClientRequest) -> HttpResponse:
        """Send a request and return the head of its response; see `HttpClient.open`."""
        if not _is_loaded:
            await to_thread.run_sync(_load, abandon_on_cancel=True)
        if self._closed:
            raise HttpConnectFailed(request.url.partition("?")[0], "this client is closed")
        url, adapter = self._ways.get(request.url) or self._find_way(request.url)
        return await adapter.open(request, url)

    def _find_way(self, url: str) -> tuple[Any, AiohttpAdapter]:
        """Return a parsed URL and what sends to it; found once for each URL, the environment's proxy included."""
        from yarl import URL

        session = self._session or self._make_session()
        proxy = self._proxy_of(url)
        if proxy is not None and not proxy.lower().startswith(("http://", "https://")):
            why = f"{without_secrets(proxy)} is not an HTTP proxy; for another kind pass a client that knows it (http=)"
            raise HttpConnectFailed(without_secrets(url), why)
        if len(self._ways) >= _MAX_WAYS:
            self._ways.clear()
        try:
            parsed: Any = URL(url)
        except ValueError:
            parsed = url  # aiohttp raises the error that names the fault
        found = self._ways[url] = (parsed, AiohttpAdapter(session, proxy=proxy, in_use=self._in_use))
        return found

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        session, self._session = self._session, None
        for response in list(self._in_use):  # closing the session alone would leave their readers waiting
            response.close()
        self._in_use.clear()
        self._ways.clear()
        if session is not None:
            await session.close()

    def _make_session(self) -> aiohttp.ClientSession:
        import aiohttp

        from ferrule.transports.http.aiohttp_connector import SmallReadConnector
        from ferrule.transports.http.cookies import OriginCookies

        options = self._options
        tls = options.tls
        context = tls.make_context() if isinstance(tls, TlsOptions) else tls
        connector = SmallReadConnector(
            limit=0,  # streams stay open for hours, so that a limit would block other calls
            keepalive_timeout=options.keep_alive_s,
            ssl=True if context is None else context,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=OriginCookies() if options.cookies else aiohttp.DummyCookieJar(),
            headers={"User-Agent": options.user_agent or f"ferrule/{__version__}"},
            timeout=aiohttp.ClientTimeout(total=None, connect=options.connect_timeout_s),
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
        )
        return self._session

    def _proxy_of(self, url: str) -> str | None:
        proxy = self._options.proxy
        if proxy != "env":
            return _as_url(proxy)
        parts = urlsplit(url)
        return proxy_for(parts.scheme == "https", parts.hostname or "", parts.port)


def proxy_for(is_tls: bool, host: str, port: int | None = None) -> str | None:
    """Return the proxy that the environment names for a host; ``None`` to connect directly.

    The rules are those of curl: lower-case names first, and an empty variable means "no proxy". aiohttp's own reading
    of the environment is not used, because it also takes passwords from netrc.

    Args:
        is_tls: whether the URL is ``https``.
        host: the host of the URL, without brackets.
        port: the port of the URL; ``None`` for the scheme's own.
    """
    environ = os.environ
    names = ("https_proxy", "HTTPS_PROXY") if is_tls else ("http_proxy",)  # HTTP_PROXY: a CGI client can set it
    proxy = next((environ[name] for name in (*names, "all_proxy", "ALL_PROXY") if name in environ), "").strip()
    no_proxy = next((environ[name] for name in ("no_proxy", "NO_PROXY") if name in environ), "")
    if not proxy or _bypasses_proxy(host, port or (443 if is_tls else 80), no_proxy):
        return None
    return _as_url(proxy)


def _as_url(proxy: str | None) -> str | None:
    if not proxy:
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bypasses_proxy(host: str, port: int, no_proxy: str) -> bool:
    """Return whether a list excludes a host: names with their subdomains, addresses or networks, optionally with ports.

    Loopback hosts are always excluded.
    """
    host = host.lower().rstrip(".")
    address = _address(host)
    if host == "localhost" or host.endswith(".localhost") or (address is not None and address.is_loopback):
        return True
    return any(_excludes(entry, host, port, address) for entry in no_proxy.lower().replace(",", " ").split())


def _excludes(entry: str, host: str, port: int, address: _Address | None) -> bool:
    if entry == "*":
        return True
    name, wanted = entry, ""
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        wanted = rest.removeprefix(":")
    elif entry.count(":") == 1:
        name, _, wanted = entry.partition(":")
    if wanted and wanted != str(port):
        return False
    if address is not None:
        try:
            return address in ipaddress.ip_network(name, strict=False)
        except ValueError:
            return False
    name = name.removeprefix("*").removeprefix(".").rstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))


def _address(host: str) -> _Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
