"""The default HTTP client: aiohttp behind `HttpClient`, imported when the first URL is opened.

Chosen by measurement (2026-11-28, Python 3.11, CPU per keep-alive POST): aiohttp 122 µs, httpx2 387 µs. pyreqwest
(86 µs) withholds the start of an event stream, dead-locks when a response is closed while another task reads it, and
keeps the connection of a cancelled request open, so that a cancelled tool would run on. A client of our own was
written, measured at 50 µs, and thrown away: HTTP is not what this library is for. aiohttp is asyncio only; on trio
pass an httpx client.

The session keeps no cookies, follows no redirects, reads no netrc, and repeats no request by itself except an
idempotent one on a connection that the server had closed before it was sent.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ferrule.transports.http_adapters import AiohttpAdapter
from ferrule.transports.http_client import HttpConnectFailed, HttpOptions, HttpRequest, HttpResponse, TlsOptions

if TYPE_CHECKING:
    import aiohttp

__all__ = ["AiohttpClient", "proxy_for"]

_MAX_FIELD_BYTES = 64 * 1024


class AiohttpClient:
    """See the module.

    Args:
        options: TLS, proxy and limits.

    Raises (``open``):
        HttpConnectFailed, HttpConnectionLost: as `HttpClient`.
    """

    def __init__(self, options: HttpOptions | None = None) -> None:
        self._options = options or HttpOptions()
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._in_use: set[Any] = set()

    async def open(self, request: HttpRequest) -> HttpResponse:
        """Send a request and wait for the head of its answer."""
        if self._closed:
            raise HttpConnectFailed(request.url.partition("?")[0], "this client is closed")
        session = self._session or self._make_session()
        return await AiohttpAdapter(session, proxy=self._proxy_of(request.url), in_use=self._in_use).open(request)

    async def aclose(self) -> None:
        """Close every connection, also those in use."""
        self._closed = True
        session, self._session = self._session, None
        for response in list(self._in_use):  # the session would leave whoever reads one waiting
            response.close()
        self._in_use.clear()
        if session is not None:
            await session.close()

    def _make_session(self) -> aiohttp.ClientSession:
        import aiohttp

        options = self._options
        tls = options.tls
        context = tls.make_context() if isinstance(tls, TlsOptions) else tls
        connector = aiohttp.TCPConnector(
            limit=0,  # a stream stays open for hours: a pool's limit would starve the calls beside it
            keepalive_timeout=options.keep_alive_s,
            ssl=True if context is None else context,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=options.connect_timeout_s),
            skip_auto_headers=("User-Agent", "Accept-Encoding", "Accept", "Content-Type"),
            max_line_size=_MAX_FIELD_BYTES,
            max_field_size=_MAX_FIELD_BYTES,
        )
        return self._session

    def _proxy_of(self, url: str) -> str | None:
        proxy = self._options.proxy
        if proxy != "env":
            return proxy
        parts = urlsplit(url)
        return proxy_for(parts.scheme == "https", parts.hostname or "")


def proxy_for(is_tls: bool, host: str) -> str | None:
    """The proxy that the environment names for a host; ``None``: connect directly.

    aiohttp's own reading of the environment also takes passwords from netrc, which nobody asked for.
    """
    environ = os.environ
    names = ("https_proxy", "HTTPS_PROXY") if is_tls else ("http_proxy",)  # HTTP_PROXY: a CGI client can set it
    proxy = next((environ[name] for name in (*names, "all_proxy", "ALL_PROXY") if environ.get(name)), None)
    if proxy is None or _bypasses_proxy(host, environ.get("no_proxy") or environ.get("NO_PROXY") or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _bypasses_proxy(host: str, no_proxy: str) -> bool:
    if host == "localhost" or host.startswith("127.") or host == "::1":
        return True
    for entry in no_proxy.replace(" ", ",").split(","):
        name = entry.strip().lower().removeprefix("*").removeprefix(".").partition(":")[0]
        if entry.strip() == "*" or (name and (host == name or host.endswith(f".{name}"))):
            return True
    return False
