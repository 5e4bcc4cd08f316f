"""Sends requests to an API over HTTP, by aiohttp, which is imported at the first request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import anyio

from ferrule.expose.exchange import ApiRequest, ApiResponse, CallerUnavailable, Origin, checked_secret

__all__ = ["HTTPCaller"]


class HTTPCaller:
    """Calls an API at one base URL.

    Requests go to the origin of the base URL only. A redirect is returned as a response and not followed, since it
    could send the credentials to another host.

    Args:
        base_url: the URL with the prefix of all paths, for instance ``https://api.example.com/v2``.
        headers: headers of every request, for instance with credentials.
        timeout_s: maximum time of one request, in seconds; ``None``: only the tool's own limit applies.
        session: the user's own ``aiohttp.ClientSession``, which stays open; ``None`` makes one.

    Raises:
        ValueError: the base URL is not an absolute ``http`` or ``https`` URL, or has a query; a header has a control
            character, a line break at its end for instance.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = 60.0,
        session: Any = None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"base_url is an absolute URL without a query, not {base_url!r}")
        self.base_url = base_url.rstrip("/")
        self._headers = {name.lower(): checked_secret(name, value) for name, value in (headers or {}).items()}
        self._timeout_s = timeout_s
        self._session = session
        self._owns_session = session is None

    async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
        """See `Caller.call`."""
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=True, cookie_jar=aiohttp.DummyCookieJar())
        headers = list(request.headers)
        for more in (origin.headers, self._headers.items()):  # each name once: the first one said is the nearest
            given = {name for name, _ in headers}
            headers += [(name, value) for name, value in more if name not in given]
        if any(not value.isascii() for _, value in headers):
            # aiohttp writes UTF-8, and a server reads Latin-1, if anything at all (RFC 9110, section 5.5).
            raise CallerUnavailable("a header may have ASCII letters only, over HTTP")
        timeout = aiohttp.ClientTimeout(total=self._timeout_s)
        try:
            async with self._session.request(
                request.method,
                URL(self.base_url + request.target, encoded=True),
                headers=headers,
                data=request.body or None,
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                body, is_cut = await _read(response.content, max_bytes)
                if is_cut:
                    response.close()
                return ApiResponse(
                    status=response.status,
                    headers=tuple((name.lower(), value) for name, value in response.headers.items()),
                    body=body,
                    is_cut=is_cut,
                )
        except TimeoutError as error:
            raise CallerUnavailable(f"the API did not answer within {self._timeout_s:g} s") from error
        except aiohttp.ClientConnectorError as error:
            raise CallerUnavailable("the API cannot be reached") from error
        except (aiohttp.ClientError, OSError) as error:
            raise CallerUnavailable("the connection to the API broke") from error

    async def aclose(self) -> None:
        """Close the connections."""
        if self._owns_session and self._session is not None:
            session, self._session = self._session, None
            with anyio.CancelScope(shield=True):
                await session.close()


async def _read(content: Any, max_bytes: int) -> tuple[bytes, bool]:
    chunks: list[bytes] = []
    size = 0
    async for chunk in content.iter_chunked(64 * 1024):
        chunks.append(chunk)
        size += len(chunk)
        if size > max_bytes:
            return b"".join(chunks)[:max_bytes], True
    return b"".join(chunks), False
