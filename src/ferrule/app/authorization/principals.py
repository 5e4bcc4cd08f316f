"""The sender of a request as text that is equal in all processes; states, limits and kept values are bound to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ferrule.kernel.server import ServerRequestContext
from ferrule.wire.codec import encode_str, to_builtins
from ferrule.wire.faults import EncodeError

__all__ = ["principal_id", "principal_of", "scopes_of"]

_NAMES = ("id", "subject", "sub")


def principal_of(request: ServerRequestContext[Any]) -> Any:
    """Return the authenticated principal of a request; ``None`` for an anonymous sender."""
    return request.transport.principal


def scopes_of(principal: Any) -> frozenset[str]:
    """Return the scopes of a principal; none if it has no attribute ``scopes``."""
    # A user's own authenticator may return any object as the principal.
    found: Any = getattr(principal, "scopes", ())
    return cast("frozenset[str]", found) if isinstance(found, frozenset) else frozenset(found)


def principal_id(principal: Any) -> str | None:
    """Return a principal as text; ``None`` for an anonymous sender.

    The text is that of a string or number, the ``id``, ``subject`` or ``sub`` of an object or mapping, or the JSON form
    of another value.

    Raises:
        TypeError: the principal has none of these, so that its text would differ between processes.
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
