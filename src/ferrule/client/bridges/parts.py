"""The result of a tool as parts for a model: texts, and media that its API takes; the rest is text with a link.

The model gets the content of the result. Structured content is taken only where there is no content, so nothing is lost
and nothing comes twice. Everything is bounded, since a server chooses how much it sends.
"""

from __future__ import annotations

import binascii
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ferrule.client.calls.results import ToolCallResult
from ferrule.wire.codec import encode_str
from ferrule.wire.types import ResourceContents, ToolContentBlock

__all__ = ["MAX_PARTS", "NOTHING", "ContentBounds", "Media", "Part", "Text", "parts_of", "plain_text", "well_formed"]

MAX_PARTS: Final = 100
"""Maximum number of parts of one result; further blocks are counted in a last text."""

NOTHING: Final = "(no content)"
"""The text of a result without content."""


@dataclass(frozen=True, slots=True)
class ContentBounds:
    """How much of one result reaches the model.

    Attributes:
        text_bytes: bytes of all texts together in UTF-8; a longer text is cut, and says so.
        media_bytes: bytes of all media together before base64; what does not fit becomes a text.
    """

    text_bytes: int = 100_000
    media_bytes: int = 5_000_000


@dataclass(frozen=True, slots=True)
class Text:
    """A text. ``uri``: the resource whose contents it is; ``None`` for plain text."""

    text: str
    uri: str | None = None


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a document.

    Attributes:
        data: base64.
        mime_type: its media type.
        uri: the resource that it is the contents of; ``None`` for other media.
    """

    data: str
    mime_type: str
    uri: str | None = None

    @property
    def name(self) -> str:
        """A file name for it."""
        stem = (self.uri or "").rstrip("/").rpartition("/")[2]
        return stem[:100] or f"file.{self.mime_type.rpartition('/')[2].partition('+')[0]}"


Part: TypeAlias = Text | Media


def parts_of(result: ToolCallResult, taken: Set[str], bounds: ContentBounds) -> list[Part]:
    """Return the parts of a result, at least one.

    Args:
        result: the result of a tool.
        taken: media types that the API takes in results.
        bounds: how much of it is passed on.
    """
    found = parts_of_blocks(result.content, taken, bounds)
    if not found and result.has_structured_content:
        text = encode_str(result.structured_content)
        found = _Filler(taken, bounds).filled_with([Text(text)])
    return found or [Text(NOTHING)]


def parts_of_blocks(blocks: Sequence[ToolContentBlock], taken: Set[str], bounds: ContentBounds) -> list[Part]:
    """Return the parts of content blocks; none for blocks without any content."""
    return _Filler(taken, bounds).filled_with([part for block in blocks if (part := _part_of(block)) is not None])


def plain_text(parts: Sequence[Part]) -> str:
    """Return all texts of parts as one, with a blank line between."""
    return "\n\n".join(_with_uri(part) for part in parts if isinstance(part, Text))


def well_formed(text: str) -> str:
    """Return text that can be encoded: half characters become U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _with_uri(part: Text) -> str:
    return part.text if part.uri is None else f"Resource {part.uri}:\n{part.text}"


def _part_of(block: Any) -> Part | None:
    kind = block.type
    if kind == "text":
        return Text(block.text) if block.text.strip() else None
    if kind in ("image", "audio"):
        return Media(block.data, block.mime_type.lower())
    if kind == "resource":
        return _part_of_contents(block.resource)
    if kind == "resource_link":
        return Text(_link(block))
    return Text(f"[A block of the kind {str(kind)[:100]!r}, which cannot be shown]")


def _part_of_contents(contents: ResourceContents) -> Part:
    if contents.text is not None:
        return Text(contents.text, contents.uri)
    mime_type = (contents.mime_type or "application/octet-stream").partition(";")[0].strip().lower()
    return Media(contents.blob or "", mime_type, contents.uri)


def _link(block: ToolContentBlock) -> str:
    facts = [block.mime_type or "", "" if block.size is None else f"{block.size} bytes"]
    about = ", ".join(fact for fact in facts if fact)
    text = f"[{block.title or block.name}]({block.uri})" + (f" ({about})" if about else "")
    return f"{text}: {block.description}" if block.description else text


class _Filler:
    """Takes parts until the bounds are reached."""

    def __init__(self, taken: Set[str], bounds: ContentBounds) -> None:
        self._taken = taken
        self._text_left = bounds.text_bytes
        self._media_left = bounds.media_bytes

    def filled_with(self, parts: Sequence[Part]) -> list[Part]:
        made: list[Part] = []
        for part in parts[:MAX_PARTS]:
            done = self._text(part) if isinstance(part, Text) else self._media(part)
            if done is not None:
                made.append(done)
        if len(parts) > MAX_PARTS:
            made.append(Text(f"[{len(parts) - MAX_PARTS} more blocks are left out]"))
        return made

    def _text(self, part: Text) -> Text | None:
        text = well_formed(part.text)
        data = text.encode("utf-8")
        if len(data) <= self._text_left:
            self._text_left -= len(data)
            return Text(text, part.uri)
        kept = data[: self._text_left].decode("utf-8", "ignore")
        self._text_left = 0
        note = f"[{len(data) - len(kept.encode('utf-8'))} bytes of this text are left out]"
        return Text(f"{kept}\n{note}" if kept else note, part.uri)

    def _media(self, part: Media) -> Part:
        size = len(part.data) * 3 // 4 - part.data[-2:].count("=")
        about = f"{part.mime_type}, {size} bytes"
        if part.uri is not None:
            about = f"{part.uri}, {about}"
        if part.mime_type not in self._taken:
            return Text(f"[Not shown: {about}]")
        if size > self._media_left:
            return Text(f"[Too large to be shown: {about}]")
        if not _is_base64(part.data):
            return Text(f"[Not shown, its base64 is malformed: {about}]")
        self._media_left -= size
        return part


def _is_base64(data: str) -> bool:
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except (binascii.Error, ValueError):
        return False
