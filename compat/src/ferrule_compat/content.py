"""The values that a tool of the old ``FastMCP`` returns, as content blocks: text for data, indented by two."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from ferrule_compat.models import Model, plain
from ferrule_compat.wire_types import find

__all__ = ["Audio", "Image", "as_content", "as_json"]

_IMAGES = {"png": "png", "jpg": "jpeg", "jpeg": "jpeg", "gif": "gif", "webp": "webp"}
_AUDIO = {"wav": "wav", "mp3": "mpeg", "ogg": "ogg", "flac": "flac", "aac": "aac", "m4a": "mp4"}


class _Media:
    """Binary content of a tool's result, from a file or from bytes."""

    def __init__(self, path: str | Path | None = None, data: bytes | None = None, format: str | None = None):  # noqa: A002
        if (path is None) == (data is None):
            raise ValueError("Give either path or data")
        self.path = None if path is None else Path(path)
        self.data = data
        self._format = format
        self._mime_type = self._get_mime_type()

    def _get_mime_type(self) -> str:
        kind, formats, default = self._of_kind()
        if self._format:
            return f"{kind}/{self._format.lower()}"
        if self.path is None:
            return f"{kind}/{default}"
        found = formats.get(self.path.suffix.lower().removeprefix("."))
        return f"{kind}/{found}" if found else "application/octet-stream"

    def _of_kind(self) -> tuple[str, dict[str, str], str]:
        return "image", _IMAGES, "png"

    def _encoded(self) -> str:
        return base64.b64encode(self.path.read_bytes() if self.path else self.data or b"").decode()


class Image(_Media):
    """A picture."""

    def to_image_content(self) -> Any:
        """Return it as a content block."""
        return find("ImageContent")(data=self._encoded(), mimeType=self._mime_type)


class Audio(_Media):
    """A sound."""

    def _of_kind(self) -> tuple[str, dict[str, str], str]:
        return "audio", _AUDIO, "wav"

    def to_audio_content(self) -> Any:
        """Return it as a content block."""
        return find("AudioContent")(data=self._encoded(), mimeType=self._mime_type)


def as_content(value: Any) -> list[Any]:
    """Return content blocks: of a list those of all its items, of data its JSON text."""
    if value is None:
        return []
    if isinstance(value, find("ContentBlock")):
        return [value]
    if isinstance(value, Image):
        return [value.to_image_content()]
    if isinstance(value, Audio):
        return [value.to_audio_content()]
    if isinstance(value, list | tuple):
        items: Iterable[Any] = value
        return [block for item in items for block in as_content(item)]
    return [find("TextContent")(text=value if isinstance(value, str) else as_json(value))]


def as_json(value: Any) -> str:
    """Return a value as JSON text that is indented by two; what has no JSON form as its ``str()``."""
    core = sys.modules.get("pydantic_core")
    if core is not None:  # the same writer as the old SDK's, where the program has it loaded
        return core.to_json(plain(value), fallback=str, indent=2).decode()  # type: ignore[no-any-return]
    try:
        data = msgspec.json.encode(value, enc_hook=_hook)
    except TypeError:  # such as keys of mixed types
        data = msgspec.json.encode(_text_keys(value), enc_hook=_hook)
    return msgspec.json.format(data, indent=2).decode()


def _hook(value: Any) -> Any:
    if isinstance(value, Model):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return list(value)
    return str(value)


def _text_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _text_keys(item) for key, item in value.items()}
    return [_text_keys(item) for item in value] if isinstance(value, list | tuple | set) else value
