"""Content: the content block that tools, prompts and sampling share, and the contents of resources.

A block is one struct with the fields of all kinds, instead of one class for each kind: msgspec then decodes it in one
pass, and a projection to an older revision can change the kind of a block. A table has the required fields of each
kind, which are checked when a block is made. A block of an unknown kind is kept unchanged as an `UnknownContentBlock`.

Check ``block.type`` before other fields: fields of other kinds are ``None``.
"""

from base64 import b64encode
from typing import Any, Final, Literal, TypeAlias

from msgspec import UNSET, field
from msgspec.structs import force_setattr

from ferrule.wire.struct import OpenBundle, WireStruct
from ferrule.wire.types.base import Annotations, Icon

__all__ = [
    "CONTENT_KINDS",
    "SAMPLING_CONTENT_KINDS",
    "ContentKind",
    "ResourceContents",
    "ToolContentBlock",
    "UnknownContentBlock",
    "audio_block",
    "image_block",
    "resource_block",
    "resource_link_block",
    "text_block",
    "tool_result_block",
    "tool_use_block",
]

ContentKind: TypeAlias = Literal["text", "image", "audio", "resource", "resource_link", "tool_use", "tool_result"]

CONTENT_KINDS: Final[frozenset[str]] = frozenset({"text", "image", "audio", "resource", "resource_link"})
"""The kinds of blocks in tool results and prompt messages of the newest revision."""

SAMPLING_CONTENT_KINDS: Final[frozenset[str]] = frozenset({"text", "image", "audio", "tool_use", "tool_result"})
"""The kinds of blocks in sampling messages of the newest revision."""


class ResourceContents(WireStruct):
    """The contents of a resource: ``text``, or ``blob`` in base64; exactly one of them.

    If one of them is empty and the other is not, the empty one counts as absent: some servers send every member of
    their type.

    Raises:
        ValueError: neither or both are given.
    """

    uri: str
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)

    def __post_init__(self) -> None:
        if (self.text is None) is (self.blob is None):
            if bool(self.text) is not bool(self.blob):
                force_setattr(self, "text" if self.blob else "blob", None)
                return
            found = "neither" if self.text is None else "both"
            raise ValueError(f"Resource contents hold either `text` or `blob`, got {found}")


class UnknownContentBlock(OpenBundle):
    """A content block of an unknown kind, as a view of the unchanged JSON object.

    It has every attribute of `ToolContentBlock`, so that code for known blocks can read it; other members are read by
    item access.
    """

    type: str | None
    text: Any
    data: Any
    mime_type: Any
    resource: Any
    uri: Any
    name: Any
    title: Any
    description: Any
    size: Any
    icons: Any
    id: Any
    input: Any
    tool_use_id: Any
    content: Any
    structured_content: Any
    is_error: Any
    annotations: Any
    meta: Any


class ToolContentBlock(WireStruct):
    """One piece of content. ``type`` is its kind, which determines its fields.

    ==================  ==========================================================================================
    ``text``            ``text``
    ``image, audio``    ``data`` (base64), ``mime_type``
    ``resource``        ``resource``: contents embedded in the message
    ``resource_link``   ``uri``, ``name`` and optionally ``title``, ``description``, ``mime_type``, ``size`` (bytes),
                        ``icons``
    ``tool_use``        sampling only: ``id``, ``name``, ``input``
    ``tool_result``     sampling only: ``tool_use_id``, ``content``, ``structured_content``, ``is_error``
    ==================  ==========================================================================================

    All kinds have ``meta``, and all but the two of sampling have ``annotations``. Other values of ``type`` are allowed
    here, for extensions; the decoder makes an `UnknownContentBlock` of such a block of a peer.

    Raises:
        ValueError: a field that the kind requires is missing.
    """

    type: ContentKind
    text: str | None = None
    data: str | None = None
    mime_type: str | None = None
    resource: ResourceContents | None = None
    uri: str | None = None
    name: str | None = None
    title: str | None = None
    description: str | None = None
    size: int | None = None
    icons: list[Icon] | None = None
    id: str | None = None
    input: dict[str, Any] | None = None
    tool_use_id: str | None = None
    content: "list[ToolContentBlock] | None" = None
    structured_content: Any = UNSET
    is_error: bool | None = None
    annotations: Annotations | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)

    __unknown_kind__ = UnknownContentBlock

    def __post_init__(self) -> None:
        kind = self.type
        if kind == "text":
            if self.text is None:
                raise ValueError("A text block needs `text`")
            return
        for name, wire in _REQUIRED.get(kind, ()):
            if getattr(self, name) is None:
                article = "An" if kind in ("image", "audio") else "A"
                raise ValueError(f"{article} {kind} block needs `{wire}`")


_REQUIRED: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "image": (("data", "data"), ("mime_type", "mimeType")),
    "audio": (("data", "data"), ("mime_type", "mimeType")),
    "resource": (("resource", "resource"),),
    "resource_link": (("uri", "uri"), ("name", "name")),
    "tool_use": (("id", "id"), ("name", "name"), ("input", "input")),
    "tool_result": (("tool_use_id", "toolUseId"), ("content", "content")),
}


def text_block(
    text: str, *, annotations: Annotations | None = None, meta: dict[str, Any] | None = None
) -> ToolContentBlock:
    """Return a block of text."""
    return ToolContentBlock("text", text, annotations=annotations, meta=meta)


def image_block(
    data: bytes | str,
    mime_type: str,
    *,
    annotations: Annotations | None = None,
    meta: dict[str, Any] | None = None,
) -> ToolContentBlock:
    """Return a block with a picture. ``data``: the bytes of the picture, or text that is base64 already."""
    return ToolContentBlock("image", data=_base64(data), mime_type=mime_type, annotations=annotations, meta=meta)


def audio_block(
    data: bytes | str,
    mime_type: str,
    *,
    annotations: Annotations | None = None,
    meta: dict[str, Any] | None = None,
) -> ToolContentBlock:
    """Return a block with a sound (2025-03-26 on). ``data``: the bytes, or text that is base64 already."""
    return ToolContentBlock("audio", data=_base64(data), mime_type=mime_type, annotations=annotations, meta=meta)


def resource_block(
    resource: ResourceContents, *, annotations: Annotations | None = None, meta: dict[str, Any] | None = None
) -> ToolContentBlock:
    """Return a block with the contents of a resource."""
    return ToolContentBlock("resource", resource=resource, annotations=annotations, meta=meta)


def resource_link_block(
    uri: str,
    name: str,
    *,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    size: int | None = None,
    icons: list[Icon] | None = None,
    annotations: Annotations | None = None,
    meta: dict[str, Any] | None = None,
) -> ToolContentBlock:
    """Return a block with a link to a resource that the client may read (2025-06-18 on). ``size`` is in bytes."""
    return ToolContentBlock(
        "resource_link",
        uri=uri,
        name=name,
        title=title,
        description=description,
        mime_type=mime_type,
        size=size,
        icons=icons,
        annotations=annotations,
        meta=meta,
    )


def tool_use_block(
    tool_use_id: str, name: str, arguments: dict[str, Any], *, meta: dict[str, Any] | None = None
) -> ToolContentBlock:
    """Return a block for sampling (2025-11-25 on) in which the model requests a tool call.

    Args:
        tool_use_id: the id of the call, for its result.
        name: the name of the tool.
        arguments: the arguments (``input`` on the wire).
        meta: the ``_meta`` of the block; ``None`` for none.
    """
    return ToolContentBlock("tool_use", id=tool_use_id, name=name, input=arguments, meta=meta)


def tool_result_block(
    tool_use_id: str,
    content: list[ToolContentBlock],
    *,
    structured_content: Any = UNSET,
    is_error: bool | None = None,
    meta: dict[str, Any] | None = None,
) -> ToolContentBlock:
    """Return a block for sampling (2025-11-25 on) with the result of the tool call ``tool_use_id``."""
    return ToolContentBlock(
        "tool_result",
        tool_use_id=tool_use_id,
        content=content,
        structured_content=structured_content,
        is_error=is_error,
        meta=meta,
    )


def _base64(data: bytes | str) -> str:
    return data if isinstance(data, str) else b64encode(data).decode("ascii")
