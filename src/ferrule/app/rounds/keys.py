"""Keys of questions and steps: equal in each round, and different for any two of them.

A key is ``scope/base``, plus ``#n`` for the second and later occurrences. The base is the author's key, or the method
with a digest of the content. Explicit keys contain letters, digits, ``_``, ``.`` and ``-`` only, so that none can look
like an occurrence (``k#2``), a scope (``a/k``) or a name that this library makes (``step:k``).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from ferrule.app.rounds.errors import RoundsError
from ferrule.wire.codec import canonical

__all__ = [
    "Occurrences",
    "check_key",
    "content_digest",
    "current_scope",
    "digest_of_texts",
    "question_base",
    "scoped",
]

_EXPLICIT: Final = re.compile(r"[A-Za-z0-9_.\-]{1,64}")

_scope: ContextVar[str] = ContextVar("ferrule_scope", default="")


def check_key(key: str) -> str:
    """Return ``key``, if it is a valid explicit key or scope name.

    Raises:
        RoundsError: it is empty, longer than 64 characters, or has other characters (the author's mistake).
    """
    if not _EXPLICIT.fullmatch(key):
        raise RoundsError(f"{key!r} is not a key: 1 to 64 letters, digits, '_', '.' and '-'")
    return key


def content_digest(content: Any, *, digits: int = 16) -> str:
    """Return a digest of the canonical JSON of ``content`` (``1`` and ``1.0`` are equal).

    Args:
        content: JSON values.
        digits: number of hexadecimal digits, at most 64. 16 are enough for values of the author; values that a peer
            chooses need all of them.
    """
    return hashlib.sha256(canonical(content)).hexdigest()[:digits]


def digest_of_texts(*texts: str) -> str:
    """Return a digest of some texts and their lengths: 16 hexadecimal digits; cheaper than `content_digest`."""
    # With lengths, or `("ab", "c")` and `("a", "bc")` would be equal. "replace": texts may contain lone surrogates.
    return hashlib.sha256("".join([f"{len(text)}:{text}" for text in texts]).encode("utf-8", "replace")).hexdigest()[
        :16
    ]


def question_base(key: str | None, method: str, digest: str) -> str:
    """Return the base of a question's key: the explicit one, or the method with the content's digest."""
    if key is not None:
        return check_key(key)
    # `/` separates scopes.
    return f"{method.replace('/', '-')}:{digest}"


def current_scope() -> str:
    """Return the scope of the running branch: ``""`` or ``"a/b/"``."""
    return _scope.get()


@contextmanager
def scoped(name: str) -> Generator[None]:
    """Put the keys of questions and steps inside the context manager under a scope."""
    token = _scope.set(f"{_scope.get()}{name}/")
    try:
        yield
    finally:
        _scope.reset(token)


class Occurrences:
    """Counts the uses of each base, including its scope."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def next(self, full_base: str) -> str:
        """Return the key of the next occurrence of a scoped base."""
        count = self._counts.get(full_base, 0) + 1
        self._counts[full_base] = count
        return full_base if count == 1 else f"{full_base}#{count}"
