"""The words that both sides of a server card share: media types, paths, the form of a name.

Source: the experimental server card extension (SEP-2127): ``schema.ts``, ``docs/discovery.md``.
"""

from __future__ import annotations

from typing import Final

from ferrule.wire.patterns import pattern

__all__ = [
    "CARD_SCHEMA",
    "CARD_SUFFIX",
    "CARD_TYPE",
    "CATALOG_PATH",
    "CATALOG_TYPE",
    "MAX_TEXT",
    "NAME",
    "card_url",
    "first_text",
    "last_part",
    "shortened",
]

CARD_TYPE: Final = "application/mcp-server-card+json"
CATALOG_TYPE: Final = "application/ai-catalog+json"
CATALOG_PATH: Final = "/.well-known/ai-catalog.json"
CARD_SUFFIX: Final = "/server-card"
"""Reserved below the URL of an MCP endpoint."""

CARD_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
MAX_TEXT: Final = 100
"""Most characters of title and description."""

NAME: Final = pattern(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+")
"""The form of a card's name: a domain in reverse-DNS form, one slash, a name."""


_OTHER: Final = pattern(r"[^a-z0-9._]+")


def card_url(url: str) -> str:
    """Return the URL of the card of the MCP endpoint at a URL, whose query is left out."""
    return f"{url.partition('?')[0].rstrip('/')}{CARD_SUFFIX}"


def last_part(name: str) -> str:
    """Return a server's name as the part behind the slash of a card's name: ``"Code Review"`` is ``code-review``."""
    return _OTHER.sub("-", name.rpartition("/")[2].lower()).strip("-.") or "server"


def shortened(text: str) -> str:
    """Return a text in one line of at most `MAX_TEXT` characters, cut between words."""
    line = " ".join(text.split())
    if len(line) <= MAX_TEXT:
        return line
    cut = line[: MAX_TEXT - 1]
    return f"{cut.rpartition(' ')[0] or cut}…"


def first_text(*given: str | None) -> str:
    """Return the first of these texts that is not blank, `shortened`; ``"server"`` if all are."""
    return next((text for each in given if (text := shortened(each or ""))), "server")
