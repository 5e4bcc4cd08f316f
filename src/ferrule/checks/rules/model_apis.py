"""The rules about model APIs: which schemas each of them refuses, as documented and reported on 2026-11-28.

docs/topics/types.md has the same facts as a table. An API that ignores a keyword does not refuse it. Strict modes,
formats and names of properties are those of `ferrule.client.bridges.schemas.dialects`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.rules.schema_walk import Node, subschemas
from ferrule.checks.table import RuleFinding
from ferrule.client.bridges.schemas.dialects import (
    ANTHROPIC,
    ANTHROPIC_STRICT,
    GEMINI_OPENAPI,
    OPENAI_STRICT,
    Dialect,
)
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.struct import Value

__all__ = ["MODEL_APIS", "CheckedApi", "check_model_apis"]

Problem = tuple[str, str]
"""A JSON pointer and the reason."""

_UNIONS: Final = ("anyOf", "oneOf", "allOf")
_GEMINI_UNKNOWN: Final = (
    "$ref", "$defs", "definitions", "oneOf", "allOf", "not", "if", "const", "prefixItems", "patternProperties",
    "propertyNames", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "contains",
    "contentEncoding", "dependentSchemas", "dependentRequired", "unevaluatedProperties",
)  # fmt: skip
_GEMINI_FORMATS: Final = {
    "string": tuple(GEMINI_OPENAPI.formats or ()),
    "number": ("float", "double"),
    "integer": ("int32", "int64"),
}
_ASSERTIONS: Final = frozenset(
    {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
     "minItems", "maxItems", "uniqueItems", "contains", "prefixItems", "minProperties", "maxProperties", "oneOf",
     "allOf", "not", "if", "patternProperties", "propertyNames", "dependentRequired", "contentEncoding"}
)  # fmt: skip
"""Keywords that forbid values; a strict mode refuses those that its dialect lacks."""


class CheckedApi(Value, frozen=True):
    """A way to give tools to a model.

    Attributes:
        name: its name on the command line.
        title: its name for people.
        code: the rule of its findings.
        problems: ``(schema, nodes) -> problems``.
        is_usual: whether it is judged without being named.
    """

    name: str
    title: str
    code: str
    problems: Callable[[Mapping[str, Any], list[Node]], Iterator[Problem]]
    is_usual: bool = True


def _openai(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[Problem]:
    for key in (*_UNIONS, "not", "enum"):
        if key in schema:
            yield f"/{key}", f"{key} at the root"
    if "properties" not in schema:
        yield "", "a root without properties"
    for node in nodes:
        if node.schema.get("type") == "array" and "items" not in node.schema and "prefixItems" not in node.schema:
            yield node.path, "an array without items"


def _anthropic(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[Problem]:
    for key in _UNIONS:
        if key in schema:
            yield f"/{key}", f"{key} at the root"
    properties = schema.get("properties")
    for name in properties if is_mapping(properties) else ():
        if ANTHROPIC.property_names is not None and not ANTHROPIC.property_names.fullmatch(name):
            yield f"/properties/{name}", "a parameter whose name is not 1 to 64 letters, digits, _, - and dots"


def _gemini(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[Problem]:
    for node in nodes:
        if "/$defs/" in node.path or "/definitions/" in node.path:
            continue  # the reference to it is reported
        part = node.schema
        for key in _GEMINI_UNKNOWN:
            if key in part:
                yield f"{node.path}/{key}", key
        kind = part.get("type")
        if is_list(kind):
            yield f"{node.path}/type", "a list of types"
            continue
        if kind == "array" and not (is_mapping(part.get("items")) and part["items"]):
            yield node.path, "an array without the type of its items"
        values = part.get("enum")
        if is_list(values) and any(not isinstance(value, str) for value in values):
            yield f"{node.path}/enum", "an enum of other values than text"
        form = part.get("format")
        if isinstance(form, str) and isinstance(kind, str) and form not in _GEMINI_FORMATS.get(kind, (form,)):
            yield f"{node.path}/format", f"the format {form[:40]}"


def _strict(dialect: Dialect, nodes: list[Node]) -> Iterator[Problem]:
    for node in nodes:
        part = node.schema
        for key in sorted(_ASSERTIONS & part.keys() - dialect.keywords):
            yield f"{node.path}/{key}", key
        form = part.get("format")
        if isinstance(form, str) and part.get("type") == "string" and form not in (dialect.formats or (form,)):
            yield f"{node.path}/format", f"the format {form[:40]}"
        properties, required = part.get("properties"), part.get("required")
        if part.get("type") != "object" and not is_mapping(properties):
            continue
        if dialect.closed and part.get("additionalProperties") is not False:
            yield node.path, "an object without additionalProperties: false"
        listed: list[Any] = required if is_list(required) else []
        if dialect.all_required and is_mapping(properties) and any(name not in listed for name in properties):
            yield f"{node.path}/required", "a property that is not required"


def _openai_strict(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[Problem]:
    yield from _openai(schema, nodes)
    yield from _strict(OPENAI_STRICT, nodes)


def _anthropic_strict(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[Problem]:
    yield from _anthropic(schema, nodes)
    yield from _strict(ANTHROPIC_STRICT, nodes)


_ALL = (
    CheckedApi("openai", "OpenAI", "F30", _openai),
    CheckedApi("anthropic", "Anthropic", "F31", _anthropic),
    CheckedApi("gemini", "Gemini (parameters)", "F32", _gemini),
    CheckedApi("openai-strict", "OpenAI (strict)", "F33", _openai_strict, is_usual=False),
    CheckedApi("anthropic-strict", "Anthropic (strict)", "F33", _anthropic_strict, is_usual=False),
)

MODEL_APIS: Final[dict[str, CheckedApi]] = {api.name: api for api in _ALL}
"""Name → model API."""


def check_model_apis(picture: ServerPicture, names: frozenset[str]) -> Iterator[RuleFinding]:
    """Return the findings about model APIs: F30 to F33. One per tool, API and reason.

    Args:
        picture: the server.
        names: the APIs to judge, of `MODEL_APIS`.
    """
    apis = [api for api in _ALL if api.name in names]
    for kind, name, definition in picture.named():
        schema = definition.get("inputSchema")
        if kind != "tools" or not is_mapping(schema):
            continue
        nodes = list(subschemas(schema))
        for api in apis:
            yield from _findings(api, name, schema, nodes)


def _findings(api: CheckedApi, name: str, schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[RuleFinding]:
    places: dict[str, list[str]] = {}
    for path, reason in api.problems(schema, nodes):
        places.setdefault(reason, []).append(path)
    for reason, paths in places.items():
        more = "" if len(paths) == 1 else f" (in {len(paths)} places)"
        yield RuleFinding(api.code, "tools", name, f"/inputSchema{paths[0]}", f"{api.title} refuses {reason}{more}")
