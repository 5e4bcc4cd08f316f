"""2027-06-01, a revision that does not exist: results of tools in variants, of which a call requests some (SEP-3279).

A tool has ``outputVariants`` in place of ``outputSchema``, a call may have ``requestedOutputs``, and a result has
``outputs`` in place of ``content`` and ``structuredContent``. The names of variants and the keys inside are made up.
"""

from typing import Any

from ferrule.wire.revisions.base import Reshape, follow, merge
from ferrule.wire.revisions.r2026_07_28 import REVISION as OLDER
from ferrule.wire.types.server_features.tools import CallToolRequestParams, Tool, ToolResult

__all__ = ["REVISION"]

CONTENT, STRUCTURED = "content", "structured"


class CallWithOutputsParams(CallToolRequestParams, kw_only=True):
    """Params of ``tools/call``, with the variants that the caller wants; ``None`` for all."""

    requested_outputs: list[str] | None = None


def write_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool with variants."""
    schema = tool.pop("outputSchema", None)
    structured = [] if schema is None else [{"name": STRUCTURED, "schema": schema}]
    return {**tool, "outputVariants": [*structured, {"name": CONTENT}]}


def read_tool(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool of the superset."""
    tool.pop("outputSchema", None)
    variants = tool.pop("outputVariants", None)
    for variant in variants if isinstance(variants, list) else ():
        if isinstance(variant, dict) and variant.get("name") == STRUCTURED and "schema" in variant:
            tool["outputSchema"] = variant["schema"]
    return tool


def write_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result with variants."""
    outputs: list[dict[str, Any]] = []
    if "structuredContent" in result:
        outputs.append({"variant": STRUCTURED, "value": result.pop("structuredContent")})
    content = result.pop("content", [])
    if content:
        outputs.append({"variant": CONTENT, "content": content})
    return {**result, "outputs": outputs}


def read_result(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result of the superset."""
    result.pop("structuredContent", None)
    result["content"] = []
    outputs = result.pop("outputs", None)
    for output in outputs if isinstance(outputs, list) else ():
        if isinstance(output, dict) and output.get("variant") == STRUCTURED and "value" in output:
            result["structuredContent"] = output["value"]
        if isinstance(output, dict) and output.get("variant") == CONTENT:
            result["content"] = output.get("content")
    return result


REVISION = follow(
    OLDER,
    "2027-06-01",
    requests=merge(OLDER.requests, {"tools/call": (CallWithOutputsParams, ToolResult)}),
    reshaped={Tool: Reshape(write_tool, read_tool), ToolResult: Reshape(write_result, read_result)},
)
