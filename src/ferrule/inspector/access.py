"""Who may use the inspector: the one page that it opened itself, and nothing else in the browser.

Whoever may call the API can call every tool of the server behind it, so three things must agree before a request is
looked at: the ``Host`` is this very address (a rebound name is a foreign host), the ``Origin``, if there is one, is
this page's own, and the token is the one that was printed. The token travels in a header of its own, which a foreign
page cannot send without asking first, and nobody is ever given permission: there is no CORS here. Cookies would be
sent by any page, so there are none.

The address that is handed to a browser can be seen by everybody on the machine, in the list of processes. So it holds
a *ticket*, which is exchanged for the token once, within a minute; the token itself is only printed.

Rule a newcomer would break: another port of this machine is a stranger. ``http://localhost:3000`` may be anybody's
page, so "loopback" is not enough for an Origin.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final

from ferrule.transports.asgi.media import is_json_content_type
from ferrule.transports.asgi.security import is_loopback_name, split_host

__all__ = ["PAGE_HEADERS", "TOKEN_HEADER", "Gate", "Refused"]

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
"""Sent with every answer: nothing from elsewhere, no frame around it, no address told to anybody."""


class Refused(Exception):
    """A request that is not served.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Gate:
    """The checks of one inspector.

    Args:
        token: what the page was opened with.
        clock: seconds, for the life of tickets.
    """

    def __init__(self, token: str, clock: Callable[[], float] = time.monotonic) -> None:
        if len(token) < 16:
            raise ValueError("the token has at least 16 characters")
        self._token = token.encode()
        self._clock = clock
        self._tickets: dict[str, float] = {}

    def make_ticket(self) -> str:
        """What can be exchanged for the token, once and soon."""
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = self._clock() + TICKET_S
        while len(self._tickets) > MAX_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        return ticket

    def redeem(self, ticket: object) -> str:
        """The token for a ticket.

        Raises:
            Refused: 401: there is no such ticket, it was used, or it is too old.
        """
        found = next((each for each in self._tickets if _is_same(each, ticket)), None)
        if found is None or self._tickets.pop(found) < self._clock():
            raise Refused(401, "This address was used already, or is too old: open the one that `ferrule dev` printed")
        return self._token.decode()

    def check_page(self, headers: Mapping[str, str]) -> None:
        """Whether the static files may be given out.

        Raises:
            Refused: 403 for a name that is not this machine's.
        """
        name, _ = split_host(headers.get("host", ""))
        if not name or not is_loopback_name(name):
            raise Refused(403, "This address is served on loopback names only")

    def check_call(self, method: str, headers: Mapping[str, str]) -> None:
        """Whether the API may be used.

        Raises:
            Refused: 403 for a foreign page, 401 for a wrong token, 415 for a body that is not announced as JSON.
        """
        self.check_caller(method, headers)
        given = headers.get(TOKEN_HEADER, "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(given, self._token):
            raise Refused(401, "The token is missing or wrong: open the address that `ferrule dev` printed")

    def check_caller(self, method: str, headers: Mapping[str, str]) -> None:
        """Whether a call can come from the inspector's own page at all, whatever it knows.

        Raises:
            Refused: as `check_call`, but for the token.
        """
        self.check_page(headers)
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{headers['host'].lower()}":
            raise Refused(403, "The Origin of this request is not the inspector's own page")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise Refused(403, "This request was made by another page")
        if method == "POST" and not is_json_content_type(headers.get("content-type", "")):
            raise Refused(415, "The body must be application/json")


def _is_same(ticket: str, given: object) -> bool:
    return isinstance(given, str) and hmac.compare_digest(ticket.encode(), given.encode("utf-8", "surrogatepass"))
