"""`with_text`: a result that a host without views can show.

Source: MCP Apps 2026-01-26, "Server Behavior": tools return meaningful content also where a view shows them.
"""

from __future__ import annotations

from msgspec import UNSET
from msgspec.structs import replace

from ferrule.wire.codec import encode_str
from ferrule.wire.types import ToolContentBlock, ToolResult

__all__ = ["with_text"]


def with_text(result: ToolResult) -> ToolResult:
    """Return a result with a text block: its structured content as JSON, or the kinds of its other blocks."""
    if any(block.type == "text" and block.text for block in result.content):
        return result
    if result.structured_content is not UNSET:
        text = encode_str(result.structured_content)
    elif result.content:
        text = f"The result is shown in the interface: {', '.join(block.type for block in result.content)}."
    else:
        text = "Done. There is no result to show."
    return replace(result, content=[ToolContentBlock("text", text), *result.content])
