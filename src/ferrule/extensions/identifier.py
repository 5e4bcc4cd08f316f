"""The grammar of extension identifiers (2026-07-28 "Versioning"): that of ``_meta`` keys with a mandatory prefix."""

from __future__ import annotations

from typing import Final

from ferrule.wire.patterns import pattern

__all__ = ["check_identifier"]

# A reverse-domain prefix, one slash, a name.
_IDENTIFIER: Final = pattern(
    r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?)*/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
)


def check_identifier(extension: type[object]) -> None:
    """Check the identifier of the class of an extension; an abstract one has none.

    Raises:
        ValueError: it is not a domain prefix, a slash and a name.
    """
    identifier: str | None = getattr(extension, "identifier", None)  # an abstract class has none
    if identifier is not None and not _IDENTIFIER.fullmatch(identifier):
        raise ValueError(f"{identifier!r} is not an extension identifier: a domain prefix, a slash and a name")
