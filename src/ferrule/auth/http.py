"""Flows: generators that yield HTTP requests and receive the responses. No I/O happens in them.

The caller that runs a flow supplies sockets, clock and user interaction: the client uses its own HTTP, a test uses a
dictionary. Besides requests a flow may yield the two steps that need a user (`OpenRedirect`, `AskUser`) and values that
the program fetches (`AskValue`).

The caller must not follow redirects and must not retry. A redirect is a new URL from a server, and `get` checks it like
the first one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode

from ferrule.auth.errors import UnsafeUrl
from ferrule.auth.urls import HostClass, UrlPolicy, class_of_address, join_url
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError

__all__ = [
    "AskUser",
    "AskValue",
    "AuthRequest",
    "AuthResponse",
    "Fetch",
    "Flow",
    "OpenRedirect",
    "Step",
    "form_body",
    "get",
    "get_json",
    "json_body",
    "run_flow",
]

T = TypeVar("T")

MAX_REDIRECTS: Final = 3  # metadata is rarely behind more than one; each one is checked like a new URL


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """One HTTP request of a flow.

    Attributes:
        method: ``GET`` or ``POST``.
        url: the absolute URL. Its text was checked already; the address that its host resolves to was not.
        headers: the headers by lower-case name. They may contain credentials and are not part of ``repr``.
        body: the body, which may contain credentials.
        host_class: the most private kind of address that the host's name may resolve to.
        max_bytes: a longer response is an error.
        timeout_s: seconds for the whole exchange.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)
    host_class: HostClass = HostClass.LOOPBACK
    max_bytes: int = 256 * 1024
    timeout_s: float = 10.0

    def judge_address(self, address: str) -> None:
        """Check an IP address that the host's name resolves to.

        Raises:
            UnsafeUrl: the address is more private than `host_class` permits.
        """
        kind = class_of_address(address)
        if kind > self.host_class:
            raise UnsafeUrl(self.url, f"its name resolves to a {kind.name.lower()} address")


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """The response to an `AuthRequest`.

    Attributes:
        status: HTTP status.
        headers: the headers by lower-case name.
        body: the whole body.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)

    def json(self) -> dict[str, Any] | None:
        """Return the body as a JSON object; ``None`` if it is not one."""
        try:
            value = decode(self.body)
        except DecodeError:
            return None
        return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True, slots=True)
class OpenRedirect:
    """Prepare to receive the authorization response; the reply is the redirect URI.

    Attributes:
        preferred: a redirect URI that is registered already; another one may be used if it is not available.
    """

    preferred: str | None


@dataclass(frozen=True, slots=True)
class AskUser:
    """Send the user to a URL; the reply is the redirect URL with the authorization response.

    Attributes:
        url: the authorization request.
    """

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskValue:
    """Call a function of the program and await its result; the reply is the value."""

    function: Callable[[], Awaitable[Any] | Any]


Step: TypeAlias = AuthRequest | OpenRedirect | AskUser | AskValue
Flow: TypeAlias = Generator[Step, Any, T]
"""A flow that returns a ``T``."""
Fetch: TypeAlias = Callable[[AuthRequest], Awaitable[AuthResponse]]
"""Sends one request of a flow; follows no redirect, reads at most ``max_bytes``, checks the address."""


def form_body(fields: Mapping[str, str | None]) -> bytes:
    """Return fields as ``application/x-www-form-urlencoded``; fields that are ``None`` are left out."""
    return urlencode({name: value for name, value in fields.items() if value is not None}).encode("ascii")


def json_body(value: Any) -> bytes:
    """Return a value as JSON."""
    return encode(value)


def get_json(
    url: str, policy: UrlPolicy, host_class: HostClass, headers: Mapping[str, str] | None = None
) -> Flow[dict[str, Any] | None]:
    """Fetch and return a JSON object; ``None`` if the status is not 200 or the body is not a JSON object.

    Raises:
        UnsafeUrl: the URL, or one that it redirects to, may not be fetched.
    """
    response = yield from get(url, policy, host_class, headers)
    return response.json() if response.status == 200 else None


def get(
    url: str, policy: UrlPolicy, host_class: HostClass, headers: Mapping[str, str] | None = None
) -> Flow[AuthResponse]:
    """Fetch a document and return the last response, whatever its status.

    At most `MAX_REDIRECTS` redirects are followed.

    Raises:
        UnsafeUrl: the URL, or one that it redirects to, may not be fetched.
    """
    sent = {"accept": "application/json", **(headers or {})}
    for _ in range(MAX_REDIRECTS + 1):
        policy.check(url, host_class)
        response: AuthResponse = yield AuthRequest(
            "GET", url, sent, host_class=host_class, max_bytes=policy.max_bytes, timeout_s=policy.timeout_s
        )
        location = response.headers.get("location")
        if response.status in (301, 302, 303, 307, 308) and location:
            url = join_url(url, location)
            continue
        return response
    raise UnsafeUrl(url, f"more than {MAX_REDIRECTS} redirects lead there")


def run_flow(flow: Flow[T], answer: Callable[[Step], Any]) -> T:
    """Run a flow with a plain function and return its result: for tests, and for programs with blocking HTTP.

    Args:
        flow: the flow.
        answer: takes a step and returns its reply; an exception that it raises is raised inside the flow.

    Raises:
        AuthError: the flow failed.
    """
    reply: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                step = flow.throw(error) if error is not None else flow.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            reply, error = None, None
            try:
                reply = answer(step)
            except Exception as raised:
                error = raised
    finally:
        flow.close()
