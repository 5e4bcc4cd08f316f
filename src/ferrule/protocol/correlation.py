"""Matching answers to questions: ids, progress tokens, cancellation. Tables only; who waits is the kernel's affair.

Traps that live here so that they live nowhere else: of a peer's requests, ``1`` and ``"1"`` are different ids, ``1.0``
and ``true`` are none, and a dict would take them for the same key; of our own requests, which have integers only, a
peer may echo ``1`` as ``"1"`` or ``1.0`` (see `own_id`); progress must rise strictly; a cancellation may name an id
that is unknown or finished, which is no fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, cast

from ferrule.wire.jsonrpc import RequestId

__all__ = ["IdSequence", "ProgressGate", "cancelled_request_id", "own_id", "progress_token"]

_MAX_ID_DIGITS: Final = 18


class IdSequence:
    """Integer ids that never repeat on a connection: right for both eras' rules on reuse.

    Args:
        last: where to begin, for one connection that several processes count on.
    """

    __slots__ = ("_last",)

    def __init__(self, last: int = 0) -> None:
        self._last = last

    def next(self) -> int:
        """Return the next id, from 1."""
        self._last += 1
        return self._last


def own_id(echoed: Any) -> int | None:
    """Return the id or progress token of `IdSequence` that a peer echoed; ``None`` if it cannot be one of those.

    Peers that keep ids as text or as floating-point numbers send them back so; other clients take that too.
    """
    if type(echoed) is int:
        return echoed
    if type(echoed) is float:
        return int(echoed) if echoed.is_integer() else None
    if type(echoed) is str and len(echoed) <= _MAX_ID_DIGITS and echoed.isascii() and echoed.isdigit():
        return int(echoed)
    return None


def progress_token(params: Mapping[str, Any] | None) -> RequestId | None:
    """Return the progress token that a request carries; ``None`` without one or with one of the wrong kind."""
    if params is None:
        return None
    meta = params.get("_meta")
    if not isinstance(meta, Mapping):
        return None
    token: Any = cast("Mapping[str, Any]", meta).get("progressToken")
    return token if type(token) is int or isinstance(token, str) else None


def cancelled_request_id(params: Mapping[str, Any] | None) -> RequestId | None:
    """Return the request that `notifications/cancelled` names; ``None`` if it names none that could exist."""
    id: Any = None if params is None else params.get("requestId")
    return id if type(id) is int or isinstance(id, str) else None


class ProgressGate:
    """Lets a progress value pass only if it rises, as the specification demands of the sender."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: float | None = None

    def passes(self, progress: float) -> bool:
        """Whether ``progress`` may be sent now; notes it if so. What JSON cannot say (NaN, infinity) never passes."""
        if not isfinite(progress) or (self._last is not None and progress <= self._last):
            return False
        self._last = progress
        return True
