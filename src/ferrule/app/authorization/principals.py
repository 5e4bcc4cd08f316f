"""Who sent a request, as one text that is equal in every process: what states, limits and kept values are bound to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.kernel.server import ServerRequestContext
from ferrule.wire.codec import encode_str, to_builtins
from ferrule.wire.faults import EncodeError

__all__ = ["principal_id", "principal_of", "scopes_of"]

_NAMES = ("id", "subject", "sub")


def principal_of(request: ServerRequestContext[Any]) -> Any:
    """Return the principal of a request, as authentication gave it; ``None`` for an anonymous sender."""
    return request.transport.principal


def scopes_of(principal: Any) -> frozenset[str]:
    """Return the scopes that a principal was granted; none for one without such an attribute."""
    # An authenticator of the user's may return any object as the principal.
    return frozenset(getattr(principal, "scopes", ()))


def principal_id(principal: Any) -> str | None:
    """Return a principal as text; ``None`` for an anonymous sender.

    Text and numbers stand for themselves; an object or mapping by its ``id``, ``subject`` or ``sub``; anything else
    that has a JSON form by that.

    Raises:
        TypeError: it has none of these, so that two processes could not agree on who it is.
    """
    if principal is None:
        return None
    if isinstance(principal, str | int):
        return str(principal)
    facts = cast("Mapping[str, Any] | None", principal if isinstance(principal, Mapping) else None)
    for name in _NAMES:
        found = getattr(cast("Any", principal), name, None) if facts is None else facts.get(name)
        if found is not None:
            return str(found)
    try:
        return encode_str(to_builtins(cast("Any", principal)))
    except EncodeError as error:
        raise TypeError(
            f"A {type(cast('object', principal)).__name__} as principal has no id, subject or sub, and no JSON form"
        ) from error
