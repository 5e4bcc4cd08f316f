"""``key=value`` on a command line as the arguments of a tool: each value by the type that the tool's schema names."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import click

__all__ = ["read_arguments", "read_json", "read_json_option", "read_strings"]


def read_json(text: str) -> Any:
    """Return the value of a JSON text that a person wrote; it may begin with a byte order mark.

    Raises:
        ValueError: it is not JSON, which ``NaN`` and ``Infinity`` are not, or is nested too deeply.
    """
    try:
        return json.loads(text.removeprefix("\ufeff"), parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")  # it would be sent as null


def read_json_option(text: str | None) -> dict[str, Any]:
    """Return the object that ``--json`` names: JSON, ``@file``, or ``-`` for stdin.

    Raises:
        click.UsageError: the text is not a JSON object.
    """
    if text is None:
        return {}
    try:
        if text == "-":
            value = read_json(sys.stdin.read())
        elif text.startswith("@"):
            value = read_json(Path(text[1:]).read_text(encoding="utf-8"))
        else:
            value = read_json(text)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--json: {error}") from error
    if not isinstance(value, dict):
        raise click.UsageError("--json takes an object")
    return cast("dict[str, Any]", value)


def read_strings(pairs: Sequence[str]) -> dict[str, str]:
    """Return ``key=value`` pairs as a mapping, with values as text.

    Raises:
        click.UsageError: a pair has no equals sign.
    """
    made: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name:
            raise click.UsageError(f"An argument is written name=value (or name:=JSON), not {pair!r}")
        made[name] = value
    return made


def read_arguments(pairs: Sequence[str], schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return ``key=value`` and ``key:=JSON`` pairs as arguments.

    In ``key=value`` the value is text if the schema allows text, else JSON; for a list, values of a repeated key are
    collected. ``key=@file`` reads the value from a file: as base64 where the schema says that text is base64, or where
    the file is not UTF-8, else as text. Without a schema, a value that is valid JSON is read as JSON.

    Raises:
        click.UsageError: a pair is malformed, a file cannot be read, or a value does not fit the type.
    """
    properties = cast("Mapping[str, Any]", (schema or {}).get("properties") or {})
    made: dict[str, Any] = {}
    for name, text in read_strings(pairs).items():
        if name.endswith(":"):
            made[name[:-1]] = _as_json(name, text)
    lists: dict[str, list[Any]] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        if name.endswith(":"):
            continue
        part = properties.get(name)
        if text.startswith("@"):
            text = _file(name, text[1:], part)
        kinds = _kinds(part, schema or {})
        if "array" in kinds and not text.lstrip().startswith("["):
            items = cast("Mapping[str, Any]", part).get("items")
            lists.setdefault(name, []).append(_typed(name, text, _kinds(items, schema or {})))
            made[name] = lists[name]
        else:
            made[name] = _typed(name, text, kinds)
    return made


def _file(name: str, path: str, part: Any) -> str:
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{name}: {error}") from error
    if not _is_base64(part):
        with suppress(UnicodeDecodeError):  # JSON has no other form for bytes that are no text
            return content.decode()
    return b64encode(content).decode()


def _is_base64(part: Any) -> bool:
    """Return whether a schema says that its text is base64: by a keyword, or by the pattern that Ferrule publishes."""
    if not isinstance(part, Mapping):
        return False
    from ferrule.app.signatures.scalars import ACCEPTED

    schema = cast("Mapping[str, Any]", part)
    branches = [*cast("list[Any]", schema.get("anyOf") or []), *cast("list[Any]", schema.get("oneOf") or [])]
    return (
        schema.get("contentEncoding") == "base64"
        or schema.get("format") in ("base64", "byte", "binary")
        or schema.get("pattern") == ACCEPTED[bytes]["pattern"]
        or any(_is_base64(branch) for branch in branches)
    )


def _typed(name: str, text: str, kinds: set[str]) -> Any:
    if "string" in kinds:
        if text == "null" and "null" in kinds:
            return None
        return text
    if not kinds:
        try:
            return read_json(text)
        except ValueError:
            return text
    if kinds <= {"boolean", "null"} and text.lower() in ("yes", "no", "on", "off", "true", "false"):
        return text.lower() in ("yes", "on", "true")
    return _as_json(name, text, kinds)


def _as_json(name: str, text: str, kinds: set[str] | None = None) -> Any:
    try:
        return read_json(text)
    except ValueError as error:
        wanted = f"of type {' or '.join(sorted(kinds))}" if kinds else "JSON"
        raise click.UsageError(f"{name.removesuffix(':')} is not {wanted}: {text!r}") from error


def _kinds(part: Any, root: Mapping[str, Any], depth: int = 0, seen: set[int] | None = None) -> set[str]:
    """Return the JSON types that a schema allows; empty if it names none. Each part of the schema is visited once."""
    seen = set() if seen is None else seen
    if not isinstance(part, Mapping) or depth > 8 or id(cast("Any", part)) in seen:
        return set()
    schema = cast("Mapping[str, Any]", part)
    seen.add(id(schema))
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        return _kinds(cast("Mapping[str, Any]", root.get("$defs") or {}).get(reference[8:]), root, depth + 1, seen)
    kind = schema.get("type")
    if isinstance(kind, str):
        return {kind}
    if isinstance(kind, list):
        return set(cast("list[str]", kind))
    found: set[str] = set()
    for key in ("anyOf", "oneOf", "allOf"):
        for branch in cast("list[Any]", schema.get(key) or []):
            found |= _kinds(branch, root, depth + 1, seen)
    for value in [*cast("list[Any]", schema.get("enum") or []), *([schema["const"]] if "const" in schema else [])]:
        found.add(_kind_of(value))
    return found


def _kind_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"
