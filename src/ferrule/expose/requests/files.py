"""The contents of arguments that are files; see `ferrule.expose.files`."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from ferrule.wire.json_types import is_object

__all__ = ["FileContents", "InvalidFile", "ReadUri", "read_file_argument"]


class FileContents(Struct, frozen=True, kw_only=True):
    """A file that is sent.

    Attributes:
        data: the bytes of the file.
        filename: the name that is sent.
        content_type: its media type; ``None`` if it is not known.
    """

    data: bytes
    filename: str | None = None
    content_type: str | None = None


class InvalidFile(ValueError):
    """An argument does not have the contents of a file; the text is for the model."""


ReadUri = Callable[[str], Awaitable[FileContents]]
"""Reads a resource that an argument names; raises `InvalidFile` for one that may not be read."""


async def read_file_argument(name: str, value: Any, read_uri: ReadUri) -> FileContents:
    """Return the contents of a file argument.

    Args:
        name: the name of the argument, for messages.
        value: the argument, which fits `ferrule.expose.files.FILE_SCHEMA`.
        read_uri: reads the resource of a ``uri``.

    Raises:
        InvalidFile: not exactly one of ``text``, ``base64`` and ``uri`` is given, or it cannot be read.
    """
    if not is_object(value) or sum(key in value for key in ("text", "base64", "uri")) != 1:
        raise InvalidFile(f"`{name}` is a file: give exactly one of text, base64 and uri")
    filename, content_type = value.get("filename"), value.get("content_type")
    if "text" in value:
        data = str(value["text"]).encode("utf-8", "replace")
        found = FileContents(data=data, content_type="text/plain; charset=utf-8")
    elif "base64" in value:
        try:
            found = FileContents(data=b64decode(str(value["base64"]), validate=True))
        except (binascii.Error, ValueError) as error:
            raise InvalidFile(f"`{name}.base64` is not base64") from error
    elif str(value["uri"])[:5].lower() == "data:":
        found = _data_uri(name, str(value["uri"]))
    else:
        found = await read_uri(str(value["uri"]))
    return FileContents(
        data=found.data,
        filename=filename or found.filename or "file",
        content_type=content_type or found.content_type,
    )


def _data_uri(name: str, uri: str) -> FileContents:
    """Return the contents of a ``data:`` URI (RFC 2397)."""
    head, comma, rest = uri[5:].partition(",")
    is_base64 = head.lower().endswith(";base64")
    kind = head[: -len(";base64")] if is_base64 else head
    try:
        data = unquote_to_bytes(rest)
        data = b64decode(data, validate=True) if is_base64 else data
    except (binascii.Error, ValueError) as error:
        raise InvalidFile(f"`{name}.uri` has data that is not base64") from error
    if not comma:
        raise InvalidFile(f"`{name}.uri` is not data URI: it has no comma")
    return FileContents(data=data, content_type=kind or "text/plain;charset=US-ASCII")
