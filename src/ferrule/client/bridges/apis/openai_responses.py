"""OpenAI's Responses API.

The output of a function is text, or a list of texts, images and files; it has no mark for errors. Deferred functions
stand in one namespace per server, and ``tool_search`` loads them (gpt-5.4 and later). ``strict`` is always given, since
the API otherwise tries to make a schema strict. Source: OpenAI, "Function calling", "Tool search", reference of
Responses; read 2026-11-29.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ferrule.client.bridges.apis.api import DOCUMENTS, IMAGES, ToolEntry, data_url, error_text
from ferrule.client.bridges.names import fitting_name
from ferrule.client.bridges.parts import Media, Part, plain_text
from ferrule.client.bridges.schemas.dialects import OPENAI, OPENAI_STRICT
from ferrule.client.bridges.turns import CallOutcome, ModelCall, ModelTurn, items_of, member
from ferrule.wire.json_types import is_array

__all__ = ["OpenAiResponsesApi"]

_NOT_ITEMS = frozenset({"function", "text"})


class OpenAiResponsesApi:
    """Tools, calls and results in the form of the Responses API."""

    name = "openai"
    dialect = OPENAI
    strict = OPENAI_STRICT
    max_strict = None
    max_tools = None
    media = IMAGES | DOCUMENTS
    searches = True

    def tools(self, entries: Sequence[ToolEntry]) -> list[dict[str, Any]]:
        """Return functions; deferred ones in a namespace per server, followed by the API's search."""
        made = [_function(entry) for entry in entries if not entry.deferred]
        deferred: dict[str, list[ToolEntry]] = {}
        for entry in entries:
            if entry.deferred:
                deferred.setdefault(entry.server, []).append(entry)
        made += [_namespace(server, deferred[server]) for server in sorted(deferred)]
        return [*made, {"type": "tool_search"}] if deferred else made

    def reads(self, response: Any) -> bool:
        """Return whether it has, or is, a list of output items, or is an event that has such a response."""
        if is_array(response):
            kinds = [member(item, "type") for item in response]
            return bool(kinds) and all(isinstance(kind, str) and kind not in _NOT_ITEMS for kind in kinds)
        inner = _inner(response)
        return member(inner, "object") == "response" or isinstance(member(inner, "output"), list)

    def turn(self, response: Any) -> ModelTurn:
        """Return the ``function_call`` items; calls of other kinds are others."""
        calls: list[ModelCall] = []
        others: list[Any] = []
        for item in response if is_array(response) else items_of(_inner(response), "output"):
            kind = member(item, "type")
            if kind == "function_call":
                calls.append(
                    ModelCall.of_json(
                        str(member(item, "call_id") or ""), str(member(item, "name")), member(item, "arguments"), item
                    )
                )
            elif isinstance(kind, str) and (kind.endswith("_call") or kind == "mcp_approval_request"):
                others.append(item)
        return ModelTurn(calls, others)

    def messages(self, outcomes: Sequence[CallOutcome]) -> list[dict[str, Any]]:
        """Return one ``function_call_output`` item for each call."""
        return [_output(outcome) for outcome in outcomes]


def _inner(response: Any) -> Any:
    """Return the response in the last event of a stream."""
    kind = member(response, "type")
    is_event = isinstance(kind, str) and kind.startswith("response.")
    return member(response, "response") if is_event else response


def _function(entry: ToolEntry) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "function", "name": entry.name, "parameters": entry.schema}
    if entry.description:
        made["description"] = entry.description
    made["strict"] = entry.is_strict
    if entry.deferred:
        made["defer_loading"] = True
    return made


def _namespace(server: str, entries: Sequence[ToolEntry]) -> dict[str, Any]:
    return {
        "type": "namespace",
        "name": fitting_name(server or "tools"),
        "description": _namespace_text(server, entries),
        "tools": [_function(entry) for entry in entries],
    }


def _namespace_text(server: str, entries: Sequence[ToolEntry]) -> str:
    names = ", ".join(entry.name for entry in entries[:40])
    more = f" and {len(entries) - 40} more" if len(entries) > 40 else ""
    return f"Tools of {server}: {names}{more}" if server else f"Tools: {names}{more}"


def _output(outcome: CallOutcome) -> dict[str, Any]:
    parts = outcome.parts
    if any(isinstance(part, Media) for part in parts):
        output: Any = [_content(part) for part in parts]
        if outcome.is_error:
            output = [{"type": "input_text", "text": "Error:"}, *output]
    else:
        output = error_text(parts, outcome.is_error)
    made = {"type": "function_call_output", "call_id": outcome.call.id, "output": output}
    caller = member(outcome.call.origin, "caller")
    if member(caller, "type") == "program":  # the result goes to the program that called
        made["caller"] = {"type": "program", "caller_id": member(caller, "caller_id")}
    return made


def _content(part: Part) -> dict[str, Any]:
    if not isinstance(part, Media):
        return {"type": "input_text", "text": plain_text([part])}
    if part.mime_type.startswith("image/"):
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    return {"type": "input_file", "filename": part.name, "file_data": data_url(part)}
