"""Flows: generators that yield HTTP requests and are sent the answers. No I/O happens in them.

Whoever drives a flow owns the socket, the clock and the user: the client with its own HTTP, a test with a dictionary.
Besides requests a flow may yield the two things that only a person can give (`OpenRedirect`, `AskUser`) and values
that a program fetches elsewhere (`AskValue`).

The rule that a newcomer would break: the driver follows no redirect and retries nothing. A redirect is a new URL from
outside, and `get_json` judges it like the first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import urlencode, urljoin

from ferrule.auth.errors import UnsafeUrl
from ferrule.auth.urls import HostClass, UrlPolicy, class_of_address
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

MAX_REDIRECTS: Final = 3


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """One HTTP request of a flow.

    Attributes:
        method: ``GET`` or ``POST``.
        url: absolute; judged already as far as its text goes.
        headers: lower-case names. May hold credentials, so they are left out of ``repr``.
        body: may hold credentials.
        host_class: the most private kind of address that the host's name may resolve to.
        max_bytes: a longer answer is an error.
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
        """Judge an address that the host's name resolves to.

        Raises:
            UnsafeUrl: the request may not go there.
        """
        kind = class_of_address(address)
        if kind > self.host_class:
            raise UnsafeUrl(self.url, f"its name leads to a {kind.name.lower()} address")


@dataclass(frozen=True, slots=True)
class AuthResponse:
    """The answer to an `AuthRequest`.

    Attributes:
        status: HTTP status.
        headers: lower-case names.
        body: whole.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    body: bytes = field(default=b"", repr=False)

    def json(self) -> dict[str, Any] | None:
        """The body as a JSON object; ``None`` if it is none."""
        try:
            value = decode(self.body)
        except DecodeError:
            return None
        return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]


@dataclass(frozen=True, slots=True)
class OpenRedirect:
    """Be ready to receive the user's return; answered with the redirect URI in use.

    Attributes:
        preferred: a redirect URI that is registered already; any other is possible if that one is not.
    """

    preferred: str | None


@dataclass(frozen=True, slots=True)
class AskUser:
    """Send the user to a URL; answered with the URL on which they came back.

    Attributes:
        url: the authorization request.
    """

    url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AskValue:
    """Call a function of the program, and await what it gives; answered with the value."""

    function: Callable[[], Awaitable[Any] | Any]


Step: TypeAlias = AuthRequest | OpenRedirect | AskUser | AskValue
Flow: TypeAlias = Generator[Step, Any, T]
"""A flow that ends with a ``T``."""
Fetch: TypeAlias = Callable[[AuthRequest], Awaitable[AuthResponse]]
"""Sends one request of a flow: no redirect is followed, the answer is read up to its bound, the address is judged."""


def form_body(fields: Mapping[str, str | None]) -> bytes:
    """Fields as ``application/x-www-form-urlencoded``; ``None`` is left out."""
    return urlencode({name: value for name, value in fields.items() if value is not None}).encode("ascii")


def json_body(value: Any) -> bytes:
    """A value as JSON."""
    return encode(value)


def get_json(
    url: str, policy: UrlPolicy, host_class: HostClass, headers: Mapping[str, str] | None = None
) -> Flow[dict[str, Any] | None]:
    """Fetch a JSON object; ``None`` if there is none to be had at this URL.

    Raises:
        UnsafeUrl: the URL, or one that it redirects to, may not be fetched.
    """
    response = yield from get(url, policy, host_class, headers)
    return response.json() if response.status == 200 else None


def get(
    url: str, policy: UrlPolicy, host_class: HostClass, headers: Mapping[str, str] | None = None
) -> Flow[AuthResponse]:
    """Fetch a document, redirects followed and each of them judged; the last answer, whatever its status.

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
            url = urljoin(url, location)
            continue
        return response
    raise UnsafeUrl(url, f"more than {MAX_REDIRECTS} redirects lead there")


def run_flow(flow: Flow[T], answer: Callable[[Step], Any]) -> T:
    """Drive a flow with a plain function: for tests, and for programs with blocking HTTP.

    Args:
        answer: a step to its answer; what it raises is raised within the flow.
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
