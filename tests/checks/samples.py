"""Pictures of servers for the tests of rules."""

from __future__ import annotations

from typing import Any

from ferrule.checks.judge import CheckSettings, check
from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding


def tool(name: str = "find_rows", description: str | None = "Find the rows of a table.", **more: Any) -> dict[str, Any]:
    """A tool that breaks no rule, with other members in place of its own."""
    made: dict[str, Any] = {
        "name": name,
        "inputSchema": {
            "type": "object",
            "properties": {"table": {"type": "string", "description": "Its name."}},
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": True},
        **more,
    }
    return made if description is None else {**made, "description": description}


def takes(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A tool with these parameters."""
    return tool(inputSchema={"type": "object", "properties": properties, **more})


def found(*tools: dict[str, Any], settings: CheckSettings | None = None, **more: Any) -> list[RuleFinding]:
    """The findings about a server with these tools."""
    return check(ServerPicture(name="sample", version="1", tools=tools, **more), settings)


def codes(*tools: dict[str, Any], settings: CheckSettings | None = None, **more: Any) -> list[str]:
    """The codes of the findings."""
    return [each.code for each in found(*tools, settings=settings, **more)]
