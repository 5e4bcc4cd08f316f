"""A ranked index of tools by their words: SQLite's FTS5, in memory.

Names are split into words (``createPullRequest``, ``pulls_create-review``), words are reduced to their stem, and verbs
that APIs use for the same thing count for each other. Fields weigh differently: a word in the name says more than one
in the description of an argument.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable

from msgspec import Struct

__all__ = ["MAX_QUERY_WORDS", "IndexedTool", "ToolIndex", "words_of"]

MAX_QUERY_WORDS = 32
"""Words of a query that are looked for; more are left aside."""

_WORD = re.compile(r"[^\W_]+")
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")

_COLUMNS = ("name", "title", "tags", "description", "arguments")
_WEIGHTS = (8.0, 6.0, 3.0, 3.0, 1.0)

_STOP_WORDS = frozenset(
    _WORD.findall(
        "a an and are as at be by can do does for from get give has have how i if in into is it its me my of on or "
        "our please so some tell that the their them there these this to us want was we what when where which who "
        "will with you your"
    )
)
"""Words that say nothing of what is looked for. ``get`` is one of them: too many names have it."""

_SAME = (
    "create add new make open post insert register",
    "delete remove destroy drop erase",
    "update edit change modify set patch rename",
    "list show all every browse enumerate",
    "search find query lookup",
    "send deliver submit publish",
    "cancel stop abort revoke",
    "user member account people person",
    "repo repository repositories",
    "org organization organisation",
    "picture image photo",
    "download fetch export",
    "upload import",
)
_SYNONYMS: dict[str, tuple[str, ...]] = {}
for _group in _SAME:
    _words = tuple(_group.split())
    for _word in _words:
        _SYNONYMS[_word] = (*_SYNONYMS.get(_word, ()), *(other for other in _words if other != _word))


class IndexedTool(Struct, frozen=True, kw_only=True):
    """What is known of one tool.

    Attributes:
        name: of the tool.
        title, description: for people and models.
        tags: free words.
        arguments: their names and descriptions, as one text.
    """

    name: str
    title: str = ""
    description: str = ""
    tags: str = ""
    arguments: str = ""


class ToolIndex:
    """Tools, found by words.

    Args:
        tools: what is indexed.

    Raises:
        RuntimeError: this Python's SQLite was built without FTS5.
    """

    def __init__(self, tools: Iterable[IndexedTool]) -> None:
        # Used by one thread at a time, though not always by the one that made it.
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        try:
            self._connection.execute(
                f"CREATE VIRTUAL TABLE tools USING fts5(tool UNINDEXED, {', '.join(_COLUMNS)}, "
                "tokenize = 'porter unicode61 remove_diacritics 2')"
            )
        except sqlite3.OperationalError as error:
            raise RuntimeError("searching tools needs SQLite with FTS5, which this Python's lacks") from error
        self._connection.executemany(
            "INSERT INTO tools VALUES (?, ?, ?, ?, ?, ?)",
            (
                (
                    tool.name,
                    words_of(tool.name),
                    words_of(tool.title),
                    words_of(tool.tags),
                    words_of(tool.description),
                    words_of(tool.arguments),
                )
                for tool in tools
            ),
        )

    def search(self, query: str) -> list[str]:
        """Return the names of the tools that have some word of the query, the best first."""
        expression = _expression(query)
        if expression is None:
            return []
        weights = ", ".join(str(weight) for weight in (0.0, *_WEIGHTS))
        rows = self._connection.execute(
            f"SELECT tool FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, {weights}), length(tool), tool",
            (expression,),
        )
        return [name for (name,) in rows]


def words_of(text: str) -> str:
    """Return the words of a text, those of joined names apart: ``get pull request`` for ``getPullRequest``."""
    return " ".join(_WORD.findall(_CASE_CHANGE.sub(" ", text)))


def _expression(query: str) -> str | None:
    """Return an FTS5 expression for a query in words of any kind; ``None`` for one without a word."""
    words = [word.lower() for word in words_of(query[:2000]).split()]
    wanted = [word for word in words if word not in _STOP_WORDS] or words
    terms: dict[str, None] = {}
    for word in wanted[:MAX_QUERY_WORDS]:
        terms[f'"{word}"'] = None
        if len(word) > 3:
            terms[f'"{word}"*'] = None
        for other in _SYNONYMS.get(word, ()):
            terms[f'"{other}"'] = None
    return " OR ".join(terms) or None
