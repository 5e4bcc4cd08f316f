"""Synonyms for words of a query: verbs with the same meaning in APIs, abbreviations, question words.

No word here is specific to one API. A synonym counts less than the word itself.
"""

from __future__ import annotations

__all__ = ["STOP_WORDS", "meanings_of"]

STOP_WORDS = frozenset(
    word
    for line in (
        "a an and are as at be been by can could do does for from had has have how i if in into is it its just me my",
        "of on or our please should so some tell than that the their them then there these they this to us want was",
        "we were what when where which who will with would you your",
    )
    for word in line.split()
)
"""Stop words, which are ignored in queries."""

_SAME_STRENGTH = 0.7
_IMPLIED_STRENGTH = 0.4

_SAME = (
    "create add new make open insert register post",
    "delete remove destroy drop erase",
    "update edit change modify set patch put write",
    "list show all every browse enumerate",
    "get show read view see retrieve fetch display",
    "search find query lookup",
    "send deliver submit publish",
    "cancel stop abort",
    "run start execute trigger dispatch launch",
    "user member account people person",
    "repo repository repositories",
    "org organization organisation",
    "picture image photo",
    "download fetch export",
    "upload import attach",
    "invite add",
    "config configuration settings",
    "log logs",
    "auth authentication authorization",
    "comment reply",
)
"""Groups of synonyms."""

_IMPLIED = {
    "what": "list get",
    "which": "list get",
    "who": "list get user member",
    "i": "authenticated current me",
    "me": "authenticated current",
    "my": "authenticated current me",
    "mine": "authenticated current me",
    "someone": "user member",
    "somebody": "user member",
    "colleague": "user member",
    "publish": "create",
    "write": "create",
    "close": "update",
    "assign": "add set",
    "attach": "add",
    "approve": "accept review",
    "accept": "approve",
    "pr": "pull",
    "protect": "protection",
}
"""Words with synonyms in one direction only."""


def _table() -> dict[str, dict[str, float]]:
    made: dict[str, dict[str, float]] = {}
    for word, others in _IMPLIED.items():
        made[word] = dict.fromkeys(others.split(), _IMPLIED_STRENGTH)
    for group in _SAME:
        words = group.split()
        for word in words:
            made.setdefault(word, {}).update({other: _SAME_STRENGTH for other in words if other != word})
    return made


_TABLE = _table()


def meanings_of(word: str) -> dict[str, float]:
    """Return the synonyms of a word in lower case, each with its weight, at most 1."""
    return _TABLE.get(word, {})
