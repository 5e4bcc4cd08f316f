"""The facts of an HTTP request for handlers and hooks, and the errors with which they refuse one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from ferrule.kernel.dispatch import TransportContext
from ferrule.transports.asgi.security import split_host

__all__ = ["HttpContext", "HttpRefusal", "HttpRefusing", "http_form_of", "raw_headers"]


@dataclass(frozen=True, slots=True)
class HttpContext(TransportContext):
    """The facts of one HTTP request. In the legacy era they belong to the message's own POST, not to the handshake.

    Attributes:
        headers: lower-case name to value (Latin-1); repeated headers are joined with ``", "``.
        client: address and port of the socket's peer; ``None`` if the server does not supply it. Behind
            ``trusted_proxies`` the address that these forward, with port 0; behind another proxy the proxy's own.
        scope: the ASGI scope, as the server made it.
        authority: host and port that the request was judged by: the ``Host`` header, or what a trusted proxy forwards
            in its place; ``None`` without.
        session_id: id of the legacy session; ``None`` in the modern era and for ``initialize``.
        principal: the result of the endpoint's ``authenticate`` hook; ``None`` without a hook.
    """

    kind: str = "http"
    can_send_request: bool = False
    is_network: bool = field(default=True, kw_only=True)
    scope: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)
    session_id: str | None = field(default=None, kw_only=True)
    authority: str | None = field(default=None, kw_only=True)

    @property
    def host(self) -> str | None:
        """The host name of ``authority``, in lower case, without port, brackets and final dot; ``None`` without."""
        return None if self.authority is None else split_host(self.authority)[0] or None

    @property
    def path(self) -> str:
        """The request path as the server gave it, mounting prefix included."""
        return str(self.scope.get("path", ""))


class HttpRefusal(Exception):
    """Raised by an ``authenticate`` hook to refuse a request.

    Args:
        status: HTTP status, such as 401.
        message: one sentence for the client; it becomes the message of an error body.
        headers: more response headers, such as ``[("www-authenticate", "Bearer ...")]``.
    """

    def __init__(self, status: int, message: str, headers: list[tuple[str, str]] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = raw_headers(headers or ())


def raw_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return header pairs in the form of ASGI: lower-case Latin-1 bytes."""
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers]


@runtime_checkable
class HttpRefusing(Protocol):
    """An error of a handler that sets the HTTP status and headers of the response, such as 403 with a challenge.

    Attributes:
        http_status: the status.
        http_headers: more response headers.
    """

    http_status: int
    http_headers: Iterable[tuple[str, str]]


def http_form_of(error: BaseException) -> tuple[int, list[tuple[bytes, bytes]]] | None:
    """Return the HTTP status and headers that an error sets; ``None`` for an error that sets none."""
    return (error.http_status, raw_headers(error.http_headers)) if isinstance(error, HttpRefusing) else None
