"""The journal of a call as ``requestState``: sealed, bound to the call, and in a store if it is too large to send."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any, Final, cast

from ferrule.app.authorization.principals import principal_id, principal_of
from ferrule.app.rounds.errors import (
    StateExpired,
    StateForeignCall,
    StateForeignPrincipal,
    StateTampered,
    StateTooLarge,
    StateUnknownKey,
    StateUsed,
)
from ferrule.app.rounds.journal import Journal
from ferrule.app.rounds.keys import content_digest
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.kernel.server import ServerRequestContext
from ferrule.kernel.session import RESUMED
from ferrule.protocol.inbound import NAME_PARAMS
from ferrule.stores.blobs import ValueTooLarge
from ferrule.wire.codec import Encoded, decode, encode

__all__ = ["open_state", "seal_inline", "seal_state"]

_REFERENCE: Final = "ref"


def _binding(request: ServerRequestContext[Any]) -> list[Any]:
    """Return the values that a state is bound to: method, name and digest of the arguments of the call."""
    params = request.params
    name = getattr(params, NAME_PARAMS.get(request.method, "name"), None)
    # Tools and prompts have arguments, resources have none. All digits: a client that could find two sets of arguments
    # with the same digest could go on with other arguments than those that were confirmed.
    return [request.method, name, content_digest(getattr(params, "arguments", None) or {}, digits=64)]


def _principal(request: ServerRequestContext[Any]) -> str | None:
    return principal_id(principal_of(request))


def seal_inline(request: ServerRequestContext[Any], settings: RoundsSettings, journal: Journal) -> str | None:
    """Return a token with the whole sealed state; ``None`` if it is larger than ``inline_state_bytes``."""
    body = encode(journal.to_json())
    if len(body) > settings.state.inline_bytes:
        return None
    return _sealed(request, settings, journal, Encoded(body))


async def seal_state(request: ServerRequestContext[Any], settings: RoundsSettings, journal: Journal) -> str:
    """Return a token for the client: the sealed state, or a sealed reference to a state in the store.

    Raises:
        StateTooLarge: the state is larger than ``inline_state_bytes``, and there is no store, or it is too large for
            the store too.
    """
    token = seal_inline(request, settings, journal)
    if token is not None:
        return token
    body = encode(journal.to_json())
    if settings.blobs is None:
        raise StateTooLarge(
            f"The state of this call has {len(body)} bytes, more than inline_state_bytes; configure a store"
        )
    # A new key in each round: a client may still send the state of an earlier one again.
    key = secrets.token_urlsafe(24)
    try:
        await settings.blobs.put(key, body, ttl_s=max(_expires_at(settings, journal) - settings.clock(), 0))
    except ValueTooLarge as error:
        raise StateTooLarge(f"The state of this call has {len(body)} bytes, more than the store keeps") from error
    return _sealed(request, settings, journal, {_REFERENCE: key})


def _sealed(request: ServerRequestContext[Any], settings: RoundsSettings, journal: Journal, content: Any) -> str:
    return settings.sealer.seal([_expires_at(settings, journal), _principal(request), _binding(request), content])


def _expires_at(settings: RoundsSettings, journal: Journal) -> float:
    # Each round extends the life of the state, but not for ever: it may contain permissions of its first round.
    return min(settings.clock() + settings.state.ttl_s, journal.started_at + settings.state.max_s)


async def open_state(request: ServerRequestContext[Any], settings: RoundsSettings, token: str) -> Journal:
    """Return the journal of a token.

    Raises:
        StateTampered: the token was not sealed by this server, or was changed.
        StateExpired: its time is over, or the store has deleted the state.
        StateForeignPrincipal: it was sealed for another principal.
        StateForeignCall: it was sealed for another method, name or other arguments.
        StateUsed: it was used before, and states are single-use.
    """
    try:
        payload = settings.sealer.open(token)
    except StateUnknownKey:
        settings.warn_of_keys()
        raise
    if not isinstance(payload, list) or len(cast("list[Any]", cast("object", payload))) != 4:
        raise StateTampered("The request state has an unknown form")
    expires_at, principal, binding, content = cast("list[Any]", cast("object", payload))
    # 2026-07-28, "Multi Round-Trip Requests": a state is bound to the principal, the request and a short time.
    if settings.clock() >= expires_at:
        raise StateExpired("The request state has expired; begin the call again")
    if principal != _principal(request):
        raise StateForeignPrincipal("The request state belongs to another principal")
    if binding != _binding(request):
        raise StateForeignCall("The request state belongs to another call")
    if settings.used_states is not None:
        # The digest of the payload, not of the token: the same payload could be written as another token.
        used = f"state/{hashlib.sha256(encode(payload)).hexdigest()[:32]}"
        mark = await settings.used_states.begin(used, ttl_s=expires_at - settings.clock())
        if mark.state != "mine":
            raise StateUsed("The request state has been used; begin the call again")
    if isinstance(content, dict):
        key = cast("dict[str, Any]", content).get(_REFERENCE)
        body = None if settings.blobs is None or not isinstance(key, str) else await settings.blobs.get(key)
        if body is None:
            raise StateExpired("The request state is no longer kept; begin the call again")
        content = decode(body)
    # For middleware: results of a resumed call must not be cached (2026-07-28, "Caching").
    request.session.notes |= {RESUMED}
    return Journal.from_json(content)
