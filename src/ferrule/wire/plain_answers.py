"""The answer to a plain ``tools/call``, decoded to its type in one pass.

An answer with any other member, or of another shape, is not plain: `decode_plain_answer` raises, and its caller decodes
the bytes with `ferrule.wire.codec.decode`. Unknown members inside content blocks are skipped: no caller gets them on
either path.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, Struct, UnsetType, field

from ferrule.wire.codec import plain_decoder
from ferrule.wire.nesting import may_be_too_deep
from ferrule.wire.struct import decode_hook
from ferrule.wire.types import ToolContentBlock, ToolResult

__all__ = ["PlainAnswer", "decode_plain_answer", "plain_result"]


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
