"""Parses and formats ``WWW-Authenticate`` headers (RFC 9110, 11.6.1; RFC 6750, 3; RFC 9449, 7.1).

One header may have several challenges, each a scheme with parameters, all separated by commas. Parsing never fails:
invalid parts are skipped, because the request was refused in any case.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Challenge", "format_challenge", "parse_challenges"]

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(rf'({_TOKEN})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(rf"({_TOKEN})(?=\s|,|$)")
_SEPARATOR = re.compile(r"[\s,]*")
_MAX_CHARS = 8192  # a malicious server may send any length; real headers have a few hundred characters


@dataclass(frozen=True, slots=True)
class Challenge:
    """One challenge.

    Attributes:
        scheme: the scheme in lower case: ``bearer``, ``dpop``.
        parameters: the values by name in lower case; the first value of a repeated name.
    """

    scheme: str
    parameters: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def error(self) -> str | None:
        """The error code, such as ``insufficient_scope``."""
        return self.parameters.get("error")

    @property
    def scopes(self) -> tuple[str, ...] | None:
        """The required scopes; ``None`` if the challenge names none."""
        scope = self.parameters.get("scope")
        return None if scope is None else tuple(scope.split())

    @property
    def resource_metadata(self) -> str | None:
        """URL of the protected resource's metadata (RFC 9728, 5.1)."""
        return self.parameters.get("resource_metadata")


def parse_challenges(header: str | None) -> list[Challenge]:
    """Return the challenges of a header value; several headers may be joined with commas."""
    text = (header or "")[:_MAX_CHARS]
    found: list[Challenge] = []
    parameters: dict[str, str] | None = None
    position = 0
    while position < len(text):
        position = _end(_SEPARATOR.match(text, position), position)
        if position >= len(text):
            break
        parameter = _PARAMETER.match(text, position)
        if parameter is not None:
            if parameters is not None:
                name, quoted, plain = parameter.groups()
                value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else plain
                parameters.setdefault(name.lower(), value)
            position = parameter.end()
            continue
        scheme = _SCHEME.match(text, position)
        if scheme is not None:
            parameters = {}
            found.append(Challenge(scheme.group(1).lower(), parameters))
            position = scheme.end()
            continue
        comma = text.find(",", position)
        position = len(text) if comma < 0 else comma
    return found


def _end(match: re.Match[str] | None, position: int) -> int:
    return position if match is None else match.end()


def format_challenge(scheme: str, parameters: Mapping[str, str | None]) -> str:
    """Return a challenge as a header value, with quoted values; parameters that are ``None`` are left out."""
    shown = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items() if value is not None)
    return f"{scheme} {shown}" if shown else scheme


def _quoted(value: str) -> str:
    safe = "".join(char if 0x20 <= ord(char) < 0x7F else "?" for char in value)
    return safe.replace("\\", "\\\\").replace('"', '\\"')
