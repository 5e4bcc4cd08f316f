"""Bodies with parts: ``multipart/form-data`` (RFC 7578)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from secrets import token_hex
from typing import Any

from ferrule.expose import media_types
from ferrule.expose.requests.files import FileContents
from ferrule.expose.requests.styles import text_of
from ferrule.wire.codec import encode
from ferrule.wire.json_types import is_list, is_object

__all__ = ["multipart"]


def multipart(
    content_type: str,
    parts: Iterable[tuple[str, Any, str | None]],
    files: Mapping[str, FileContents | list[FileContents]],
) -> tuple[str, bytes]:
    """Return the media type, with its boundary, and the bytes of a body.

    Args:
        content_type: the described media type.
        parts: name, value and media type of each; a list becomes one part per member, an object JSON.
        files: contents by name of part, in place of the value.
    """
    boundary = token_hex(16)
    chunks: list[bytes] = []
    for name, value, described in parts:
        part_type = _one_type(described)
        contents = files.get(name)
        if contents is not None:
            for file in contents if isinstance(contents, list) else [contents]:
                chunks += _part(boundary, name, file.data, file.content_type or part_type, file.filename or "file")
            continue
        members: list[Any] = value if is_list(value) and not (part_type and media_types.is_json(part_type)) else [value]
        for member in members:
            is_json = is_object(member) or is_list(member) or (part_type is not None and media_types.is_json(part_type))
            data = encode(member) if is_json else text_of(member).encode("utf-8", "replace")
            chunks += _part(boundary, name, data, part_type or ("application/json" if is_json else None), None)
    chunks.append(f"--{boundary}--\r\n".encode())
    return f"{media_types.plain(content_type)}; boundary={boundary}", b"".join(chunks)


def _one_type(described: str | None) -> str | None:
    """Return the media type of a part; of several that are allowed (``image/png, image/jpeg``) the value decides."""
    return None if described is None or "," in described or media_types.is_wildcard(described) else described


def _part(boundary: str, name: str, data: bytes, content_type: str | None, filename: str | None) -> list[bytes]:
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_escaped(name)}"'
    if filename is not None:
        head += f'; filename="{_escaped(filename)}"'
        content_type = content_type or "application/octet-stream"
    if content_type is not None:
        head += f"\r\nContent-Type: {_one_line(content_type)}"
    return [f"{head}\r\n\r\n".encode("utf-8", "replace"), data, b"\r\n"]


def _escaped(text: str) -> str:
    """Return a name as it stands in quotation marks (WHATWG HTML, "Multipart form data")."""
    return text.replace("\r", "%0D").replace("\n", "%0A").replace('"', "%22")


def _one_line(text: str) -> str:
    return "".join(character for character in text if character >= " " and character != "\x7f")
