"""A ranked index of tools by their words: SQLite's FTS5, in memory.

Names are split into words (``createPullRequest``, ``pulls_create-review``) and words are reduced to their stem. The
*head* of a tool is its name, title and tags. A tool ranks higher if its head has more words of the query (rare words
count more than common ones), and if its head has fewer other words: for "create an issue", ``issues_create`` ranks
above ``issues_create_comment``. Words that only the description or the arguments have count less, since long texts have
many words.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import log
from threading import Lock
from typing import Any, cast
from weakref import finalize

from msgspec import Struct

from ferrule.search.words import STOP_WORDS, meanings_of
from ferrule.wire.json_types import is_mapping

__all__ = ["MAX_QUERY_CHARS", "MAX_QUERY_WORDS", "IndexedTool", "ToolIndex", "indexed_definition", "words_of"]

MAX_QUERY_CHARS = 2000
"""Maximum number of characters of a query; the rest is ignored."""

MAX_QUERY_WORDS = 32
"""Maximum number of words of a query; the rest is ignored."""

_WORD = re.compile(r"[^\W_]+")
_CASE_CHANGE = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")

_HEAD = 1.0
_SENTENCE = 0.35
_ARGUMENT = 0.3
_TEXT = 0.1
_TEXT_FIELDS = {"sentence": _SENTENCE, "arguments": _ARGUMENT, "description": _TEXT}
"""Weight of a word in each field; 1 in the head."""

_PREFIX = 0.7
"""Weight of a longer word that begins with the word of the query."""

_MIN_PREFIX = 4
"""Least number of characters of a word for which longer words are searched."""

_PRECISION = 0.7
"""Weight of the share of the head that the query covers."""

_INDEXED_CHARS = 4000
"""Maximum number of indexed characters of one field, since a peer may have written the definition."""

_TOKENIZER = "tokenize = 'porter unicode61 remove_diacritics 2'"


class IndexedTool(Struct, frozen=True, kw_only=True):
    """The searched texts of one tool.

    Attributes:
        name: the name of the tool.
        title, description: its title and description.
        tags: its tags, as one text.
        arguments: the names of its arguments, as one text.
        argument_texts: the descriptions of its arguments, as one text.
    """

    name: str
    title: str = ""
    description: str = ""
    tags: str = ""
    arguments: str = ""
    argument_texts: str = ""


class ToolIndex:
    """A full-text index of tools; safe to use from several threads.

    Args:
        tools: the tools to index.

    Raises:
        RuntimeError: this Python's SQLite was built without FTS5.
    """

    def __init__(self, tools: Iterable[IndexedTool]) -> None:
        self._lock = Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        # From Python 3.13 on, a connection that is not closed warns when it is collected.
        finalize(self, self._connection.close).atexit = False
        try:
            self._make_tables()
        except sqlite3.OperationalError as error:
            raise RuntimeError("searching tools needs SQLite with FTS5, which this Python's lacks") from error
        self._names: list[str] = []
        self._heads: list[set[str]] = []
        for number, tool in enumerate(tools):
            self._names.append(tool.name)
            self._heads.append(set())
            self._add(number, tool)
        rows = self._connection.execute("SELECT term, doc FROM head_words")
        for term, number in cast("Iterator[tuple[str, int]]", rows):
            self._heads[number].add(term)
        self._uses = Counter(term for head in self._heads for term in head)
        self._sizes = [sum(map(self._rarity, head)) for head in self._heads]

    def search(self, query: str) -> list[str]:
        """Return the names of the tools that have some word of the query, the best first."""
        words = _query_words(query)
        if not words or not self._names:
            return []
        with self._lock:
            scores = self._scores(words)
        names = self._names
        ranked = sorted(scores, key=lambda number: (-scores[number], len(names[number]), names[number]))
        return [names[number] for number in ranked]

    # -- making ----------------------------------------------------------------------------------------------------

    def _make_tables(self) -> None:
        run = self._connection.execute
        run(f"CREATE VIRTUAL TABLE heads USING fts5(head, content='', {_TOKENIZER})")
        run(f"CREATE VIRTUAL TABLE texts USING fts5({', '.join(_TEXT_FIELDS)}, content='', {_TOKENIZER})")
        run(f"CREATE VIRTUAL TABLE queries USING fts5(word, {_TOKENIZER})")
        for table in ("head", "text"):
            run(f"CREATE VIRTUAL TABLE {table}_words USING fts5vocab({table}s, 'instance')")
        run("CREATE VIRTUAL TABLE query_words USING fts5vocab(queries, 'instance')")

    def _add(self, number: int, tool: IndexedTool) -> None:
        words = words_of(f"{tool.name} {tool.title} {tool.tags}").split()
        head = [word for word in words if _tells(word)] or words
        sentence = _SENTENCE_END.split(tool.description.strip(), maxsplit=1)
        rest = sentence[1] if len(sentence) > 1 else ""
        self._connection.execute("INSERT INTO heads (rowid, head) VALUES (?, ?)", (number, " ".join(head)))
        self._connection.execute(
            f"INSERT INTO texts (rowid, {', '.join(_TEXT_FIELDS)}) VALUES (?, ?, ?, ?)",
            (number, words_of(sentence[0]), words_of(tool.arguments), words_of(f"{rest} {tool.argument_texts}")),
        )

    # -- ranking ---------------------------------------------------------------------------------------------------

    def _scores(self, words: list[str]) -> dict[int, float]:
        meanings = [{word: 1.0, **meanings_of(word)} for word in words]
        stems = self._stems({variant for meaning in meanings for variant in meaning})
        covered: dict[int, float] = {}
        matched: dict[int, set[str]] = {}
        for word, meaning in zip(words, meanings, strict=True):
            hits, found = self._hits(word, meaning, stems)
            weight = self._rarity_of(len(hits))
            for number, strength in hits.items():
                covered[number] = covered.get(number, 0.0) + weight * strength
            for number, terms in found.items():
                matched.setdefault(number, set()).update(terms)
        return {
            number: score * (1.0 - _PRECISION + _PRECISION * self._precision(number, matched.get(number, ())))
            for number, score in covered.items()
        }

    def _hits(
        self, word: str, meaning: dict[str, float], stems: dict[str, str]
    ) -> tuple[dict[int, float], dict[int, set[str]]]:
        """Return the weight of a query word for each tool, and the matching words of the tool's head."""
        hits: dict[int, float] = {}
        found: dict[int, set[str]] = {}
        for variant, strength in meaning.items():
            stem = stems[variant]
            for term, number in self._postings("head_words", "term, doc", stem, variant == word):
                found.setdefault(number, set()).add(term)
                counted = strength if term == stem else strength * _PREFIX
                hits[number] = max(hits.get(number, 0.0), counted)
        for term, number, field in self._postings("text_words", "term, doc, col", stems[word], True):
            counted = _TEXT_FIELDS[field] if term == stems[word] else _TEXT_FIELDS[field] * _PREFIX
            hits[number] = max(hits.get(number, 0.0), counted)
        return hits, found

    def _postings(self, table: str, columns: str, stem: str, with_longer: bool) -> Iterator[Any]:
        select = f"SELECT DISTINCT {columns} FROM {table} WHERE term "
        if with_longer and len(stem) >= _MIN_PREFIX:
            return self._connection.execute(select + ">= ? AND term < ?", (stem, f"{stem}\U0010ffff"))
        return self._connection.execute(select + "= ?", (stem,))

    def _stems(self, words: set[str]) -> dict[str, str]:
        """Return the stems of words, as in the index."""
        ordered = sorted(words)
        run = self._connection.execute
        run("DELETE FROM queries")
        self._connection.executemany("INSERT INTO queries (rowid, word) VALUES (?, ?)", enumerate(ordered))
        found = dict(run("SELECT doc, term FROM query_words").fetchall())
        return {word: found.get(number, word) for number, word in enumerate(ordered)}

    def _precision(self, number: int, matched: Iterable[str]) -> float:
        size = self._sizes[number]
        return sum(map(self._rarity, matched)) / size if size else 0.0

    def _rarity(self, term: str) -> float:
        return self._rarity_of(self._uses[term])

    def _rarity_of(self, uses: int) -> float:
        """Return the weight of a word that so many tools have (the inverse document frequency of BM25)."""
        return log(1.0 + (len(self._names) - uses + 0.5) / (uses + 0.5))


def indexed_definition(definition: Mapping[str, Any]) -> IndexedTool:
    """Return what is indexed of a tool's entry in ``tools/list``, which may have members of any type."""
    schema: Any = definition.get("inputSchema")
    properties: Any = schema.get("properties") if is_mapping(schema) else None
    if not is_mapping(properties):
        properties = {}
    texts = [_text(part.get("description")) for part in properties.values() if is_mapping(part)]
    return IndexedTool(
        name=str(definition.get("name")),
        title=_text(definition.get("title"))[:_INDEXED_CHARS],
        description=_text(definition.get("description"))[:_INDEXED_CHARS],
        arguments=" ".join(map(str, properties))[:_INDEXED_CHARS],
        argument_texts=" ".join(texts)[:_INDEXED_CHARS],
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def words_of(text: str) -> str:
    """Return the words of a text; joined names are split: ``get pull request`` for ``getPullRequest``."""
    return " ".join(_WORD.findall(_CASE_CHANGE.sub(" ", text)))


def _tells(word: str) -> bool:
    return word.lower() not in STOP_WORDS


def _query_words(query: str) -> list[str]:
    """Return the words of a query to search for, each once."""
    words = list(dict.fromkeys(words_of(query[:MAX_QUERY_CHARS]).lower().split()))
    return ([word for word in words if _tells(word) or meanings_of(word)] or words)[:MAX_QUERY_WORDS]
