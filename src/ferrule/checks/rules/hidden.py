"""The rules about what a person does not see: hidden characters, sentences for the model alone, and secrets.

Emoji and some scripts need joiners and variation selectors, so that those are hidden only where nothing is joined.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.protocol.secret_forms import is_secret_name, secret_in
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["check_hidden"]

MAX_TEXTS: Final = 20_000
"""Maximum number of texts of one definition that are looked at."""
MAX_DEPTH: Final = 100

_HIDDEN: Final = frozenset("\u200b\u2060\u2061\u2062\u2063\u2064\u180e\ufeff\u3164\uffa0\u115f\u1160\u034f\u17b4\u17b5")
"""Characters without a shape and without a use in a sentence."""
_DIRECTION: Final = frozenset("\u202a\u202b\u202d\u202e\u202c\u2066\u2067\u2068\u2069")
"""Embeddings, overrides and isolates; the marks U+200E and U+200F are ordinary in Hebrew and Arabic."""
_JOINERS: Final = frozenset("\u200c\u200d")
_LINE_ENDS: Final = frozenset("\n\r\t\f")

_PHRASES: Final = (
    pattern(r"(?i)\b(?:ignore|disregard|forget|override)\s+(?:all\s+|any\s+|the\s+|your\s+|every\s+)*"
            r"(?:previous|prior|above|earlier|preceding|other|system)\s+(?:\w+\s+)?"
            r"(?:instructions?|prompts?|rules?|directions?|messages?|guidelines?)"),
    pattern(r"(?i)</?\s*(?:important|system|instructions?|secret|hidden|admin|assistant)\s*>"),
    pattern(r"(?i)\b(?:do\s+not|don't|never|without)\s+(?:tell|telling|inform|informing|mention(?:ing)?|reveal(?:ing)?|show(?:ing)?|notify(?:ing)?)"
            r"\s+(?:\w+\s+){0,6}?(?:the\s+)?users?\b"),
    pattern(r"(?i)\b(?:do\s+not|don't|never)\s+(?:mention|reveal|disclose)\s+(?:this|these|that)\b"),
    pattern(r"(?i)(?:~|\$home|/home/\w+|/root)/\.(?:ssh|aws|cursor|config/gcloud|netrc|env)\b|\bid_rsa\b"),
    pattern(r"(?i)\byou\s+(?:are\s+now|must\s+now)\b"),
    pattern(r"(?i)\b(?:before|instead\s+of|after)\s+(?:using|calling)\s+any\s+other\s+tools?\b"),
    pattern(r"(?i)\b(?:send|forward|upload|exfiltrate|post|bcc)\s+(?:\w+\s+){0,5}(?:conversation|chat\s+history|system\s+prompt|credentials|api\s+keys?)\b"),
)  # fmt: skip


def check_hidden(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about hidden things: F50 to F54."""
    yield from _texts("server", "", {"instructions": picture.instructions, "name": picture.name})
    for kind, name, definition in picture.named():
        yield from _texts(kind, name, definition)
        if kind == "tools":
            yield from _defaults(name, definition.get("inputSchema"))


def _texts(kind: str, name: str, definition: Any) -> Iterator[RuleFinding]:
    yielded: set[str] = set()
    for path, text in _walk(definition):
        for code, message in _judge(text):
            if code not in yielded:  # once for each rule and definition
                yielded.add(code)
                yield RuleFinding(code, kind, name, path, message)


def _judge(text: str) -> Iterator[tuple[str, str]]:
    if not (text.isascii() and text.isprintable()):
        found = next((at for at in range(len(text)) if _is_hidden(text, at)), None)
        if found is not None:
            yield "F50", f"has the character U+{ord(text[found]):04X}, which is not visible, at {found}"
        turned = next((at for at, char in enumerate(text) if char in _DIRECTION), None)
        if turned is not None:
            yield (
                "F51",
                f"has the character U+{ord(text[turned]):04X}, which turns the direction of writing, at {turned}",
            )
    for phrase in _PHRASES:
        match = phrase.search(text)
        if match is not None:
            yield "F52", f"says {' '.join(match[0].split())[:120]!r}"
            break
    secret = secret_in(text)
    if secret is not None:
        yield "F53", f"has what looks like {secret}"


def _is_hidden(text: str, at: int) -> bool:
    char = text[at]
    if char.isascii():
        return not char.isprintable() and char not in _LINE_ENDS
    if char == "\ufeff" and at == 0:
        return False  # a byte order mark of the file that the text comes from
    if char in _HIDDEN or "\U000e0000" <= char <= "\U000e007f" or "\U000e0100" <= char <= "\U000e01ef":
        return not _is_flag(text, at)
    if char in _JOINERS:
        before, after = text[at - 1 : at], text[at + 1 : at + 2]
        return not before or not after or (before.isascii() and after.isascii())
    return unicodedata.category(char) == "Cc"


def _is_flag(text: str, at: int) -> bool:
    """Return whether a tag character belongs to the flag of a region, which is a black flag with tags after it."""
    start = at
    while start > 0 and "\U000e0020" <= text[start] <= "\U000e007f" and at - start < 16:
        start -= 1
    return text[start] == "\U0001f3f4"


def _walk(value: Any) -> Iterator[tuple[str, str]]:
    """Return every text of a JSON value with its pointer, names of members too."""
    stack: list[tuple[str, Any, int]] = [("", value, 0)]
    count = 0
    while stack and count < MAX_TEXTS:
        path, found, depth = stack.pop()
        if isinstance(found, str):
            count += 1
            yield path, found
        elif depth < MAX_DEPTH and is_mapping(found):
            for name, item in found.items():
                if not name.isascii():
                    yield path, name
                if name != "_meta" and not (name == "src" and isinstance(item, str) and item.startswith("data:")):
                    stack.append((f"{path}/{name}", item, depth + 1))
        elif depth < MAX_DEPTH and is_list(found):
            stack += [(f"{path}/{at}", item, depth + 1) for at, item in enumerate(found)]


def _defaults(name: str, schema: Any) -> Iterator[RuleFinding]:
    properties = schema.get("properties") if is_mapping(schema) else None
    for each, part in properties.items() if is_mapping(properties) else ():
        value = part.get("default") if is_mapping(part) else None
        if (
            is_secret_name(each)
            and isinstance(value, str)
            and len(value) >= 8
            and not value.startswith(("$", "<", "{"))
        ):
            yield RuleFinding(
                "F54", "tools", name, f"/inputSchema/properties/{each}/default", f"{each!r} has a default"
            )
