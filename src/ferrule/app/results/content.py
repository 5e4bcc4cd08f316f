"""Content that a function can return in addition to text and data: pictures, sounds, files, links, embedded resources.

Each helper becomes one content block. A function returns one alone, or a list of helpers and texts; a list with a
helper is content and not data. A file is read when its helper is made, so that a missing one raises an error there.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, ClassVar, cast

from ferrule._options import explains_arguments
from ferrule.wire.types import Annotations, Icon, ResourceContents, ToolContentBlock
from ferrule.wire.types.base import Result

__all__ = ["Audio", "Content", "Embedded", "File", "Image", "Link", "WithContent", "media_type_of"]


class Content:
    """Base of the helpers.

    Args:
        annotations: the audience and the priority of the block.
        meta: the block's ``_meta``.
    """

    __slots__ = ("annotations", "meta")

    def __init__(self, *, annotations: Annotations | None = None, meta: dict[str, Any] | None = None) -> None:
        self.annotations = annotations
        self.meta = meta

    def block(self) -> ToolContentBlock:
        """Return the content block; subclasses implement it."""
        raise NotImplementedError


class _Media(Content):
    __slots__ = ("data", "mime_type")

    kind: ClassVar[Any] = "image"
    default_type: ClassVar[str] = "image/png"

    @explains_arguments()
    def __init__(
        self,
        data: bytes | None = None,
        *,
        path: str | PathLike[str] | None = None,
        format: str | None = None,  # noqa: A002 - what users of picture libraries call it
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(annotations=annotations, meta=meta)
        self.data = _read(data, path)
        if mime_type is None and format is not None:
            mime_type = _type_of_format(self.kind, format)
        self.mime_type = mime_type or _guess_media(self.kind, path) or self.default_type

    def block(self) -> ToolContentBlock:
        """Return the content block, with the data in base64."""
        return ToolContentBlock(
            self.kind,
            data=b64encode(self.data).decode("ascii"),
            mime_type=self.mime_type,
            annotations=self.annotations,
            meta=self.meta,
        )


class Image(_Media):
    """A picture.

    Args:
        data: its bytes; either this or ``path``.
        path: the file that has the bytes.
        format: ``"png"``, ``"jpg"``, ``"svg"`` …, instead of ``mime_type``.
        mime_type: guessed from the path if not given, else ``image/png``.
    """

    __slots__ = ()


class Audio(_Media):
    """A sound (2025-03-26 on); for the arguments see `Image`, with ``audio/wav`` as the default type."""

    __slots__ = ()

    kind = "audio"
    default_type = "audio/wav"


class File(Content):
    """A file embedded in the result: as text if its media type is text and its bytes are UTF-8, else as base64.

    Args:
        data: its contents; either this or ``path``.
        path: the file that has the contents.
        name: its name for people; the last part of the path if not given.
        uri: its identifier; ``file:///<name>`` if not given.
        mime_type: guessed from the name if not given.
    """

    __slots__ = ("contents",)

    @explains_arguments()
    def __init__(
        self,
        data: bytes | str | None = None,
        *,
        path: str | PathLike[str] | None = None,
        name: str | None = None,
        uri: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(annotations=annotations, meta=meta)
        raw = data if isinstance(data, str) else _read(data, path)
        name = name or (fspath(path).replace("\\", "/").rpartition("/")[2] if path is not None else "file")
        mime_type = mime_type or media_type_of(name)
        if uri is None:
            from urllib.parse import quote

            uri = f"file:///{quote(name)}"
        self.contents = resource_contents(uri, raw, mime_type)

    def block(self) -> ToolContentBlock:
        """Return an embedded resource."""
        return ToolContentBlock("resource", resource=self.contents, annotations=self.annotations, meta=self.meta)


class Link(Content):
    """A pointer to a resource that the client may read (2025-06-18 on). ``size`` is in bytes."""

    __slots__ = ("description", "icons", "mime_type", "name", "size", "title", "uri")

    def __init__(
        self,
        uri: str,
        name: str | None = None,
        *,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        icons: list[Icon] | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(annotations=annotations, meta=meta)
        self.uri = uri
        self.name = name or uri.rstrip("/").rpartition("/")[2] or uri
        self.title = title
        self.description = description
        self.mime_type = mime_type
        self.size = size
        self.icons = icons

    def block(self) -> ToolContentBlock:
        """Return a resource link."""
        return ToolContentBlock(
            "resource_link",
            uri=self.uri,
            name=self.name,
            title=self.title,
            description=self.description,
            mime_type=self.mime_type,
            size=self.size,
            icons=self.icons,
            annotations=self.annotations,
            meta=self.meta,
        )


class Embedded(Content):
    """The contents of a resource, embedded in the result.

    Args:
        uri: the resource.
        data: text, or bytes, which are sent as base64.
        mime_type: the media type; ``None`` for none.
    """

    __slots__ = ("contents",)

    def __init__(
        self,
        uri: str,
        data: str | bytes,
        *,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(annotations=annotations, meta=meta)
        if isinstance(data, str):
            self.contents = ResourceContents(uri, mime_type=mime_type, text=data)
        else:
            self.contents = ResourceContents(uri, mime_type=mime_type, blob=b64encode(data).decode("ascii"))

    def block(self) -> ToolContentBlock:
        """Return an embedded resource."""
        return ToolContentBlock("resource", resource=self.contents, annotations=self.annotations, meta=self.meta)


def resource_contents(uri: str, data: str | bytes, mime_type: str | None) -> ResourceContents:
    """Return contents: text as it is, bytes of a text type as text if they are UTF-8, other bytes as base64."""
    if isinstance(data, str):
        return ResourceContents(uri, mime_type=mime_type, text=data)
    if mime_type is not None and _is_text(mime_type):
        try:
            return ResourceContents(uri, mime_type=mime_type, text=data.decode("utf-8"))
        except UnicodeDecodeError:
            pass
    return ResourceContents(
        uri, mime_type=mime_type or "application/octet-stream", blob=b64encode(data).decode("ascii")
    )


def _is_text(mime_type: str) -> bool:
    base = mime_type.partition(";")[0].strip()
    return base.startswith("text/") or base.endswith(("json", "xml", "yaml", "javascript", "x-sh", "toml"))


def _read(data: bytes | None, path: str | PathLike[str] | None) -> bytes:
    if (data is None) is (path is None):
        raise ValueError("give either data or path")
    if data is not None:
        return bytes(data)
    with open(fspath(cast("str", path)), "rb") as file:
        return file.read()


_REGISTERED = {
    "jpg": "image/jpeg",
    "jpe": "image/jpeg",
    "jfif": "image/jpeg",
    "svg": "image/svg+xml",
    "tif": "image/tiff",
    "ico": "image/vnd.microsoft.icon",
    "mp3": "audio/mpeg",
    "mpga": "audio/mpeg",
    "m4a": "audio/mp4",
    "mp4": "audio/mp4",
    "oga": "audio/ogg",
    "opus": "audio/opus",
    "wav": "audio/wav",
    "weba": "audio/webm",
    "webm": "audio/webm",
    "mid": "audio/midi",
    "midi": "audio/midi",
    "3gp": "audio/3gpp",
}
"""Formats whose media type has another name (IANA, media types), or whose name is also that of a video format."""

_NOT_EVERYWHERE = {"yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}
"""Registered media types that `mimetypes` lacks, or names differently, in some Pythons and on some machines."""

_OF_ENCODING = {
    "gzip": "application/gzip",
    "bzip2": "application/x-bzip2",
    "xz": "application/x-xz",
    "compress": "application/x-compress",
    "br": "application/x-brotli",
    "zstd": "application/zstd",
}


def _type_of_format(kind: str, name: str) -> str:
    name = name.lower().removeprefix(".")
    found = _REGISTERED.get(name)
    if found is not None and found.startswith(kind):
        return found
    return name if "/" in name else f"{kind}/{name}"


def _guess_media(kind: str, path: str | PathLike[str] | None) -> str | None:
    """Return the media type by a file's name, as one of ``kind`` if several are possible (``.mp4``, ``.wav``)."""
    if path is None:
        return None
    found = _REGISTERED.get(fspath(path).rpartition(".")[2].lower())
    return found if found is not None and found.startswith(kind) else media_type_of(path)


def media_type_of(name: str | PathLike[str] | None) -> str | None:
    """Return the media type of a file's bytes by its name; for a compressed file that of the compression.

    ``None`` if the name does not say.
    """
    if name is None:
        return None
    import mimetypes

    own = _NOT_EVERYWHERE.get(fspath(name).rpartition(".")[2].lower())
    if own is not None:
        return own
    found, encoding = mimetypes.guess_type(fspath(name))
    return found if encoding is None else _OF_ENCODING.get(encoding, "application/octet-stream")


class WithContent(Result, kw_only=False):
    """Data, followed by further content.

    The data are sent as if the tool returned them alone: as structured content, and as text by the tool's encoder. In a
    plain list of data and content everything would be content.

    Attributes:
        data: any value that a tool may return as data.
        content: texts, pictures, files and links that come after the text of the data.
    """

    data: Any
    content: Sequence[Content | ToolContentBlock | ResourceContents | str] = ()
