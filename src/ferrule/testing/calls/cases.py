"""Calls of a tool made from its schema: valid ones, ones at the edges of the schema, and invalid ones.

No randomness: the same schema gives the same cases. Each case is compared with the schema by the validator, so that a
case is what its kind says; a value that cannot be made, such as text for a regular expression without an example, is
left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from ferrule.client.calls.schema_check import SchemaCheck
from ferrule.protocol.errors import MCPError
from ferrule.protocol.schema_work import SchemaTooCostly
from ferrule.testing.calls.values import edge_values, plain_value, wrong_values
from ferrule.wire.codec import encode_str, to_builtins
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.client.client import Client
    from ferrule.client.sync import SyncClient
    from ferrule.wire.types import Tool

__all__ = ["CaseKind", "ToolCase", "check_tools", "check_tools_sync", "tool_cases"]

CaseKind: TypeAlias = Literal["valid", "edge", "invalid"]

MAX_CASES: Final = 200
"""Cases of one tool."""
SHOWN: Final = 20
"""Failures that one error names."""


class ToolCase(Value, frozen=True):
    """One call.

    Attributes:
        tool: the tool's name.
        kind: ``valid``: ordinary values; ``edge``: values at the bounds of the schema; ``invalid``: what it forbids.
        arguments: the arguments.
        why: what is special about it.
    """

    tool: str
    kind: CaseKind
    arguments: dict[str, Any]
    why: str


def tool_cases(tool: Tool | Mapping[str, Any]) -> list[ToolCase]:
    """Return the calls that a tool's input schema gives; at most 200.

    Args:
        tool: an entry of ``tools/list``.

    Raises:
        ValueError: the schema is no JSON Schema.
    """
    found: Any = tool if is_mapping(tool) else to_builtins(tool)
    name = str(found["name"])
    schema: Mapping[str, Any] = found.get("inputSchema") or {}
    check = SchemaCheck(dict(schema))
    made: list[ToolCase] = []
    seen: set[str] = set()
    for kind, arguments, why in _candidates(schema):
        text = encode_str(arguments)
        if text in seen or not _is_of_kind(check, kind, arguments):
            continue
        seen.add(text)
        made.append(ToolCase(name, kind, arguments, why))
        if len(made) == MAX_CASES:
            break
    return made


def _is_of_kind(check: SchemaCheck, kind: CaseKind, arguments: dict[str, Any]) -> bool:
    try:
        problem = check.problem(arguments)
    except SchemaTooCostly:
        return False
    return (problem is not None) == (kind == "invalid")


def _candidates(schema: Mapping[str, Any]) -> Iterator[tuple[CaseKind, dict[str, Any], str]]:
    properties = schema.get("properties")
    parts: Mapping[str, Any] = properties if is_mapping(properties) else {}
    listed = schema.get("required")
    required = [name for name in listed if isinstance(name, str)] if is_list(listed) else []
    values = {name: plain_value(part, schema) for name, part in parts.items()}
    base = {name: values[name] for name in values if name in required}
    yield "valid", base, "required parameters only"
    yield "valid", values, "every parameter"
    for name in required:
        yield "invalid", {other: value for other, value in base.items() if other != name}, f"without {name!r}"
    for name, part in parts.items():
        for value, why in edge_values(part, schema):
            yield "edge", {**base, name: value}, f"{name}: {why}"
        for value, why in wrong_values(part, schema):
            yield "invalid", {**base, name: value}, f"{name}: {why}"
    if schema.get("additionalProperties") is False:
        yield "invalid", {**base, "unexpected_parameter": 1}, "an unknown parameter"


async def check_tools(
    client: Client, *, only: Collection[str] | None = None, skip: Collection[str] = (), may_fail: Collection[str] = ()
) -> int:
    """Call every tool of a server with its cases, and return the number of calls.

    Tools that say they are destructive are called only if ``only`` names them.

    Args:
        client: a connected client.
        only: names of the tools to call; ``None`` for all that are not destructive.
        skip: names of tools that are not called.
        may_fail: names of tools whose valid calls may end with a failure of the tool, such as "not found".

    Raises:
        AssertionError: a valid call or one at an edge was refused, or an invalid one was not.
    """
    count, failures = 0, list[str]()
    for case in _chosen(await client.list_tools(), only, skip):
        count += 1
        try:
            is_refused, words = _outcome(await client.call_tool(case.tool, case.arguments, raise_on_error=False))
        except MCPError as error:
            is_refused, words = True, str(error)
        _judge(case, is_refused, words, may_fail, failures)
    _raise(failures)
    return count


def check_tools_sync(
    client: SyncClient,
    *,
    only: Collection[str] | None = None,
    skip: Collection[str] = (),
    may_fail: Collection[str] = (),
) -> int:
    """Do the same as `check_tools` with a `SyncClient`."""
    count, failures = 0, list[str]()
    for case in _chosen(client.list_tools(), only, skip):
        count += 1
        try:
            is_refused, words = _outcome(client.call_tool(case.tool, case.arguments, raise_on_error=False))
        except MCPError as error:
            is_refused, words = True, str(error)
        _judge(case, is_refused, words, may_fail, failures)
    _raise(failures)
    return count


def _chosen(tools: list[Tool], only: Collection[str] | None, skip: Collection[str]) -> Iterator[ToolCase]:
    for tool in tools:
        hints = tool.annotations
        is_destructive = hints is not None and hints.destructive_hint is True
        if tool.name not in skip and (not is_destructive if only is None else tool.name in only):
            yield from tool_cases(tool)


def _outcome(result: Any) -> tuple[bool, str]:
    return result.is_error, result.text


def _judge(case: ToolCase, is_refused: bool, words: str, may_fail: Collection[str], failures: list[str]) -> None:
    if case.kind == "invalid":
        if not is_refused:
            failures.append(f"{case.tool}({encode_str(case.arguments)[:200]}) was not refused: {case.why}")
    elif is_refused and case.tool not in may_fail:
        failures.append(f"{case.tool}({encode_str(case.arguments)[:200]}) failed ({case.why}): {words[:300]}")


def _raise(failures: list[str]) -> None:
    if failures:
        more = f"\n… and {len(failures) - SHOWN} more" if len(failures) > SHOWN else ""
        raise AssertionError("\n".join([f"{len(failures)} calls:", *failures[:SHOWN]]) + more)
