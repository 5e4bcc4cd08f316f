"""Access checks of the inspector: only the page that it opened itself may use the API.

The API can call every tool of the inspected server. A request is therefore served only if the ``Host`` is a loopback
name (against DNS rebinding), the ``Origin``, if there is one, is the page's own, and the token is the right one. The
token is sent in a header of its own, which another page cannot send without a CORS preflight, and the inspector grants
none. There are no cookies, because a browser sends them for any page.

Every user of the machine can read the address that a browser is started with, in the list of processes. That address
holds a *ticket*, which can be exchanged for the token once, within a minute. The token itself is only printed.

A page on another port of this machine is a foreign page: ``http://localhost:3000`` may belong to any program, so a
loopback ``Origin`` alone is not enough.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from ferrule.transports.asgi.media import is_json_content_type
from ferrule.transports.asgi.security import is_loopback_name, split_host

__all__ = ["PAGE_HEADERS", "TOKEN_HEADER", "AccessCheck", "AccessRefused"]

TOKEN_HEADER: Final = "x-ferrule-token"
TICKET_S: Final = 60.0
MAX_TICKETS: Final = 8

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)

PAGE_HEADERS: Final[tuple[tuple[bytes, bytes], ...]] = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", _POLICY.encode()),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""Headers of every response: no foreign content, no frames, no referrer."""


class AccessRefused(Exception):
    """A request is refused.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class AccessCheck:
    """The checks of one inspector.

    Args:
        token: the secret of the page; at least 16 characters.
        clock: returns seconds, for the age of tickets.

    Raises:
        ValueError: the token is too short.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        if len(token) < 16:
            raise ValueError("the token has at least 16 characters")
        self._token = token.encode()
        self._clock = clock
        self._tickets: dict[str, float] = {}

    def make_ticket(self) -> str:
        """Return a ticket that can be exchanged for the token once, within `TICKET_S` seconds."""
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = self._clock() + TICKET_S
        while len(self._tickets) > MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    def redeem(self, ticket: object) -> str:
        """Return the token for a ticket, which is used up.

        Raises:
            AccessRefused: 401: there is no such ticket, it was used, or it is too old.
        """
        found = next((each for each in self._tickets if _is_same(each, ticket)), None)
        if found is None or self._tickets.pop(found) < self._clock():
            raise AccessRefused(
                401, "This address was used already, or is too old: open the one that `ferrule dev` printed"
            )
        return self._token.decode()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Check a request for a static file.

        Raises:
            AccessRefused: 403: the ``Host`` is not a loopback name.
        """
        name, _ = split_host(headers.get("host", ""))
        if not name or not is_loopback_name(name):
            raise AccessRefused(403, "This address is served on loopback names only")

    def check_call(self, method: str, headers: Mapping[str, str]) -> None:
        """Check a request to the API.

        Raises:
            AccessRefused: 403 for a foreign page, 401 for a wrong token, 415 for a body that is not announced as JSON.
        """
        self.check_caller(method, headers)
        given = headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._token):
            raise AccessRefused(401, "The token is missing or wrong: open the address that `ferrule dev` printed")

    def check_caller(self, method: str, headers: Mapping[str, str]) -> None:
        """Check that a request can come from the inspector's own page, without looking at the token.

        Raises:
            AccessRefused: as `check_call`, but for the token.
        """
        self.check_page(headers)
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{headers['host'].lower()}":
            raise AccessRefused(403, "The Origin of this request is not the inspector's own page")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise AccessRefused(403, "This request was made by another page")
        if method == "POST" and not is_json_content_type(headers.get("content-type", "")):
            raise AccessRefused(415, "The body must be application/json")


def _is_same(ticket: str, given: object) -> bool:
    return isinstance(given, str) and hmac.compare_digest(ticket.encode(), given.encode("utf-8", "surrogatepass"))
