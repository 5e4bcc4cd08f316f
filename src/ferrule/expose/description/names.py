"""Makes names of tools and arguments from the names of operations and parameters.

The names are stable: a name depends on the operation itself and on the operations that would have the same name, never
on the position in the document. Model APIs take ``[a-zA-Z0-9_-]{1,64}`` as the name of a tool and of an argument.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import sha256

__all__ = ["MAX_NAME", "argument_names", "clean", "operation_names", "path_name", "shorten"]

MAX_NAME = 64
"""Maximum number of characters of a name."""

_DIGITS = 8
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")
_REPEATED = re.compile(r"_{2,}")
_ARGUMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""A name that an argument keeps: of django-filter, which tells ``price__gte`` from ``price_gte``."""


def clean(text: str) -> str:
    """Return ``text`` with each run of other characters than letters, digits, ``_`` and ``-`` as one ``_``."""
    return _REPEATED.sub("_", _OTHER.sub("_", text)).strip("_-")


def shorten(name: str, identity: str) -> str:
    """Return ``name`` with at most `MAX_NAME` characters; the end of a longer one is a digest of ``identity``."""
    if len(name) <= MAX_NAME:
        return name
    return f"{name[: MAX_NAME - _DIGITS - 1].rstrip('_-')}_{_digest(identity)}"


def path_name(method: str, path: str) -> str:
    """Return a name made of method and path: ``get_users_id_posts`` for ``GET /users/{id}/posts``."""
    return clean(f"{method.lower()}_{path}") or method.lower()


def operation_names(operations: Sequence[tuple[str, str, str | None]]) -> list[str]:
    """Return the tool names of operations, in their order; no two are the same.

    An operation is named after its id. Operations without one, and all those that share one, are named after method and
    path. Names that are the same even then, or only once they are shortened, end in a digest of method and path.

    Args:
        operations: method, path and operation id of each; no two have the same method and path.
    """
    ids = [clean(given) if given else "" for _, _, given in operations]
    counts = Counter(shorten(name, name).lower() for name in ids if name)
    wanted: list[str] = []
    for (method, path, given), name in zip(operations, ids, strict=True):
        if name and counts[shorten(name, name).lower()] == 1:
            wanted.append(shorten(name, given or name))
        else:
            wanted.append(shorten(path_name(method, path), f"{method} {path}"))
    taken = Counter(name.lower() for name in wanted)
    made: list[str] = []
    for (method, path, _), name in zip(operations, wanted, strict=True):
        if taken[name.lower()] > 1:
            identity = f"{method} {path}"
            name = f"{name[: MAX_NAME - _DIGITS - 1].rstrip('_-')}_{_digest(identity)}"
        made.append(name)
    return made


def argument_names(wanted: Iterable[tuple[str, str]]) -> list[str]:
    """Return the argument names of parameters, in their order; no two are the same.

    The first parameter of a name keeps it. For a later one its location is added, ``id_body``, and a number if that is
    taken too.

    Args:
        wanted: name in the request, and location (``path``, ``query``, ``body`` …).
    """
    made: list[str] = []
    taken: set[str] = set()
    for name, place in wanted:
        base = name if _ARGUMENT.fullmatch(name) else shorten(clean(name) or place, name)
        found = base
        if found in taken:
            found = base = f"{base[: MAX_NAME - len(place) - 4]}_{place}"
        number = 2
        while found in taken:
            found = f"{base}_{number}"
            number += 1
        taken.add(found)
        made.append(found)
    return made


def _digest(identity: str) -> str:
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
