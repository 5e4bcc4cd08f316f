"""Request ids, progress tokens and cancellations: the values with which messages refer to each other.

Of a peer's requests, ``1`` and ``"1"`` are different ids, and ``1.0`` and ``true`` are not ids, although a dict treats
them as the same key. Of Ferrule's own requests, which have integer ids only, a peer may echo ``1`` as ``"1"`` or
``1.0`` (see `own_id`). Progress must rise strictly. A cancellation may name an unknown or finished request, which is no
error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from math import isfinite
from typing import Any, Final, cast

from ferrule.wire.jsonrpc import RequestId

__all__ = ["IdSequence", "ProgressGate", "cancelled_request_id", "own_id", "progress_token"]

_MAX_ID_DIGITS: Final = 18


class IdSequence:
    """Integer ids that never repeat on a connection, as both eras require.

    Args:
        last: the last used id, for a connection that several processes share.
    """

    __slots__ = ("next",)

    next: Callable[[], int]
    """Returns the next id, from 1."""

    def __init__(self, last: int = 0) -> None:
        self.next = count(last + 1).__next__


def own_id(echoed: Any) -> int | None:
    """Return an id or progress token of `IdSequence` that a peer echoed; ``None`` if it cannot be one.

    Some peers keep ids as text or as floating-point numbers, and echo them in that form.
    """
    if type(echoed) is int:
        return echoed
    if type(echoed) is float:
        return int(echoed) if echoed.is_integer() else None
    if type(echoed) is str and len(echoed) <= _MAX_ID_DIGITS and echoed.isascii() and echoed.isdigit():
        return int(echoed)
    return None


def progress_token(params: Mapping[str, Any] | None) -> RequestId | None:
    """Return the progress token of a request; ``None`` without one, or if its type is wrong."""
    if params is None:
        return None
    meta = params.get("_meta")
    if not isinstance(meta, Mapping):
        return None
    token: Any = cast("Mapping[str, Any]", meta).get("progressToken")
    return token if type(token) is int or isinstance(token, str) else None


def cancelled_request_id(params: Mapping[str, Any] | None) -> RequestId | None:
    """Return the request id of a ``notifications/cancelled``; ``None`` if it has no valid id."""
    id: Any = None if params is None else params.get("requestId")
    return id if type(id) is int or isinstance(id, str) else None


class ProgressGate:
    """Passes progress values only if they rise, as the specification requires of the sender ("Progress")."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: float | None = None

    def passes(self, progress: float) -> bool:
        """Return whether ``progress`` may be sent, and store it if so; NaN and infinities may not (JSON lacks them)."""
        if not isfinite(progress) or (self._last is not None and progress <= self._last):
            return False
        self._last = progress
        return True
