"""What a function returns when text and data are not enough: pictures, sounds, files, links, embedded resources.

Each helper becomes one content block. They may stand alone, in a list, or beside text; a list that holds one is a list
of content, not data. Files are read when the helper is made, so that a missing one is the author's error with its
path.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from os import PathLike, fspath
from typing import Any, ClassVar, cast

from ferrule._options import explains_arguments
from ferrule.wire.types import Annotations, Icon, ResourceContents, ToolContentBlock
from ferrule.wire.types.base import Result

__all__ = ["Audio", "Content", "Embedded", "File", "Image", "Link", "WithContent"]


class Content:
    """Base of the helpers.

    Args:
        annotations: for whom the block is, and how important.
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
        data: its bytes; or
        path: a file to read them from.
        format: ``"png"``, ``"jpg"``, ``"svg"`` …, instead of ``mime_type``.
        mime_type: guessed from the path if not given, else ``image/png``.
    """

    __slots__ = ()


class Audio(_Media):
    """A sound; arguments as `Image`, ``audio/wav`` if nothing tells. Revisions before 2025-03-26 have no audio."""

    __slots__ = ()

    kind = "audio"
    default_type = "audio/wav"


class File(Content):
    """A file embedded in the answer: as text where its type is a text type and its bytes are UTF-8, else as base64.

    Args:
        data: its contents; or
        path: a file to read them from.
        name: shown to people; the path's last part if not given.
        uri: identifies it; ``file:///<name>`` if not given.
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
        mime_type = mime_type or _guess(name)
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
    """The contents of a resource inside the answer.

    Args:
        uri: the resource.
        data: text, or bytes that are put into base64.
        mime_type: ``None`` leaves it out.
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
    """Text as text, bytes of a text type as text if they are UTF-8, other bytes as base64."""
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
"""Usual names of formats whose media type is another word (IANA, media types), or that stand for films as well."""

_NOT_EVERYWHERE = {"yaml": "application/yaml", "yml": "application/yaml", "toml": "application/toml"}
"""Registered types that `mimetypes` lacks, or calls otherwise, in some versions of Python and on some machines."""

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
    """As `_guess`, where the name may stand for several kinds (``.mp4``) and machines disagree (``.wav``)."""
    if path is None:
        return None
    found = _REGISTERED.get(fspath(path).rpartition(".")[2].lower())
    return found if found is not None and found.startswith(kind) else _guess(path)


def _guess(name: str | PathLike[str] | None) -> str | None:
    """Return the media type of a file's bytes by its name: of a compressed file that of the compression."""
    if name is None:
        return None
    import mimetypes

    own = _NOT_EVERYWHERE.get(fspath(name).rpartition(".")[2].lower())
    if own is not None:
        return own
    found, encoding = mimetypes.guess_type(fspath(name))
    return found if encoding is None else _OF_ENCODING.get(encoding, "application/octet-stream")


class WithContent(Result, kw_only=False):
    """Data, with further content behind its text.

    The data are what they would be if the tool returned them alone: structured content, and their text by the tool's
    encoder. A list of data and content would be content only.

    Attributes:
        data: any value that a tool may return as data.
        content: texts, pictures, files and links that come after the text of the data.
    """

    data: Any
    content: Sequence[Content | ToolContentBlock | ResourceContents | str] = ()
