"""Names that every model API takes, from names of tools and of properties, and back.

A name that fits stays as it is. Any other gets its unusual characters replaced, its middle cut, and six digits of its
SHA-256 as an end. So a name depends on nothing but the original: it stays the same when other tools come and go, which
keeps prompt caches valid and the calls in stored conversations known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

__all__ = ["MAX_NAME", "NAME_PATTERN", "fitting_name", "fitting_names"]

MAX_NAME: Final = 64
"""Maximum number of characters of a name: OpenAI's limit, the lowest of the APIs."""

NAME_PATTERN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What a name looks like: the characters that OpenAI and Anthropic take, with the first character that Gemini takes."""

_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9_-]")
_HEAD, _TAIL = 24, 30


def fitting_name(name: str, pattern: re.Pattern[str] = NAME_PATTERN, digits: int = 6) -> str:
    """Return a name of at most 64 characters that fits the pattern; the name itself if it does.

    Args:
        name: any text.
        pattern: what is allowed; it must allow letters, digits and ``_``.
        digits: hexadecimal digits of the end of a changed name, at most 6.
    """
    if pattern.fullmatch(name):
        return name
    clean = _UNUSUAL.sub("_", name)
    if pattern is not NAME_PATTERN:
        clean = re.sub(r"[^A-Za-z0-9_]", "_", clean)
    if not clean or not (clean[0].isalpha() or clean[0] == "_"):
        clean = f"_{clean}"
    if len(clean) > _HEAD + _TAIL:
        clean = f"{clean[:_HEAD]}_{clean[-_TAIL:]}"
    return f"{clean}_{sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:digits]}"


def fitting_names(
    names: Iterable[str], reserved: Iterable[str] = (), pattern: re.Pattern[str] = NAME_PATTERN
) -> dict[str, str]:
    """Return fitting name → name, for different names; a name that comes twice is taken once.

    Args:
        names: the original names.
        reserved: fitting names that are taken.
        pattern: as for `fitting_name`.
    """
    found: dict[str, str] = {}
    taken = set(reserved)
    different = list(dict.fromkeys(names))
    # Names that fit come first: no other can take theirs.
    for name in sorted(different, key=lambda each: not pattern.fullmatch(each)):
        made, salt = fitting_name(name, pattern), 0
        while made in taken:
            salt += 1
            made = fitting_name(f"{name}\0{salt}", pattern)
        taken.add(made)
        found[made] = name
    return found
