"""Warnings for deprecated features of the protocol, once per process (2026-07-28, "Deprecated features")."""

from __future__ import annotations

import warnings
from typing import Final

from ferrule.wire.struct import Value

__all__ = ["DEPRECATED", "Deprecation", "ProtocolDeprecationWarning", "warn_deprecated"]


class ProtocolDeprecationWarning(DeprecationWarning):
    """A feature of the protocol is deprecated; it keeps working for as long as revisions have it."""


class Deprecation(Value, frozen=True):
    """One deprecated feature.

    Attributes:
        feature: its name.
        proposal: the proposal that deprecated it.
        since: the first revision in which it is deprecated.
        removal: the earliest removal.
        instead: the replacement.
    """

    feature: str
    proposal: str
    since: str
    removal: str
    instead: str

    def __str__(self) -> str:
        return (
            f"{self.feature}: deprecated by {self.proposal} since {self.since}, to be removed no earlier than "
            f"{self.removal}; use {self.instead}"
        )


_FIRST_AFTER: Final = "the first revision on or after 2027-07-28"
_MODERN: Final = "the revision of 2026-07-28"

DEPRECATED: Final = {
    "roots": Deprecation("Roots", "SEP-2577", _MODERN, _FIRST_AFTER, "tool parameters, resource URIs or configuration"),
    "sampling": Deprecation("Sampling", "SEP-2577", _MODERN, _FIRST_AFTER, "the API of a model provider"),
    "logging": Deprecation(
        "Log messages to the client", "SEP-2577", _MODERN, _FIRST_AFTER, "stderr, the logging module or OpenTelemetry"
    ),
    "http+sse": Deprecation(
        "The HTTP+SSE transport",
        "SEP-2596",
        "the revision of 2025-03-26",
        "three months after that proposal is final",
        "Streamable HTTP",
    ),
}
"""The deprecations by the name that `warn_deprecated` accepts."""

_warned: set[str] = set()


def warn_deprecated(name: str, *, stacklevel: int = 2) -> None:
    """Warn of a deprecated feature, once per process.

    Args:
        name: a key of `DEPRECATED`.
        stacklevel: number of frames from this function to the user's code.
    """
    if name not in _warned:
        _warned.add(name)
        warnings.warn(str(DEPRECATED[name]), ProtocolDeprecationWarning, stacklevel=stacklevel + 1)
