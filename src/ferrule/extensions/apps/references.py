"""Finds what a page loads: URLs in HTML, in CSS and in scripts, with their places.

The scan finds what is written down. A URL that a script puts together when it runs is found by no scan; the host's
Content Security Policy refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Final, Literal

from ferrule.wire.patterns import pattern
from ferrule.wire.struct import Value

__all__ = ["CssReference", "Element", "ScriptReference", "Use", "elements_of", "in_css", "in_script", "in_srcset"]

Use = Literal["connect", "resources", "frames", "base_uris"]
"""The list of a `UiPolicy` that has to allow a URL."""

# Each of the patterns takes time that grows with the text alone: a page may come from a server that one only tests.
_CSS_REFERENCE = pattern(
    r"""/\*(?:.*?\*/|.*)                                             # a comment, also one that does not end
    |@import\s+(?:url\(\s*)?(?P<iq>["']?)(?P<import>[^"')\s;]+)(?P=iq)\s*\)?(?P<media>[^;{}"]{0,1000});
    |url\(\s*(?:"(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|(?P<bare>[^"'()\s]*))\s*\)
    |"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_SCRIPT_REFERENCE = pattern(
    r"""\bfetch\(\s*["'`](?P<fetch>(?:https?:)?//[^"'`\s]+)
    |\bnew\s+(?:WebSocket|EventSource)\(\s*["'`](?P<socket>(?:https?:|wss?:)?//[^"'`\s]+)
    |\.open\(\s*["'][A-Z]{1,20}["']\s*,\s*["'`](?P<xhr>(?:https?:)?//[^"'`\s]+)
    |\bsendBeacon\(\s*["'`](?P<beacon>(?:https?:)?//[^"'`\s]+)
    |\bimport\s*\(\s*["'`](?P<dynamic>[^"'`\s]+)["'`]
    |\bfrom\s*["'](?P<from>[^"'\s]+)["']
    |(?:^|[;}\n])[ \t]*import\s*["'](?P<static>[^"'\s]+)["']
    |\bimportScripts\(\s*["'`](?P<worker>[^"'`\s]+)""",
    re.VERBOSE,
)
_OF_MODULES: Final = ("from", "static")
_MAX_NAMES: Final = 2000
"""Characters before ``from`` in which the ``import`` or ``export`` of the statement stands."""
_MAX_INDENT: Final = 500
_CONNECTS: Final = ("fetch", "socket", "xhr", "beacon")


class Element(Value, frozen=True):
    """One start tag, or one raw text (of ``<style>`` or ``<script>``).

    Attributes:
        tag: the name in small letters; ``#script`` and ``#style`` for a text.
        attributes: by name, in small letters; ``None`` for one without a value.
            A text has those of its element.
        start, end: offsets of the tag, or of the text.
        line: the line of ``start``, from 1.
    """

    tag: str
    attributes: dict[str, str | None]
    start: int
    end: int
    line: int

    def get(self, name: str) -> str:
        """Return the trimmed value of an attribute; empty without one."""
        return (self.attributes.get(name) or "").strip()


class CssReference(Value, frozen=True):
    """A URL in CSS.

    Attributes:
        url: as written, without quotes.
        start, end: offsets of the whole ``url(…)``, or of the ``@import`` rule with its semicolon.
        line: from 1, within the text.
        media: the condition of an ``@import``; ``None`` for a ``url(…)``.
    """

    url: str
    start: int
    end: int
    line: int
    media: str | None = None


class ScriptReference(Value, frozen=True):
    """A URL in a script.

    Attributes:
        url: as written.
        use: ``"connect"`` for a request, ``"resources"`` for a script that is imported.
        line: from 1, within the text.
    """

    url: str
    use: Use
    line: int


class _Scanner(HTMLParser):
    """Collects the start tags, the raw texts and the places of ``</body>``."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=False)
        self._text = text
        # `getpos` counts "\n" only, and no other end of a line.
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.found: list[Element] = []
        self._open: Element | None = None
        # Not `close`: without an end, it tries each "<" of the rest again, which takes minutes for a hostile page. What
        # remains is a tag or a comment without an end, which browsers drop, or the text of a script or a style.
        self.feed(text)
        if self.cdata_elem is not None and self.rawdata:
            self.handle_data(self.rawdata)

    def parse_marked_section(self, i: int, report: bool = True) -> int:
        """Skip ``<![CDATA[…``, which is a comment in HTML; the parser of Python 3.11 raises an error for some."""
        return self.parse_bogus_comment(i)

    def _place(self) -> tuple[int, int]:
        line, column = self.getpos()
        return self._starts[line - 1] + column, line

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        start, line = self._place()
        written = self.get_starttag_text() or ""
        attributes: dict[str, str | None] = {}
        for name, value in attrs:
            attributes.setdefault(name, value)  # browsers use the first of a name
        element = Element(tag, attributes, start, start + len(written), line)
        self.found.append(element)
        self._open = element if tag in ("script", "style") else None

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open = None if tag not in ("script", "style") else self._open

    def handle_data(self, data: str) -> None:
        if self._open is None:
            return
        start, line = self._place()
        last, tag = self.found[-1], f"#{self._open.tag}"
        if last.tag == tag and last.end == start:  # the parser gives a long text in pieces
            self.found[-1] = Element(tag, last.attributes, last.start, start + len(data), last.line)
        else:
            self.found.append(Element(tag, self._open.attributes, start, start + len(data), line))

    def handle_endtag(self, tag: str) -> None:
        start, line = self._place()
        if tag in ("body", "script", "style"):
            end = self._text.find(">", start) + 1 or len(self._text)
            self.found.append(Element(f"/{tag}", {}, start, end, line))
        self._open = None


def elements_of(text: str) -> list[Element]:
    """Return the start tags of an HTML document, its raw texts, and the ends of body, script and style, in order."""
    return _Scanner(text).found


def in_srcset(value: str) -> list[tuple[str, str]]:
    """Return the URLs of a ``srcset``, each with its descriptor (``""`` without one)."""
    found: list[tuple[str, str]] = []
    for part in re.split(r",\s+|,$", value.strip()):
        url, _, descriptor = part.strip().partition(" ")
        if url:
            found.append((url, descriptor.strip()))
    return found


class _Lines:
    """Counts the lines before places of a text, which are asked for in their order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._last, self._line = 0, 1

    def at(self, place: int) -> int:
        self._line += self._text.count("\n", self._last, place)
        self._last = place
        return self._line


def in_css(text: str) -> Iterator[CssReference]:
    """Yield the URLs in CSS, in order."""
    lines = _Lines(text)
    for match in _CSS_REFERENCE.finditer(text):
        url = next((match[name] for name in ("double", "single", "bare") if match[name] is not None), None)
        if match["import"] is not None:
            line = lines.at(match.start())
            yield CssReference(match["import"], match.start(), match.end(), line, match["media"].strip())
        elif url is not None:
            yield CssReference(url.strip(), match.start(), match.end(), lines.at(match.start()))


def in_script(text: str, *, is_module: bool = False) -> Iterator[ScriptReference]:
    """Yield the URLs that a script requests or imports by a literal, in order; none in a comment.

    Args:
        text: the script.
        is_module: find ``import … from`` and ``export … from``, too.
    """
    lines = _Lines(text)
    for match in _SCRIPT_REFERENCE.finditer(text):
        name = match.lastgroup or ""
        start = match.start(name)
        if _is_in_comment(text, start) or (name in _OF_MODULES and not is_module):
            continue
        if name == "from" and not _is_of_a_statement(text, match.start()):
            continue
        yield ScriptReference(match[name], "connect" if name in _CONNECTS else "resources", lines.at(start))


def _is_in_comment(text: str, place: int) -> bool:
    before = text[max(0, place - _MAX_INDENT) : place]
    _, newline, line = before.rpartition("\n")
    is_whole = bool(newline) or len(before) < _MAX_INDENT
    return is_whole and line.lstrip().startswith(("//", "*", "/*"))


def _is_of_a_statement(text: str, place: int) -> bool:
    """Return whether the ``from`` at a place belongs to an ``import`` or an ``export``."""
    before = text[max(0, place - _MAX_NAMES) : place]
    begin = max(before.rfind("import"), before.rfind("export"))
    if begin < 0:
        return False
    between = before[begin + len("import") :]
    is_first = begin == 0 or before[begin - 1] in ";}\n \t"
    return begin >= 0 and is_first and not any(mark in between for mark in "\"'`;()=")
