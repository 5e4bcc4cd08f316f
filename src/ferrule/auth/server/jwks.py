"""The public keys of an issuer: fetched on first use, cached, and fetched again when a token names an unknown key.

Rotation: an issuer may sign with a key that it published minutes ago; its key id is not known here yet. Keys are
fetched for an unknown id once per ``min_interval_s`` at most: invented ids cannot cause many requests to the issuer.
Keys that cannot be fetched again are used up to ``max_stale_s`` beyond their age; a document without keys counts as a
failed fetch. If the keys cannot be fetched, a token is not refused as invalid, because a client would discard it.
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
_MAX_KEYS = 64  # a token without key id is tried with every key of its type


async def drive(flow: Flow[T], fetch: Fetch) -> T:
    """Run a flow that has only HTTP steps and return its result."""
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
        issuer: the identifier of the issuer; its metadata have the ``jwks_uri`` if none is given.
        jwks_uri: the URL of the key set.
        jwks: the key set itself; nothing is fetched then.
        max_age_s: seconds after which keys are fetched again.
        max_stale_s: seconds beyond ``max_age_s`` for which keys are used while fetching fails.
        min_interval_s: least seconds between two fetches for an unknown key.
        policy: limits on the issuer's URLs.
        clock: returns monotonic seconds.
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
        self._fetching: anyio.Event | None = None
        self._outcomes: int = 0

    async def find(self, algorithm: str, kid: str | None) -> list[VerifyingKey]:
        """Return the keys for this algorithm and key id; several only if the token names no id.

        Args:
            algorithm: ``alg`` of the token.
            kid: key id of the token; ``None`` without one.

        Raises:
            InvalidToken: the issuer publishes no such key.
            VerifierUnavailable: the keys cannot be fetched, and no usable ones are cached.
        """
        if not self._is_fixed:
            if self._age_s() > self._max_age_s:
                await self._refresh(is_forced=self._fetched_at is None)
            if self._age_s() > self._max_age_s + self._max_stale_s:
                raise VerifierUnavailable(f"The keys of {self._issuer} cannot be fetched")
        found = self._matching(algorithm, kid)
        # An unknown key id: the issuer may have rotated its keys.
        if not found and not self._is_fixed:
            await self._refresh(is_forced=False)
            found = self._matching(algorithm, kid)
            if not found and self._has_failed:
                raise VerifierUnavailable(
                    f"The keys of {self._issuer} cannot be fetched, and none of the cached ones fits"
                )
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
                except ValueError:  # remembered, so that a malformed key is not parsed for each token
                    self._parsed[number] = None
            if self._parsed[number] is not None:
                found.append(self._parsed[number])
        return found

    async def _refresh(self, *, is_forced: bool) -> None:
        """Fetch the keys. Tasks that call this during a fetch wait for it; if it is cancelled, one of them fetches.

        Args:
            is_forced: fetch even within ``min_interval_s`` of the last attempt.

        Raises:
            VerifierUnavailable: the fetch failed and the cached keys are too old.
        """
        outcomes = self._outcomes
        while self._fetching is not None:
            await self._fetching.wait()
            if self._outcomes != outcomes:  # else it was cancelled
                return
        now = self._clock()
        if not is_forced and self._tried_at is not None and now - self._tried_at < self._min_interval_s:
            return
        # Without any key each request would cause a fetch: at most one in a second.
        if is_forced and self._tried_at is not None and now - self._tried_at < 1.0:
            raise VerifierUnavailable(f"The keys of {self._issuer} could not be fetched a moment ago")
        fetching = self._fetching = anyio.Event()
        self._tried_at = now
        try:
            await self._fetch_keys()
            self._outcomes += 1
            self._has_failed = False
        except Exception as error:
            self._outcomes += 1
            self._has_failed = True
            self._uri = self._given_uri  # a discovered URL may have changed: discover it again
            log.warning("The keys of %s cannot be fetched: %s", self._issuer, error)
            if self._age_s() > self._max_age_s + self._max_stale_s:
                raise VerifierUnavailable(f"The keys of {self._issuer} cannot be fetched: {error}") from error
        except BaseException:  # cancelled: there was no outcome, so the next attempt may follow immediately
            self._has_failed = True
            self._tried_at = None
            raise
        finally:
            self._fetching = None
            fetching.set()

    async def _fetch_keys(self) -> None:
        if self.fetch is None:
            raise VerifierUnavailable("This verifier has no fetch function for its keys")
        document = await drive(self._document(), self.fetch)
        keys = [] if document is None else _usable(document)
        if not keys:
            raise AuthError("there is no key set at its jwks_uri, or one without keys that sign")
        self._keys = keys
        self._parsed.clear()
        self._fetched_at = self._clock()

    def _document(self) -> Flow[dict[str, Any] | None]:
        # The operator configured the issuer, so its own host is allowed; URLs in its metadata are limited by it.
        host_class = self._policy.class_for(self._issuer)
        if self._uri is None:
            server = yield from discover_authorization_server(self._issuer, self._policy, host_class)
            if server is None or server.jwks_uri is None:
                raise AuthError("its metadata name no jwks_uri")
            if server.issuer != self._issuer:
                log.warning(
                    "%s names itself %s, and its tokens will have that name as iss: configure it with that name",
                    self._issuer,
                    server.issuer,
                )
            self._uri = server.jwks_uri
            return (yield from get_json(self._uri, self._policy, host_class))
        return (yield from get_json(self._uri, self._policy, max(host_class, self._policy.class_for(self._uri))))


def _usable(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the asymmetric signing keys of a key set, at most `_MAX_KEYS`."""
    keys: Any = document.get("keys")
    listed: Sequence[Any] = cast("Sequence[Any]", keys) if isinstance(keys, list) else ()
    found = [cast("dict[str, Any]", key) for key in listed if isinstance(key, dict)]
    return [key for key in found if key.get("kty") != "oct" and key.get("use", "sig") == "sig"][:_MAX_KEYS]
