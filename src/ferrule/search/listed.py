"""The definitions of the three tools of a search, for servers that do not have them as functions.

`ferrule.app.search.tools` has them as functions; a test checks that the two are equal.
"""

from __future__ import annotations

from typing import Any, Final

from ferrule.search.definitions import CALL_TOOL, DESCRIBE_TOOL, MAX_FOUND, MAX_OFFSET, SEARCH_TOOLS

__all__ = ["DEFINITIONS"]

_READS: Final = {"readOnlyHint": True, "openWorldHint": False}


def _arguments(properties: dict[str, Any], required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [required], "additionalProperties": False}


DEFINITIONS: Final[dict[str, dict[str, Any]]] = {
    SEARCH_TOOLS: {
        "name": SEARCH_TOOLS,
        "inputSchema": _arguments(
            {
                "query": {
                    "type": "string",
                    "description": "What is to be done, in a few words; empty for all tools",
                },
                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_FOUND, "default": 8},
                "offset": {"type": "integer", "minimum": 0, "maximum": MAX_OFFSET, "default": 0},
            },
            "query",
        ),
        "description": "Find tools of this server by what they do. Then see one with describe_tool and use it with "
        "call_tool.",
        "outputSchema": {"type": "object"},
        "annotations": _READS,
    },
    DESCRIBE_TOOL: {
        "name": DESCRIBE_TOOL,
        "inputSchema": _arguments({"name": {"type": "string"}}, "name"),
        "description": "Return the description and the arguments (JSON Schema) of a tool that search_tools found.",
        "outputSchema": {"type": "object"},
        "annotations": _READS,
    },
    CALL_TOOL: {
        "name": CALL_TOOL,
        "inputSchema": _arguments({"name": {"type": "string"}, "arguments": {"type": "object"}}, "name"),
        "description": "Call a tool that search_tools found, with arguments as describe_tool describes them.",
        "annotations": {},
    },
}
"""Name → the entry in ``tools/list``, as the newest revision has it; not to be changed."""
