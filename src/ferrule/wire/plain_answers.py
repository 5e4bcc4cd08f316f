"""The answer to a plain ``tools/call``, decoded to its type in one pass.

An answer with any other member, or of another shape, is not plain: `decode_plain_answer` raises, and its caller decodes
the bytes with `ferrule.wire.codec.decode`. Unknown members inside content blocks are skipped: no caller gets them on
either path.

`decode_encoded_answer` is for programs that pass a result on to another client: its parts stay the bytes that the
server has sent, after a check. They have content of text and images alone, no other member, and no line break, which
would end a line or an event of the other client's connection.
"""

from __future__ import annotations

from typing import Any, Final, Literal, cast

from msgspec import UNSET, Raw, Struct, UnsetType, field

from ferrule.wire.codec import plain_decoder
from ferrule.wire.nesting import MAX_DEPTH, may_be_too_deep
from ferrule.wire.plain_calls import ABSENT
from ferrule.wire.struct import decode_hook
from ferrule.wire.types import META_SERVER_INFO, ToolContentBlock, ToolResult

__all__ = [
    "EncodedAnswer",
    "EncodedResult",
    "PlainAnswer",
    "decode_encoded_answer",
    "decode_plain_answer",
    "encoded_result",
    "names_its_server",
    "plain_result",
]


class _PlainResult(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    content: list[ToolContentBlock]
    structured_content: Any = UNSET
    is_error: bool | None = None
    result_type: Literal["complete"] | UnsetType = UNSET
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class PlainAnswer(Struct, forbid_unknown_fields=True, gc=False):
    """A response with a final result of a tool."""

    jsonrpc: Literal["2.0"]
    id: int
    result: _PlainResult


decode_plain_answer: Final = plain_decoder(PlainAnswer, decode_hook)
"""``bytes -> PlainAnswer``. Raises an ``Exception`` for bytes that are not a plain answer; they may be a message."""


def plain_result(answer: PlainAnswer, data: bytes) -> ToolResult | None:
    """Return the result of an answer; ``None`` if the general path has to read ``data``, from which it was decoded."""
    if may_be_too_deep(data):
        return None
    result = answer.result
    return ToolResult(
        result.content,
        result.structured_content,
        result.is_error,
        result_type=None if result.result_type is UNSET else "complete",
        meta=result.meta,
    )


# -- results that stay encoded -----------------------------------------------------------------------------------------


class _Text(Struct, tag="text", tag_field="type", forbid_unknown_fields=True, gc=False):
    text: str


class _Image(Struct, tag="image", tag_field="type", forbid_unknown_fields=True, gc=False):
    data: str
    mime_type: str = field(name="mimeType")


class EncodedResult(Struct, forbid_unknown_fields=True, rename="camel", gc=False):
    """A final result of a tool.

    Attributes:
        content, structured_content, meta: the bytes of these members, or `ABSENT`.
        is_error: ``isError``; unset without it.
        result_type: ``resultType``; unset without it.
    """

    content: Raw
    structured_content: Raw = ABSENT
    is_error: bool | UnsetType = UNSET
    result_type: Literal["complete"] | UnsetType = UNSET
    meta: Raw = field(name="_meta", default=ABSENT)


class EncodedAnswer(Struct, forbid_unknown_fields=True, gc=False):
    """A response with such a result."""

    jsonrpc: Literal["2.0"]
    id: int
    result: EncodedResult


decode_encoded_answer: Final = plain_decoder(EncodedAnswer)
"""``bytes -> EncodedAnswer``. Raises an ``Exception`` for bytes that are not such an answer; they may be a message."""

_check_content: Final = plain_decoder(list[_Text | _Image])
_check_value: Final = plain_decoder(cast("type[Any]", Any))
_check_object: Final = plain_decoder(dict[str, Any])


def encoded_result(answer: EncodedAnswer, data: bytes) -> EncodedResult | None:
    """Return the result of an answer; ``None`` if the general path has to read ``data``, from which it was decoded."""
    if (len(data) > MAX_DEPTH and may_be_too_deep(data)) or b"\n" in data or b"\r" in data:
        return None
    result = answer.result
    try:
        _check_content(result.content)
        if result.structured_content is not ABSENT:
            _check_value(result.structured_content)
        if result.meta is not ABSENT:
            _check_object(result.meta)
    except Exception:  # not plain, or not JSON: the general path reports it
        return None
    return result


def names_its_server(result: EncodedResult) -> bool:
    """Return whether ``_meta`` of a result names the server that made it (2026-07-28)."""
    return result.meta is not ABSENT and META_SERVER_INFO in _check_object(result.meta)
