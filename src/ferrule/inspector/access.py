"""Access checks of the inspector: only the page that the inspector itself opened may use the API.

The API can call every tool of the inspected server. A request is therefore served only if the ``Host`` is a loopback
name (against DNS rebinding), the ``Origin``, if there is one, is the page's own, and the token is the right one. The
token is sent in a header of its own, which another page cannot send without a CORS preflight, and the inspector grants
none. There are no cookies, because a browser sends them for any page.

Every user of the machine can read the address that a browser is started with, in the list of processes. That address
contains a *ticket*, which can be exchanged for the token once, within a minute. The token itself is only printed.

A page on another port of this machine is a foreign page: ``http://localhost:3000`` may belong to any program, so a
loopback ``Origin`` alone is not enough.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from ferrule.transports.asgi.headers.media import is_json_content_type
from ferrule.transports.asgi.security import is_loopback_name, split_host

__all__ = ["TOKEN_HEADER", "AccessCheck", "AccessRefused", "Tickets", "check_host", "loopback_origins", "page_headers"]

ValueT = TypeVar("ValueT")

TOKEN_HEADER: Final = "x-ferrule-token"
TICKET_S: Final = 60.0
MAX_TICKETS: Final = 8

_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_VIEW_FEATURES: Final = ("camera", "geolocation", "microphone")
"""Features that the page itself does not use, and may pass on to a view that declares them."""


def loopback_origins(port: int) -> list[str]:
    """Return the origins under which a browser reaches a port of this process."""
    return [f"http://127.0.0.1:{port}", f"http://localhost:{port}"]


def page_headers(views_port: int | None = None) -> list[tuple[bytes, bytes]]:
    """Return the headers of every response: no foreign content, in no frame, no referrer.

    Args:
        views_port: port of the origin of views, the only one that the page may show in a frame; ``None`` for no frames.
    """
    views = [] if views_port is None else loopback_origins(views_port)
    policy = f"{_POLICY}; frame-src {' '.join(views)}" if views else _POLICY
    who = " ".join(f'"{origin}"' for origin in views)
    features = [*(f"{name}=({who})" for name in _VIEW_FEATURES), "payment=()", "usb=()"]
    return [
        (b"cache-control", b"no-store"),
        (b"content-security-policy", policy.encode()),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"origin-agent-cluster", b"?1"),
        (b"permissions-policy", ", ".join(features).encode()),
        (b"referrer-policy", b"no-referrer"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
    ]


class AccessRefused(Exception):
    """A request is refused.

    Attributes:
        status: HTTP status.
    """

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Tickets(Generic[ValueT]):
    """Random texts in URLs, each of which can be exchanged for a value once, within `TICKET_S` seconds.

    Args:
        clock: returns seconds, for the age of tickets.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, tuple[float, ValueT]] = {}

    def make(self, value: ValueT) -> str:
        """Return a new ticket; the oldest is removed while there are more than `MAX_TICKETS`."""
        ticket = secrets.token_urlsafe(32)
        self._kept[ticket] = self._clock() + TICKET_S, value
        while len(self._kept) > MAX_TICKETS:
            del self._kept[next(iter(self._kept))]
        return ticket

    def redeem(self, ticket: object) -> ValueT:
        """Return the value of a ticket, which is used up.

        Raises:
            AccessRefused: 401: there is no such ticket, it was used, or it is too old.
        """
        found = next((each for each in self._kept if _is_same(each, ticket)), None)
        end, value = (0.0, None) if found is None else self._kept.pop(found)
        if value is None or end < self._clock():
            raise AccessRefused(
                401, "This address was used already, or is too old: open the one that `ferrule dev` printed"
            )
        return value


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
        self._tickets: Tickets[str] = Tickets(clock)

    def make_ticket(self) -> str:
        """Return a ticket that can be exchanged for the token once; see `Tickets`."""
        return self._tickets.make(self._token.decode())

    def redeem(self, ticket: object) -> str:
        """Return the token for a ticket, which is used up.

        Raises:
            AccessRefused: 401: there is no such ticket, it was used, or it is too old.
        """
        return self._tickets.redeem(ticket)

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
        check_host(headers)
        # Absent in requests of programs other than browsers, which need the token all the same.
        origin = headers.get("origin")
        if origin is not None and origin.lower() != f"http://{headers['host'].lower()}":
            raise AccessRefused(403, "The Origin of this request is not the inspector's own page")
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            raise AccessRefused(403, "This request was made by another page")
        # Another page may send text or a form without a preflight, but not JSON (CORS).
        if method == "POST" and not is_json_content_type(headers.get("content-type", "")):
            raise AccessRefused(415, "The body must be application/json")


def check_host(headers: Mapping[str, str]) -> None:
    """Check the ``Host`` of a request.

    Raises:
        AccessRefused: 403: it is not a loopback name.
    """
    name, _ = split_host(headers.get("host", ""))
    if not name or not is_loopback_name(name):
        raise AccessRefused(403, "This address is served on loopback names only")


def _is_same(ticket: str, given: object) -> bool:
    return isinstance(given, str) and hmac.compare_digest(ticket.encode(), given.encode("utf-8", "surrogatepass"))
