"""Call options, credentials and errors of the HTTP client; no I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, Protocol, runtime_checkable

from ferrule.protocol.errors import LocalError, RemoteError
from ferrule.transports.http.backend import HttpClientRequest, without_secrets

__all__ = [
    "HttpAuth",
    "HttpRemoteError",
    "HttpStatusError",
    "ObservesAnswers",
    "SessionLost",
    "retry_delay_s",
]

_QUOTE_CHARS: Final = 300


@runtime_checkable
class HttpAuth(Protocol):
    """Credentials for requests. Its methods may be called concurrently, and never while a lock is held."""

    async def headers(self, request: HttpClientRequest) -> Mapping[str, str]:
        """Return the headers to add to a request, usually ``authorization``."""
        ...

    async def challenged(self, request: HttpClientRequest, status: int, headers: Mapping[str, str]) -> bool:
        """Handle a response with 401 or 403; return whether to send the request again, with new `headers`."""
        ...


@runtime_checkable
class ObservesAnswers(Protocol):
    """An `HttpAuth` that reads each response, for values that the next request needs (a nonce)."""

    def observed(self, request: HttpClientRequest, status: int, headers: Mapping[str, str]) -> None:
        """Read the headers of a response; it must be fast, because it is called for each one."""
        ...


class HttpStatusError(LocalError):
    """The server sent an HTTP error without a JSON-RPC error in its body.

    Attributes:
        status: HTTP status.
        headers: the headers of the response, lower-case names.
        body: its text, at most 64 KiB.
        url: the URL of the request.
        proxy: URL of the proxy, without credentials; ``None`` if there is none, or it is not known.
    """

    def __init__(
        self, status: int, headers: Mapping[str, str], body: str, url: str, *, proxy: str | None = None
    ) -> None:
        hint = ""
        if 300 <= status < 400 and "location" in headers:
            hint = (
                f"; it redirects to {without_secrets(headers['location'])[:_QUOTE_CHARS]}, use that URL if you trust it"
            )
        elif body.strip():
            hint = f": {' '.join(body.split())[:_QUOTE_CHARS]}"
        via = "" if proxy is None else f" (through the proxy {proxy})"
        super().__init__(f"The server at {without_secrets(url)} answered HTTP {status}{via}{hint}")
        self.proxy = proxy
        self.status = status
        self.headers = headers
        self.body = body
        self.url = url


class HttpRemoteError(RemoteError):
    """The server sent a JSON-RPC error with an HTTP error status.

    Attributes:
        http_status: the HTTP status of the response.
        challenge: its ``WWW-Authenticate``; ``None`` if it has none.
    """

    http_status: int = 200
    challenge: str | None = None


class SessionLost(LocalError):
    """The server no longer has the session: a new handshake is needed (2025-11-25, "Session management").

    The specification has 404 for that; existing servers also send 410, or 400 for each request of the session.

    Attributes:
        session_id: id of the lost session.
    """

    def __init__(self, session_id: str) -> None:
        super().__init__("The server no longer has this session")
        self.session_id = session_id


def retry_after_s(headers: Mapping[str, str], *, cap_s: float = 60.0) -> float:
    """Return the seconds of a ``Retry-After`` header (RFC 9110, section 10.2.3), at most ``cap_s``; 0 if there is none.

    A date counts from this machine's clock.
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(cap_s, float(value[:9]))
    if not value:
        return 0.0
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, min(cap_s, parsedate_to_datetime(value).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return 0.0


MIN_RETRY_S: Final = 0.05
MAX_RETRY_S: Final = 3600.0
"""Bounds in seconds of the reconnection time that a server may request."""


def retry_delay_s(attempt: int, *, hint_ms: int | None, cap_s: float = 30.0) -> float:
    """Return the seconds to wait before an event stream is opened again.

    A server's ``retry`` field takes precedence over back-off (WHATWG HTML, "Server-sent events"; 2025-11-25, "SSE
    polling"), within `MIN_RETRY_S` and `MAX_RETRY_S`: with ``retry: 0`` a client would reconnect thousands of times
    per second.

    Args:
        attempt: 0 for the first reconnect.
        hint_ms: the last ``retry`` value in milliseconds; ``None`` if the server sent none.
        cap_s: upper bound of the back-off in seconds.
    """
    if hint_ms is not None:
        return min(MAX_RETRY_S, max(MIN_RETRY_S, hint_ms / 1000))
    return min(cap_s, 0.5 * 2.0 ** min(attempt, 16))
