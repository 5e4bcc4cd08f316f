"""Clients of other HTTP libraries behind `HttpClient`: httpx and httpx2 (asyncio and trio), aiohttp.

A client that a user passes is never closed here, and its own settings (proxies, TLS, limits, event hooks) apply. So do
its time-outs: a read time-out that is shorter than the pauses of a tool ends the call.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, cast

from ferrule.transports.http.backend import (
    HttpClient,
    HttpClientRequest,
    HttpConnectFailed,
    HttpConnectionLost,
    HttpResponse,
    without_secrets,
)

__all__ = ["AiohttpAdapter", "AiohttpResponse", "adapt_http_client"]


def adapt_http_client(client: Any) -> HttpClient:
    """Return an `HttpClient` for the object that a user passed as ``http=``.

    Raises:
        TypeError: the object is not a client of a known library, and lacks the methods of `HttpClient`.
    """
    module = type(client).__module__.partition(".")[0]
    # Recognized by their methods: these libraries are not imported here, and subclasses must be recognized too.
    if module in ("httpx", "httpx2") or (hasattr(client, "build_request") and hasattr(client, "send")):
        return _Httpx(client)
    if module == "aiohttp":
        import aiohttp

        return AiohttpAdapter(client, timeout=aiohttp.ClientTimeout(total=None))  # the default ends streams at 300 s
    # Any object with the methods of `HttpClient`, such as one of a test.
    if callable(getattr(client, "open", None)) and callable(getattr(client, "aclose", None)):
        return cast("HttpClient", client)
    raise TypeError(
        f"http= takes an httpx or httpx2 AsyncClient, an aiohttp ClientSession or an object with the methods of "
        f"ferrule.transports.http.backend.HttpClient, not {type(client).__name__}"
    )


def _public(url: str) -> str:
    return without_secrets(url)


class _Httpx:
    """An httpx.AsyncClient, or an object with the same methods."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def open(self, request: HttpClientRequest) -> HttpResponse:
        client: Any = self._client
        try:
            made = client.build_request(
                request.method, request.url, headers=dict(request.headers), content=request.body or None
            )
            response = await client.send(made, stream=True, follow_redirects=False)
        except Exception as error:
            raise _translated(error, request.url, is_silent=True) from error
        return _HttpxResponse(response, request.url)

    async def aclose(self) -> None:
        """Do nothing: the client belongs to its owner."""


class _HttpxResponse:
    def __init__(self, response: Any, url: str) -> None:
        self._response = response
        self._url = url
        self._pieces = response.aiter_bytes()

    @property
    def status(self) -> int:
        return cast("int", self._response.status_code)

    @property
    def headers(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self._response.headers.items()}

    async def receive(self) -> bytes:
        try:
            while True:
                piece = await anext(self._pieces, None)
                if piece is None:
                    return b""
                if piece:
                    return cast("bytes", piece)
        except Exception as error:
            raise _translated(error, self._url, is_silent=False) from error

    async def aclose(self) -> None:
        await self._response.aclose()


class AiohttpAdapter:
    """An `HttpClient` that uses an ``aiohttp.ClientSession``.

    Args:
        session: the session, which is not closed here.
        proxy: the proxy of this request; ``None`` for that of the session.
        timeout: the timeout of this request; ``None`` for that of the session.
        in_use: a set for the responses that are not closed yet, so that the owner can close them with the session.
    """

    def __init__(
        self, session: Any, *, proxy: str | None = None, timeout: Any = None, in_use: set[Any] | None = None
    ) -> None:
        self._session = session
        self._in_use: set[Any] = set() if in_use is None else in_use
        self._proxy = proxy
        self._options: dict[str, Any] = {"proxy": proxy}
        if timeout is not None:
            self._options["timeout"] = timeout

    async def open(self, request: HttpClientRequest, url: Any = None) -> HttpResponse:
        """Send a request; see `HttpClient.open`. ``url``: the URL of the request, parsed; ``None`` to parse it here."""
        try:
            response = await self._session.request(
                request.method,
                url or request.url,
                headers=request.headers,
                data=request.body or None,
                allow_redirects=False,
                **self._options,
            )
        except Exception as error:
            raise _translated(error, request.url, is_silent=True, proxy=self._proxy) from error
        return AiohttpResponse(response, request.url, self._in_use, self._proxy)

    async def aclose(self) -> None:
        """Do nothing: the session belongs to its owner."""


class AiohttpResponse:
    """An `HttpResponse` of aiohttp."""

    __slots__ = ("_in_use", "_proxy", "_response", "_url", "status")

    def __init__(self, response: Any, url: str, in_use: set[Any], proxy: str | None) -> None:
        self.status: int = response.status
        self._response = response
        self._url = url
        self._proxy = proxy
        self._in_use = in_use
        in_use.add(response)

    @property
    def content_type(self) -> str:
        """The header ``content-type``; empty without it."""
        return cast("str", self._response.headers.get("content-type", ""))

    @property
    def has_ended(self) -> bool:
        """Whether the whole body has been returned."""
        return cast("bool", self._response.content.at_eof())

    @property
    def proxy(self) -> str | None:
        """URL of the proxy, without credentials; ``None`` for none."""
        return None if self._proxy is None else without_secrets(self._proxy)

    @property
    def headers(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, value in self._response.headers.items():
            key = name.lower()
            found[key] = f"{found[key]}, {value}" if key in found else value
        return found

    async def receive(self) -> bytes:
        try:
            return cast("bytes", await self._response.content.readany())
        except Exception as error:
            raise _translated(error, self._url, is_silent=False, proxy=self._proxy) from error

    async def aclose(self) -> None:
        self._in_use.discard(self._response)
        # A response that has not ended must close its connection, which is how a modern request is cancelled.
        self._response.close() if not self._response.content.at_eof() else self._response.release()


# Error texts may contain data of the peer.
_MAX_REASON_CHARS: Final = 300
_NOT_CONNECTED: Final = {
    "ClientConnectorError",
    "ClientHttpProxyError",
    "ConnectError",
    "ConnectTimeout",
    "InvalidURL",
    "ProxyError",
    "UnsupportedProtocol",
}


def _reason(error: Exception) -> str:
    """Return the cause of an error as text: that of the system if known, because aiohttp's repeats the address."""
    cause = getattr(error, "os_error", None)  # aiohttp's errors of connecting have it
    if isinstance(cause, ConnectionError) and cause.errno:
        return os.strerror(cause.errno)
    if isinstance(cause, OSError) and type(error).__name__ == "ClientConnectorDNSError":
        return cause.strerror or str(cause)
    said = getattr(error, "message", None)  # aiohttp's text around it has status and whole URL, query included
    # aiohttp's error of a malformed URL has nothing but the URL.
    if hasattr(error, "url") and not isinstance(said, str):
        said = "the URL is invalid"
    return " ".join((said if isinstance(said, str) else str(error)).split())[:_MAX_REASON_CHARS]


def _translated(error: Exception, url: str, *, is_silent: bool, proxy: str | None = None) -> Exception:
    """Return Ferrule's error for an exception of one of these libraries.

    It is recognized by the names of its classes, because the libraries are not imported.
    """
    if isinstance(error, HttpConnectFailed | HttpConnectionLost):
        return error
    names = {cls.__name__ for cls in type(error).__mro__}
    why = _reason(error) or type(error).__name__
    if proxy is not None:
        if "ClientHttpProxyError" in names:
            # An attribute of aiohttp's class, which is known by its name only.
            why = f"the proxy refused it with HTTP {getattr(error, 'status', 0)}"
        why = f"{why} (through the proxy {without_secrets(proxy)})"
    if names & _NOT_CONNECTED:
        return HttpConnectFailed(_public(url), why)
    if names & {"TransportError", "ClientError", "StreamError", "TimeoutException", "OSError", "TimeoutError"}:
        return HttpConnectionLost(_public(url), why, was_silent=is_silent)
    return error
