"""The interface to an HTTP library: one request, its status and headers, and a body that arrives in pieces.

The client uses HTTP only through two small protocols, so that users may pass their own HTTP client (``http=``; see
`ferrule.transports.http.adapters`) and tests a fake. The default is
`ferrule.transports.http.aiohttp_backend.AiohttpClient`.

Closing a response that has not ended, and cancelling the task that waits for its head, must close the connection. In
revision 2026-07-28 that *is* how a request is cancelled ("Streamable HTTP", cancellation). If a library continued to
read in the background, the server would continue its work.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, runtime_checkable

from ferrule.protocol.errors import ConnectionClosed, LocalError

if TYPE_CHECKING:
    import ssl

__all__ = [
    "CameThroughProxy",
    "HttpClient",
    "HttpClientOptions",
    "HttpClientRequest",
    "HttpConnectFailed",
    "HttpConnectionLost",
    "HttpProtocolError",
    "HttpResponse",
    "TlsOptions",
    "without_secrets",
]


@dataclass(slots=True)
class HttpClientRequest:
    """One request.

    Attributes:
        method: ``"POST"``, ``"GET"`` or ``"DELETE"``.
        url: the absolute URL, ``http`` or ``https``.
        headers: headers by lower-case name; one value for each.
        body: the whole body; ``b""`` for none.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""


def without_secrets(url: str) -> str:
    """Return a URL for a message: without user information, query and fragment."""
    # Queries may contain tokens.
    where = url.partition("#")[0].partition("?")[0]
    scheme, slashes, rest = where.partition("//")
    if not slashes:
        return where
    authority, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{authority.rpartition('@')[2]}{slash}{path}"


@runtime_checkable
class HttpResponse(Protocol):
    """The head of a response, and its body as it arrives; it may also implement `CameThroughProxy`."""

    @property
    def status(self) -> int:
        """HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Lower-case names; values of a repeated header are joined with ``", "``."""
        ...

    async def receive(self) -> bytes:
        """Return the next chunk of the body as soon as there is one; ``b""`` at its end.

        Raises:
            HttpConnectionLost: the connection ended in the middle of the body.
        """
        ...

    async def aclose(self) -> None:
        """Release the response; closes the connection if the body has not ended. Idempotent."""
        ...


@runtime_checkable
class CameThroughProxy(Protocol):
    """An `HttpResponse` that knows its proxy."""

    @property
    def proxy(self) -> str | None:
        """URL of the proxy, without credentials; ``None`` for none."""
        ...


@runtime_checkable
class HttpClient(Protocol):
    """Sends requests. It follows no redirects and raises for no status; it may keep cookies."""

    async def open(self, request: HttpClientRequest) -> HttpResponse:
        """Send a request, and return the head of its response.

        Raises:
            HttpConnectFailed: no connection was made; the server has not seen the request.
            HttpConnectionLost: the connection ended first; the server may have seen it.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection, also those in use. Idempotent; any task may call it."""
        ...


class HttpConnectFailed(LocalError):
    """No connection to the server could be made: name, network, TLS or proxy.

    Attributes:
        url: the URL of the request, without query and credentials.
    """

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"Cannot connect to {url}: {why}")
        self.url = url


class HttpConnectionLost(ConnectionClosed):
    """The connection ended before the response was complete.

    Attributes:
        url: the URL of the request, without query and credentials.
        was_silent: whether no byte of a response had arrived. The request may have been served all the same.
    """

    def __init__(self, url: str, why: str, *, was_silent: bool) -> None:
        super().__init__(f"The connection to {url} was lost {'before' if was_silent else 'within'} the answer: {why}")
        self.url = url
        self.was_silent = was_silent


class HttpProtocolError(HttpConnectionLost):
    """The response is not HTTP/1.1, or its head is too large."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The trusted certificates, and the certificate of this client.

    Attributes:
        ca_file: PEM file with the trusted certificates instead of the system's (without it ``SSL_CERT_FILE`` and
            ``SSL_CERT_DIR`` apply).
        client_cert_file: PEM file with the certificate chain of this client.
        client_key_file: PEM file with its key; ``None`` if the key is in ``client_cert_file``.
        client_key_password: the password of that key.
        verify: ``False`` accepts any certificate; for experiments on one machine only.
    """

    ca_file: str | None = None
    client_cert_file: str | None = None
    client_key_file: str | None = None
    client_key_password: str | None = None
    verify: bool = True

    def make_context(self) -> ssl.SSLContext:
        """Return the `ssl` context with these options."""
        import ssl

        context = ssl.create_default_context(cafile=self.ca_file)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self.client_cert_file is not None:
            context.load_cert_chain(self.client_cert_file, self.client_key_file, self.client_key_password)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


Proxy: TypeAlias = "str | Literal['env'] | None"


@dataclass(frozen=True, slots=True)
class HttpClientOptions:
    """Options of the built-in HTTP client.

    Attributes:
        tls: `TlsOptions`, a ready ``ssl.SSLContext``, or ``None`` for the system's trust.
        proxy: URL of an HTTP proxy (``http://user:password@host:port``), ``None`` for none, or ``"env"`` for the
            variables ``HTTPS_PROXY``, ``http_proxy``, ``ALL_PROXY`` and ``NO_PROXY``. Settings of macOS and Windows
            are not read.
        connect_timeout_s: seconds for name resolution, TCP, proxy and TLS together.
        keep_alive_s: seconds that an idle connection is kept.
        max_idle: idle connections kept per origin.
        cookies: send cookies back to the origin that set them, as load balancers with sticky sessions need it.
        user_agent: instead of ``ferrule/<version>``, for requests without a ``user-agent`` of their own.
    """

    tls: TlsOptions | ssl.SSLContext | None = None
    proxy: Proxy = "env"
    connect_timeout_s: float = 15.0
    keep_alive_s: float = 60.0
    max_idle: int = 64
    cookies: bool = True
    user_agent: str | None = None


_OLD_NAMES: Final = {"HttpOptions": "HttpClientOptions", "HttpRequest": "HttpClientRequest"}


def __getattr__(name: str) -> Any:
    """Return a class by its name of release 0.1, with a warning; ferrule 0.3 removes these names."""
    new_name = _OLD_NAMES.get(name)
    if new_name is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{name} is now {new_name}; ferrule 0.3 removes the old name", DeprecationWarning, stacklevel=2)
    return globals()[new_name]
