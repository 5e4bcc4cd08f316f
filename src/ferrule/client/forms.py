"""Ready-made elicitation handlers: fill in the defaults, decline, or ask at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, cast

import anyio.to_thread

from ferrule.client.callbacks import ServerQuestion
from ferrule.wire.types import ElicitRequestParams, ElicitResult

__all__ = ["ask_at_terminal", "decline", "fill_defaults"]


async def fill_defaults(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Accept a form with its defaults; decline one that requires a field without a default, and every URL.

    For programs without a user, and tests.
    """
    if params.mode == "url":
        return ElicitResult("decline")
    schema = params.requested_schema or {}
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
    content = {name: field["default"] for name, field in properties.items() if "default" in field}
    if any(name not in content for name in schema.get("required") or ()):
        return ElicitResult("decline")
    return ElicitResult("accept", content=content)


async def decline(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Decline everything."""
    return ElicitResult("decline")


async def ask_at_terminal(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Ask on stderr and read from stdin, field by field; an empty line takes the default, Ctrl-D cancels.

    Serves forms and URLs: a URL is shown in full, never opened. Two questions at once wait for each other.
    """
    async with _terminal():
        return await anyio.to_thread.run_sync(_ask, params, question, abandon_on_cancel=True)


_locks: dict[int, anyio.Lock] = {}


def _terminal() -> anyio.Lock:
    """One question at a time per event loop."""
    from ferrule.transports._watch import runs_on_trio

    if runs_on_trio():
        import trio

        key = id(trio.lowlevel.current_root_task())
    else:
        import asyncio

        key = id(asyncio.get_running_loop())
    return _locks.setdefault(key, anyio.Lock())


def _ask(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    print(f"\n{question.server} asks: {params.message}", file=sys.stderr)
    try:
        if params.mode == "url":
            print(f"  Open this page yourself if you trust it: {params.url}", file=sys.stderr)
            return ElicitResult("accept" if _yes("  Will you?") else "decline")
        schema = params.requested_schema or {}
        properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
        required = set(cast("list[str]", schema.get("required") or []))
        content = {name: _field(name, field, name in required) for name, field in properties.items()}
        given = {name: value for name, value in content.items() if value is not None}
        return ElicitResult("accept", content=given) if _yes("  Send this?") else ElicitResult("decline")
    except EOFError:
        return ElicitResult("cancel")


def _field(name: str, field: Mapping[str, Any], is_required: bool) -> Any:
    choices = _choices(field)
    label = field.get("title") or name
    hint = f" {sorted(choices)}" if choices else f" ({field.get('type', 'text')})"
    default = f" [{field['default']}]" if "default" in field else ""
    while True:
        text = _read(f"  {label}{hint}{default}: ")
        if not text:
            if "default" in field:
                return field["default"]
            if not is_required:
                return None
            continue
        value = _value(text, field, choices)
        if value is not None:
            return value
        print("  That does not fit.", file=sys.stderr)


def _choices(field: Mapping[str, Any]) -> list[str]:
    items = cast("Mapping[str, Any]", field.get("items") or {})
    for source in (field, items):
        if "enum" in source:
            return [str(value) for value in source["enum"]]
        for key in ("oneOf", "anyOf"):
            if key in source:
                return [str(option["const"]) for option in source[key]]
    return []


def _value(text: str, field: Mapping[str, Any], choices: list[str]) -> Any:
    kind = field.get("type")
    try:
        if kind == "array":
            picked = [part.strip() for part in text.split(",")]
            return picked if all(part in choices for part in picked) else None
        if choices:
            return text if text in choices else None
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return None
    if kind == "boolean":
        return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(text.lower())
    return text


def _yes(prompt: str) -> bool:
    return _read(f"{prompt} [y/N] ").lower() in ("y", "yes")


def _read(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()
