"""The results and arguments of a search over tools, the same on a server and on a gateway.

A result shows a tool by its name, the beginning of its description and the names of its arguments. Its definition has
the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from ferrule.wire.json_types import is_list, is_mapping, is_object
from ferrule.wire.revisions import Revision, project_result

__all__ = [
    "ALWAYS_LISTED",
    "CALL_PROBLEM",
    "CALL_TOOL",
    "DESCRIBE_TOOL",
    "MAX_FOUND",
    "MAX_LISTED",
    "MAX_OFFSET",
    "NEVER_FOUND",
    "SEARCH_TOOLS",
    "THE_THREE",
    "ToolSearchMode",
    "argument_names",
    "described_for",
    "has_page",
    "inner_call",
    "is_for_models",
    "most_listed",
    "shown_arguments",
    "summary_of",
    "ui_of",
]

ToolSearchMode: TypeAlias = Literal["auto"] | bool | int
"""Whether three tools that search are listed in place of all tools.

``True``: always; ``"auto"``: where there are more than `MAX_LISTED` tools; a number: where there are more than that;
``False``: never.
"""

ALWAYS_LISTED: Final = "always-listed"
"""The tag of tools that are always listed, also with search."""

NEVER_FOUND: Final = "never-found"
"""The tag of tools that a search neither finds nor describes nor calls, since they are not for models."""

MAX_LISTED: Final = 60
"""Maximum number of listed tools; with more, ``"auto"`` offers search instead."""

MAX_FOUND: Final = 50
"""Maximum number of tools in one result of a search."""

MAX_OFFSET: Final = 1_000_000
"""Maximum offset of a search: the number of tools before the first one of the result."""

SEARCH_TOOLS: Final = "search_tools"
DESCRIBE_TOOL: Final = "describe_tool"
CALL_TOOL: Final = "call_tool"
THE_THREE: Final = (SEARCH_TOOLS, DESCRIBE_TOOL, CALL_TOOL)

_SUMMARY_CHARS = 200

CALL_PROBLEM: Final = "Invalid arguments for tool `call_tool`: give `name` (a text) and `arguments` (an object)"
"""The error text of a malformed call of ``call_tool``."""


def most_listed(mode: ToolSearchMode) -> int | None:
    """Return the maximum number of tools that are listed without search; ``None`` for any number, -1 for none.

    Raises:
        ValueError: ``mode`` is not a `ToolSearchMode`.
    """
    if mode is True:
        return -1
    if mode is False:
        return None
    if mode == "auto":
        return MAX_LISTED
    given: Any = mode  # whatever a program or a configuration file says
    if isinstance(given, int) and given > 0:
        return mode
    raise ValueError(f'tool_search is True, False, "auto" or a number of tools above 0, not {mode!r}')


def ui_of(meta: Any) -> Mapping[str, Any]:
    """Return the ``ui`` object of a tool's or resource's ``_meta``; empty without one."""
    found: Any = meta.get("ui") if is_mapping(meta) else None
    return found if is_mapping(found) else {}


def is_for_models(meta: Any) -> bool:
    """Return whether a tool with this ``_meta`` is for models; some are only for pages of apps (``ui.visibility``)."""
    visibility: Any = ui_of(meta).get("visibility")
    return not is_list(visibility) or "model" in visibility


def has_page(meta: Any) -> bool:
    """Return whether a tool with this ``_meta`` has a page, which a host finds by the tool's entry in the list."""
    return isinstance(ui_of(meta).get("resourceUri"), str)


def inner_call(arguments: Any) -> tuple[str, dict[str, Any] | None] | None:
    """Return name and arguments of the tool in a call of ``call_tool``; ``None`` for malformed arguments."""
    given: Any = arguments or {}
    if not is_object(given) or given.keys() - {"name", "arguments"}:
        return None
    name, inner = given.get("name"), given.get("arguments")
    if not isinstance(name, str) or not (inner is None or is_object(inner)):
        return None
    return name, inner


def described_for(revision: Revision, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's entry in ``tools/list`` in the form of a revision."""
    found: dict[str, Any] = project_result(revision, "tools/list", {"tools": [definition]})["tools"][0]
    return found


def summary_of(name: str, text: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entry of a tool in the result of a search.

    Args:
        name: its name.
        text: its description, or its title if it has none.
        schema: the JSON schema of its arguments.
    """
    text = " ".join(text.split())
    if len(text) > _SUMMARY_CHARS:
        text = f"{text[: _SUMMARY_CHARS - 1]}…"
    required, optional = argument_names(schema)
    parts = {"description": text, "required": required, "optional": optional}
    return {"name": name, **{key: part for key, part in parts.items() if part}}


def shown_arguments(summary: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the required and of the optional arguments in what some server shows of a tool."""

    def texts(value: Any) -> list[str]:
        return [text for text in value if isinstance(text, str)] if is_list(value) else []

    return texts(summary.get("required")), texts(summary.get("optional"))


def argument_names(schema: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the required and of the optional arguments that a JSON schema describes."""
    properties: Any = schema.get("properties")
    needed: Any = schema.get("required")
    names: list[str] = list(properties) if is_mapping(properties) else []
    required = [name for name in names if name in needed] if isinstance(needed, list | tuple) else []
    return required, [name for name in names if name not in required]
