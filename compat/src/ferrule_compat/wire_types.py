"""What a server imports from ``mcp.types``: each name is made from one line of a table, when it is first used.

The table and its syntax are in `ferrule_compat.table`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import Any, Final, Literal

from ferrule_compat.models import REQUIRED, Model, ModelField, Root, to_uri
from ferrule_compat.table import TABLE

__all__ = ["NAMES", "ReadResourceContents", "find"]


_ROOTS: Final = frozenset(
    {"ClientRequest", "ClientNotification", "ClientResult", "JSONRPCMessage", "ServerNotification"}
    | {"ServerRequest", "ServerResult"}
)
_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
_ALIASES: Final[dict[str, Any]] = {
    "AnyFunction": Callable[..., Any],
    "Cursor": str,
    "IncludeContext": Literal["none", "thisServer", "allServers"],
    "LoggingLevel": Literal[_LEVELS],  # type: ignore[valid-type]
    "ProgressToken": str | int,
    "RequestId": int | str,
    "Role": Literal["user", "assistant"],
    "SamplingRole": Literal["user", "assistant"],
    "StopReason": str,
    "ElicitRequestedSchema": dict[str, Any],
    "TaskExecutionMode": Literal["forbidden", "optional", "required"],
}
_BY_KIND: Final = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "resource_link": "ResourceLink",
    "resource": "EmbeddedResource",
    "tool_use": "ToolUseContent",
    "tool_result": "ToolResultContent",
}

_lines: Final[dict[str, str]] = {line.split(None, 1)[0].rstrip(":"): line for line in TABLE.strip().splitlines()}
_made: dict[str, Any] = {**_ALIASES}

NAMES: Final = (*_lines, *_ALIASES, *sorted(_ROOTS), "AnyUrl", "FileUrl")
"""All names of ``mcp.types`` that are offered."""


def find(name: str) -> Any:
    """Return what a name of ``mcp.types`` stands for.

    Raises:
        KeyError: it is not offered.
    """
    if name in _made:
        return _made[name]
    if name in _ROOTS:
        found: Any = type(name, (Root,), {"__module__": "mcp.types"})
    elif name in ("AnyUrl", "FileUrl"):  # the module had imported them from pydantic
        import pydantic

        found = getattr(pydantic, name)
    else:
        found = _from_line(name, _lines[name])
    _made[name] = found
    return found


def _from_line(name: str, line: str) -> Any:
    if " = " in line:
        return json.loads(line.partition(" = ")[2])
    if " | " in line:
        return reduce(or_, (find(each) for each in line.partition(" | ")[2].split()))
    head, _, fields = line.partition(":")
    base = find(head.partition(" < ")[2]) if " < " in head else Model
    body: dict[str, Any] = {"__module__": "mcp.types", "__qualname__": name}
    body["model_fields"] = dict(_field(text) for text in fields.split())
    metaclass: Any = type(Model)
    made = metaclass(name, (base,), body)
    if name in ("RequestParams", "NotificationParams"):
        made.Meta = find("Meta")
    # A generic class of the old SDK, which annotations subscribe.
    if name in ("Request", "Notification", "PaginatedRequest"):
        made.__class_getitem__ = classmethod(lambda cls, _: cls)
    return made


def _field(text: str) -> tuple[str, ModelField]:
    text, _, default = text.partition("=")
    name, _, kind = text.partition(":")
    value: Any = json.loads(default) if default else None if name.endswith("?") else REQUIRED
    name = name.rstrip("?")
    alias = name if name == "_meta" else None
    return name.lstrip("_"), ModelField(alias, value, _reader(kind) if kind else None)


def _reader(kind: str) -> Callable[[Any], Any]:
    if kind.endswith("*"):
        one = _reader(kind[:-1])
        # A tuple or generator is kept as given until it is sent.
        return lambda value: [one(item) for item in value] if isinstance(value, list | tuple) else value
    if kind == "Uri":
        return to_uri
    choose = _CHOICES.get(kind)

    def read(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return [read(item) for item in value] if isinstance(value, list) and kind == "Content" else value
        chosen = kind if choose is None else choose(value)
        return value if chosen is None else find(chosen).read(value)

    return read


_CHOICES: Final[dict[str, Callable[[Mapping[str, Any]], str | None]]] = {
    "Content": lambda value: _BY_KIND.get(value.get("type", "")),
    "Contents": lambda value: "BlobResourceContents" if "blob" in value else "TextResourceContents",
    "Reference": lambda value: "PromptReference" if value.get("type") == "ref/prompt" else "ResourceTemplateReference",
    "ElicitParams": lambda value: "ElicitRequestURLParams" if value.get("mode") == "url" else "ElicitRequestFormParams",
}


class ReadResourceContents:
    """One content item that a low-level server returns for a read resource."""

    def __init__(self, content: str | bytes, mime_type: str | None = None, meta: dict[str, Any] | None = None) -> None:
        self.content = content
        self.mime_type = mime_type
        self.meta = meta
