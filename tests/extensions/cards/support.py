"""A web without sockets: answers by URL, and the addresses of its hosts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ferrule.transports.http.backend import HttpClientRequest

CARD = {
    "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
    "name": "com.example/weather",
    "version": "1.2.0",
    "description": "Weather of cities",
    "remotes": [{"type": "streamable-http", "url": "https://weather.example.com/mcp"}],
}
CARD_TYPE = "application/mcp-server-card+json"


def catalog(*entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return a catalog."""
    return {"specVersion": "1.0", "entries": list(entries)}


def entry(url: str | None = None, name: str = "weather", **more: Any) -> dict[str, Any]:
    """Return an entry of a catalog."""
    made = {"identifier": f"urn:air:example.com:mcp:{name}", "type": CARD_TYPE, **more}
    return made if url is None else {**made, "url": url}


class Response:
    """An HTTP response in one piece."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self._body = status, headers, body

    async def receive(self) -> bytes:
        body, self._body = self._body, b""
        return body

    async def aclose(self) -> None:
        pass


class Web:
    """An `HttpClient` whose answers are a table of URL to a JSON value, bytes, or ``(status, headers, body)``."""

    def __init__(self, pages: Mapping[str, Any]) -> None:
        self.pages = dict(pages)
        self.requests: list[HttpClientRequest] = []

    @property
    def urls(self) -> list[str]:
        return [request.url for request in self.requests]

    async def open(self, request: HttpClientRequest) -> Any:
        self.requests.append(request)
        page: Any = self.pages.get(request.url, (404, {}, b""))
        if isinstance(page, dict):
            page = json.dumps(page).encode()
        if isinstance(page, bytes):
            page = (200, {}, page)
        return Response(*page)

    async def aclose(self) -> None:
        pass
