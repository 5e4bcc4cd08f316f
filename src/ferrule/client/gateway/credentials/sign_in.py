"""Sign-ins of a gateway's callers to the servers behind it: one flow for each caller and server, by a link.

A request that the server refuses for lack of a token ends with `SignInRequired`; a call then starts the flow, in a task
of the gateway, and shows its link. The link leads to a page of the gateway that names the server and the account for
which the sign-in is made: without it, a caller could send the address of an authorization server to another person, who
would then connect an account of their own to that caller's. From there it goes to the authorization server, and back to
the gateway's redirect URI, which may be served by another process: the response then reaches the waiting one by the
store.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import anyio

from ferrule.auth.client.interaction import check_openable
from ferrule.auth.errors import AuthError, InteractionFailed
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_list

if TYPE_CHECKING:
    from ferrule.stores.store import Store

__all__ = ["MAX_SIGN_INS", "SIGN_IN_S", "SignIn", "SignInPage", "SignInRequired", "SignIns"]

logger = logging.getLogger("ferrule.client.gateway")

SIGN_IN_S: Final = 600.0
"""Seconds that a person has to sign in."""
MAX_SIGN_INS: Final = 1000
"""Sign-ins that one process waits for at the same time."""
_POLL_S: Final = 0.5  # the store has no notification
_PREFIX: Final = "gateway-sign-in/"
_MAX_RESPONSE: Final = 8192


class SignInRequired(AuthError):
    """The caller has to sign in to a server behind first.

    Attributes:
        server: the name of the server.
    """

    def __init__(self, server: str) -> None:
        super().__init__(f"Sign in to {server!r} first")
        self.server = server


class SignInPage:
    """What the page of a sign-in shows.

    Attributes:
        server: the name of the server behind.
        account: the caller's account at this gateway, for a person to recognize.
        url: where the page leads: the authorization request.
    """

    __slots__ = ("account", "server", "url")

    def __init__(self, server: str, account: str, url: str) -> None:
        self.server, self.account, self.url = server, account, url


class SignIn:
    """One sign-in of one caller to one server; also the `Interaction` of its flow.

    Attributes:
        server: the name of the server.
        account: the caller's account, for a person to recognize.
        link: the page to open; set when ``is_asked`` is set.
        is_asked: set when the person can be asked, or the flow has ended without it.
        is_done: set when the flow has ended.
        error: why it failed; ``None`` while it runs, and after success.
    """

    def __init__(self, sign_ins: SignIns, server: str, account: str) -> None:
        self._sign_ins = sign_ins
        self.server = server
        self.account = account
        self.link = ""
        self.is_asked = anyio.Event()
        self.is_done = anyio.Event()
        self.error: Exception | None = None
        self._response: str | None = None
        self._responded = anyio.Event()
        self._state = ""

    def __repr__(self) -> str:
        return f"SignIn({self.server!r})"

    async def run(self, flow: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run the flow to its end; its error becomes an attribute."""
        try:
            with anyio.fail_after(SIGN_IN_S):
                await flow()
        except TimeoutError:
            self.error = InteractionFailed(f"The user did not sign in to {self.server!r} within {SIGN_IN_S:g} s")
        except Exception as error:
            self.error = error
            logger.warning("A sign-in to %r failed: %s", self.server, error)
        finally:
            self._sign_ins.forget(self._state)
            self.is_done.set()
            self.is_asked.set()

    def respond(self, url: str) -> None:
        """Take the redirect URL with the authorization response."""
        self._response = url
        self._responded.set()

    # -- the interaction of the flow ------------------------------------------------------------------------------

    async def start(self, preferred: str | None) -> str:
        """See `Interaction`."""
        return self._sign_ins.redirect_uri

    async def authorize(self, url: str) -> str:
        """See `Interaction`."""
        check_openable(url)
        self._state = (parse_qs(urlsplit(url).query).get("state") or [""])[0]
        self.link = await self._sign_ins.publish(self, self._state, url)
        self.is_asked.set()
        await self._sign_ins.response_for(self._state, self._responded, self.respond)
        assert self._response is not None
        return self._response

    async def aclose(self) -> None:
        """See `Interaction`."""


class SignIns:
    """The sign-ins that one process waits for, and the pages that any process of the gateway serves.

    Args:
        base_url: the public URL below which the pages are: those of `page` and `take_response`.
        store: where other processes leave what belongs to this one.
    """

    def __init__(self, base_url: str, store: Store) -> None:
        self.base_url = base_url.rstrip("/")
        self._store = store
        self._waiting: dict[str, SignIn] = {}

    @property
    def redirect_uri(self) -> str:
        """The redirect URI of every flow."""
        return f"{self.base_url}/callback"

    async def publish(self, sign_in: SignIn, state: str, url: str) -> str:
        """Return the link of the page that leads to an authorization request.

        Raises:
            InteractionFailed: too many sign-ins wait.
        """
        if len(self._waiting) >= MAX_SIGN_INS:
            raise InteractionFailed("Too many sign-ins wait for people")
        self._waiting[state] = sign_in
        ticket = secrets.token_urlsafe(24)
        shown = encode([sign_in.server, sign_in.account, url])
        await self._store.blobs.put(f"{_PREFIX}page/{_digest(ticket)}", shown, ttl_s=SIGN_IN_S)
        return f"{self.base_url}/{ticket}"

    async def page(self, ticket: str) -> SignInPage | None:
        """Return what the page of a link shows; ``None`` for a link that is unknown or has expired."""
        found = await self._store.blobs.get(f"{_PREFIX}page/{_digest(ticket)}")
        try:
            parts: Any = decode(found) if found else None
        except DecodeError:
            return None
        return SignInPage(*(str(part) for part in parts)) if is_list(parts) and len(parts) == 3 else None

    async def take_response(self, query: str) -> str | None:
        """Take an authorization response, and return the server that it is for; ``None`` if no sign-in waits for it.

        Args:
            query: the query of the request to the redirect URI.
        """
        state = (parse_qs(query[:_MAX_RESPONSE]).get("state") or [""])[0]
        if not state or len(query) > _MAX_RESPONSE:
            return None
        response = f"{self.redirect_uri}?{query}"
        sign_in = self._waiting.get(state)
        if sign_in is not None:
            sign_in.respond(response)
            return sign_in.server
        waiting = await self._store.blobs.get(f"{_PREFIX}waits/{_digest(state)}")
        if not waiting:
            return None
        await self._store.blobs.put(f"{_PREFIX}response/{_digest(state)}", response.encode(), ttl_s=SIGN_IN_S)
        return waiting.decode()

    async def response_for(self, state: str, responded: anyio.Event, respond: Callable[[str], None]) -> None:
        """Wait for the response to an authorization request, here or in another process."""
        sign_in = self._waiting[state]
        if not self._store.is_shared:
            await responded.wait()
            return
        await self._store.blobs.put(f"{_PREFIX}waits/{_digest(state)}", sign_in.server.encode(), ttl_s=SIGN_IN_S)
        while not responded.is_set():
            with anyio.move_on_after(_POLL_S):
                await responded.wait()
            found = None if responded.is_set() else await self._store.blobs.get(f"{_PREFIX}response/{_digest(state)}")
            if found:
                respond(found.decode())
        for kind in ("waits", "response"):
            await self._store.blobs.put(f"{_PREFIX}{kind}/{_digest(state)}", b"", ttl_s=0)

    def forget(self, state: str) -> None:
        """Wait no longer for a response."""
        self._waiting.pop(state, None)


def _digest(text: str) -> str:
    """Return the part of a key for a secret: keys are shown by tools that list a store."""
    return hashlib.sha256(text.encode()).hexdigest()[:40]
