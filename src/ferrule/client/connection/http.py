"""The HTTP client of one `Client`, made when it is first needed, and the headers of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ferrule.client.addresses import checked_headers
from ferrule.client.targets import HttpTarget, Target

if TYPE_CHECKING:
    from ferrule.client.settings import HttpSettings
    from ferrule.transports.http.backend import HttpClient

__all__ = ["ClientHttp"]


class ClientHttp:
    """The HTTP client of one client, made when it is first needed, and the headers of its requests.

    Args:
        settings: the settings of the client.
        target: the server that the client connects to.

    Attributes:
        headers: the headers of every request, checked, without those of the target.
        user_agent: the ``User-Agent`` among the headers, for requests of authorization flows too; ``None`` without.

    Raises:
        TypeError, ValueError: a header cannot be sent; see `checked_headers`.
    """

    def __init__(self, settings: HttpSettings, target: Target) -> None:
        self._settings = settings
        self._client: HttpClient | None = None
        self.headers = checked_headers(settings.headers)
        own = {**target.headers, **self.headers} if isinstance(target, HttpTarget) else self.headers
        self.user_agent = _header(own, "user-agent")
        self.has_authorization = _header(own, "authorization") is not None

    def client(self) -> HttpClient:
        """Return the HTTP client."""
        if self._client is None:
            self._client = self._make()
        return self._client

    def _make(self) -> HttpClient:
        from ferrule.transports.http.adapters import adapt_http_client
        from ferrule.transports.http.backend import HttpClientOptions

        settings = self._settings
        if settings.http is not None:
            return adapt_http_client(settings.http)
        from ferrule.transports.http.aiohttp_backend import AiohttpClient

        return AiohttpClient(
            HttpClientOptions(
                tls=settings.tls, proxy=settings.proxy, cookies=settings.cookies, user_agent=self.user_agent
            )
        )

    async def aclose(self) -> None:
        """Close the HTTP client that was made here; the next request makes another one. The program's stays open."""
        client, self._client = self._client, None
        if client is not None and self._settings.http is None:
            await client.aclose()


def _header(headers: Mapping[str, str], wanted: str) -> str | None:
    return next((value for name, value in headers.items() if name.lower() == wanted), None)
