"""The public keys of an issuer: fetched when needed, kept, and fetched again when a token names one that is not there.

Rotation: an issuer publishes a new key before it signs with it, or signs with a key that is minutes old; both show as
an unknown key id. Asking again is allowed once per ``min_interval_s``, so that nobody can make this server hammer the
issuer with invented ids. Keys that cannot be renewed are used up to ``max_stale_s`` beyond their age; a document
without keys is none. A token whose key cannot be looked for is not judged at all: a client drops one that is refused.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import anyio

from ferrule.auth.client.discovery import discover_authorization_server
from ferrule.auth.errors import AuthError
from ferrule.auth.http import AskUser, AskValue, Fetch, Flow, OpenRedirect, get_json
from ferrule.auth.jose import VerifyingKey, import_public_key
from ferrule.auth.server.verifiers import InvalidToken, VerifierUnavailable
from ferrule.auth.urls import UrlPolicy

__all__ = ["KeySource", "drive"]

T = TypeVar("T")

log = logging.getLogger("ferrule.auth")

_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
_MAX_KEYS = 64


async def drive(flow: Flow[T], fetch: Fetch) -> T:
    """Run a flow that asks nobody."""
    reply: Any = None
    error: Exception | None = None
    try:
        while True:
            try:
                step = flow.throw(error) if error is not None else flow.send(reply)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]
            assert not isinstance(step, OpenRedirect | AskUser | AskValue)
            reply, error = None, None
            try:
                reply = await fetch(step)
            except Exception as raised:
                error = raised
    finally:
        flow.close()


class KeySource:
    """The keys of one issuer.

    Args:
        issuer: its metadata name the ``jwks_uri`` where none is given.
        jwks_uri: where the keys are.
        jwks: the keys themselves; then nothing is fetched.
        max_age_s: seconds that keys are used before they are fetched again.
        max_stale_s: seconds beyond that while fetching fails.
        min_interval_s: seconds between two fetches because of an unknown key.
        policy: limits on the issuer's URLs.
        clock: seconds; need not be of the epoch.
    """

    def __init__(
        self,
        issuer: str,
        *,
        jwks_uri: str | None = None,
        jwks: Mapping[str, Any] | None = None,
        max_age_s: float = 600.0,
        max_stale_s: float = 86_400.0,
        min_interval_s: float = 15.0,
        policy: UrlPolicy | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fetch: Fetch | None = None
        self._issuer = issuer
        self._uri = self._given_uri = jwks_uri
        self._is_fixed = jwks is not None
        self._max_age_s = max_age_s
        self._max_stale_s = max_stale_s
        self._min_interval_s = min_interval_s
        self._policy = policy or UrlPolicy()
        self._clock = clock
        self._keys: list[dict[str, Any]] = [] if jwks is None else _usable(jwks)
        self._parsed: dict[int, VerifyingKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._has_failed = False
        self._flight: anyio.Event | None = None

    async def find(self, algorithm: str, kid: str | None) -> list[VerifyingKey]:
        """The keys that may have signed with this algorithm under this id; several only where a token names no id.

        Raises:
            InvalidToken: there is none.
            VerifierUnavailable: the keys cannot be fetched, and none are kept.
        """
        if not self._is_fixed:
            if self._age_s() > self._max_age_s:
                await self._refresh(is_forced=self._fetched_at is None)
            if self._age_s() > self._max_age_s + self._max_stale_s:
                raise VerifierUnavailable(f"The keys of {self._issuer} cannot be fetched")
        found = self._matching(algorithm, kid)
        if not found and not self._is_fixed:
            await self._refresh(is_forced=False)
            found = self._matching(algorithm, kid)
            if not found and self._has_failed:
                raise VerifierUnavailable(f"The keys of {self._issuer} cannot be fetched, and those kept do not do")
        if not found:
            raise InvalidToken("The token is signed with a key that its issuer does not publish")
        return found

    def _age_s(self) -> float:
        return float("inf") if self._fetched_at is None else self._clock() - self._fetched_at

    def _matching(self, algorithm: str, kid: str | None) -> list[VerifyingKey]:
        kind = _KINDS.get(algorithm[:2])
        found: list[VerifyingKey] = []
        for number, key in enumerate(self._keys):
            if key.get("kty") != kind or key.get("alg", algorithm) != algorithm:
                continue
            if kid is not None and key.get("kid") != kid:
                continue
            if number not in self._parsed:
                try:
                    self._parsed[number] = import_public_key(key)
                except ValueError:
                    self._parsed[number] = None
            if self._parsed[number] is not None:
                found.append(self._parsed[number])
        return found

    async def _refresh(self, *, is_forced: bool) -> None:
        """Fetch the keys; whoever comes while they are being fetched waits for the same fetch."""
        if self._flight is not None:
            await self._flight.wait()
            return
        now = self._clock()
        if not is_forced and self._tried_at is not None and now - self._tried_at < self._min_interval_s:
            return
        if is_forced and self._tried_at is not None and now - self._tried_at < 1.0:
            raise VerifierUnavailable(f"The keys of {self._issuer} could not be fetched a moment ago")
        flight = self._flight = anyio.Event()
        self._tried_at = now
        try:
            await self._fetch_keys()
            self._has_failed = False
        except Exception as error:
            self._has_failed = True
            self._uri = self._given_uri  # what was discovered may have moved
            log.warning("The keys of %s cannot be fetched: %s", self._issuer, error)
            if self._age_s() > self._max_age_s + self._max_stale_s:
                raise VerifierUnavailable(f"The keys of {self._issuer} cannot be fetched: {error}") from error
        except BaseException:  # cancelled: nothing was found out, and the next one may try at once
            self._has_failed = True
            self._tried_at = None
            raise
        finally:
            self._flight = None
            flight.set()

    async def _fetch_keys(self) -> None:
        if self.fetch is None:
            raise VerifierUnavailable("This verifier was given nothing to fetch keys with")
        document = await drive(self._document(), self.fetch)
        keys = [] if document is None else _usable(document)
        if not keys:
            raise AuthError("there is no key set at its jwks_uri, or one without keys that sign")
        self._keys = keys
        self._parsed.clear()
        self._fetched_at = self._clock()

    def _document(self) -> Flow[dict[str, Any] | None]:
        # The operator named the issuer, so where it is is not judged; what its metadata name is judged by it.
        host_class = self._policy.class_for(self._issuer)
        if self._uri is None:
            server = yield from discover_authorization_server(self._issuer, self._policy, host_class)
            if server is None or server.jwks_uri is None:
                raise AuthError("its metadata name no jwks_uri")
            if server.issuer != self._issuer:
                log.warning("%s calls itself %s, and so will its tokens: write it so", self._issuer, server.issuer)
            self._uri = server.jwks_uri
            return (yield from get_json(self._uri, self._policy, host_class))
        return (yield from get_json(self._uri, self._policy, max(host_class, self._policy.class_for(self._uri))))


def _usable(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The signing keys of a key set; symmetric ones never."""
    keys: Any = document.get("keys")
    listed: Sequence[Any] = cast("Sequence[Any]", keys) if isinstance(keys, list) else ()
    found = [cast("dict[str, Any]", key) for key in listed if isinstance(key, dict)]
    return [key for key in found if key.get("kty") != "oct" and key.get("use", "sig") == "sig"][:_MAX_KEYS]
