"""The requests of a recording with what the server sent for each, found by method and params.

Params are compared without what differs in every run: ``_meta``, cursors, answers to questions; and with secrets
masked, so that a masked recording still answers the call with the real one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ferrule.protocol.secret_forms import mask_secrets
from ferrule.testing.recordings.lines import Line
from ferrule.wire.codec import canonical
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["LISTS", "RecordedExchange", "exchanges_of", "identity_of", "key_of", "whole_list"]

LISTS: Final[Mapping[str, str]] = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
"""Method of a list → the member of its result that holds the items."""

_DIFFERS: Final = frozenset({"_meta", "cursor", "inputResponses", "task"})


@dataclass(slots=True)
class RecordedExchange:
    """One request of the client, and what the server sent for it.

    Attributes:
        method, params: the request.
        before: notifications and requests of the server before the answer, in their order.
        result: the result; ``None`` for an error, or without an answer.
        error: the error object; ``None`` for a result.
        token: the progress token of the request; ``None`` without.
    """

    method: str
    params: Mapping[str, Any]
    before: list[Mapping[str, Any]] = field(default_factory=list[Mapping[str, Any]])
    result: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    token: Any = None


def key_of(method: str, params: Mapping[str, Any]) -> bytes:
    """Return what is the same for two requests that ask for the same."""
    kept = {name: value for name, value in params.items() if name not in _DIFFERS and value is not None}
    if not kept.get("arguments", True):
        del kept["arguments"]  # absent and empty arguments are the same call
    return canonical([method, mask_secrets(kept)])


def exchanges_of(lines: Iterable[Line]) -> list[RecordedExchange]:
    """Return the requests of the client that were answered, in the order in which they were sent."""
    made: list[RecordedExchange] = []
    asked: dict[bytes, RecordedExchange] = {}
    for line in lines:
        for message in line.message if is_list(line.message) else [line.message]:
            if is_mapping(message):
                _take(line.sender, message, made, asked)
    return [each for each in made if each.result is not None or each.error is not None]


def _take(
    sender: str, message: Mapping[str, Any], made: list[RecordedExchange], asked: dict[bytes, RecordedExchange]
) -> None:
    method, params = message.get("method"), message.get("params")
    if sender == "client":
        if isinstance(method, str) and "id" in message:
            given: Mapping[str, Any] = params if is_mapping(params) else {}
            meta = given.get("_meta")
            token = meta.get("progressToken") if is_mapping(meta) else None
            made.append(RecordedExchange(method, given, token=token))
            asked[canonical(message["id"])] = made[-1]
        return
    if isinstance(method, str):
        exchange = _belongs_to(message, asked)
        if exchange is not None:
            exchange.before.append(message)
        return
    answered = asked.pop(canonical(message.get("id")), None)
    if answered is not None:
        result, error = message.get("result"), message.get("error")
        answered.result = result if is_mapping(result) else None
        answered.error = error if is_mapping(error) else None


def _belongs_to(message: Mapping[str, Any], asked: Mapping[bytes, RecordedExchange]) -> RecordedExchange | None:
    """Return the request that a message of the server is about: by its progress token, else the last one that is open.

    Changes of lists belong to none.
    """
    params = message.get("params")
    if message["method"] == "notifications/progress":
        token = params.get("progressToken") if is_mapping(params) else None
        return next((each for each in asked.values() if each.token is not None and each.token == token), None)
    if "id" not in message and message["method"] != "notifications/message":
        return None
    return list(asked.values())[-1] if asked else None


def whole_list(exchanges: Iterable[RecordedExchange], method: str) -> list[dict[str, Any]]:
    """Return each recorded list as one result with the items of all its pages, in the order of the recording."""
    made: list[dict[str, Any]] = []
    member = LISTS[method]
    for each in exchanges:
        if each.method != method or each.result is None:
            continue
        items = each.result.get(member)
        page: list[Any] = items if is_list(items) else []
        if each.params.get("cursor") is not None and made:
            made[-1][member] = [*made[-1][member], *page]
        else:
            made.append({**each.result, member: page})
        made[-1].pop("nextCursor", None)
    return made


def identity_of(exchanges: Iterable[RecordedExchange]) -> tuple[dict[str, Any], dict[str, Any], str | None]:
    """Return the server's identity, its capabilities, and its instructions, as it sent them first."""
    for each in exchanges:
        if each.result is None:
            continue
        info, capabilities = each.result.get("serverInfo"), each.result.get("capabilities")
        meta = each.result.get("_meta")
        stamp = meta.get("io.modelcontextprotocol/serverInfo") if is_mapping(meta) else None
        found = info if is_mapping(info) else stamp
        if is_mapping(found) and isinstance(found.get("name"), str):
            text = each.result.get("instructions")
            known = dict(capabilities) if is_mapping(capabilities) else {}
            return dict(found), known, text if isinstance(text, str) else None
    return {"name": "recording", "version": "0"}, {}, None
