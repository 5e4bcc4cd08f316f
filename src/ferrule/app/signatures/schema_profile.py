"""The schema profile "model", for the APIs of models: the rewriting of schemas, and a checker of its rules.

Model APIs refuse some valid schemas: with references, a list as ``type``, a null in the union of an optional parameter,
``true`` as a schema, an array without ``items``. One such tool makes all tools of a user unusable. `model_profile`
rewrites any 2020-12 schema of Ferrule or pydantic. The result may accept more than the original (a tuple becomes an
array of its members' union), never less; the function's own conversion still checks the values.

In an input schema, keywords that Gemini's OpenAPI subset lacks are rewritten too: an exclusive bound of an integer
becomes an inclusive one; other exclusive bounds, ``multipleOf``, encodings and formats other than ``date-time`` move to
the description. The table in docs/topics/types.md lists the limits that remain for each API.

References stay for classes that contain themselves, and for shared classes whose inlining would make the schema larger
than `MAX_NODES`.
"""

from __future__ import annotations

import math
from typing import Any, cast

__all__ = ["FORM_FORMATS", "MAX_NODES", "model_profile", "schema_hints", "schema_problems"]

MAX_NODES = 4000
"""Maximum number of schema nodes after inlining classes; above it shared classes stay references."""

_PREFIXES = ("#/$defs/", "#/definitions/")
_NOISE = frozenset({"$defs", "definitions", "$schema", "discriminator", "propertyNames", "uniqueItems"})
_SCHEMA_MAPS = ("properties", "patternProperties", "dependentSchemas")
_SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SCHEMA_PLACES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "unevaluatedItems")

Schema = dict[str, Any]


_KNOWN_FORMATS = frozenset({"date-time", "int32", "int64", "float", "double"})
FORM_FORMATS = frozenset({"email", "uri", "date", "date-time"})
"""Formats that a form may use (elicitation, every revision)."""


def model_profile(schema: Schema, *, output: bool = False, formats: frozenset[str] = _KNOWN_FORMATS) -> Schema:
    """Return ``schema`` rewritten for model APIs; the argument is not changed.

    Args:
        schema: a 2020-12 schema whose references are local.
        output: keep the nulls of optional fields, because results with nulls are validated against it.
        formats: formats that stay in an input schema; others move to the description.
    """
    return _Rewriter(schema, output, formats).document()


class _Rewriter:
    def __init__(self, schema: Schema, output: bool, formats: frozenset[str]) -> None:
        self.root = schema
        self.output = output
        self.formats = formats
        self.defs: Schema = {**schema.get("definitions", {}), **schema.get("$defs", {})}
        self.kept = _recursive(self.defs)
        sizes: dict[str, int] = {}
        if _size(schema, self.defs, self.kept, sizes) > MAX_NODES:
            self.kept = frozenset(self.defs)
        self.used: Schema = {}

    def document(self) -> Schema:
        made = self.node(self.root)
        return {**made, "$defs": self.used} if self.used else made

    def node(self, schema: Any, *, is_optional: bool = False) -> Schema:
        if isinstance(schema, bool):
            return {} if schema else {"not": {}}
        schema = cast("Schema", schema)
        if (name := _local_name(schema)) is not None and name in self.defs:
            return self._reference(name, schema, is_optional)
        made = {key: value for key, value in schema.items() if key not in _NOISE}
        if not self.output:
            _tell_rest(made, self.formats)
        _split_types(made)
        self._members(made, is_optional)
        if "const" in made and not (self.output and made["const"] is None):
            made["enum"] = [made.pop("const")]
        _describe_enum(made, is_optional and not self.output)
        self._array(made)
        self._object(made)
        for place in _SCHEMA_PLACES:
            if place in made and place != "additionalProperties":
                made[place] = self.node(made[place])
        if is_optional and not self.output and made.get("default", 0) is None:
            del made["default"]
        return made

    def _reference(self, name: str, schema: Schema, is_optional: bool) -> Schema:
        beside = {key: value for key, value in schema.items() if key != "$ref" and key not in _NOISE}
        if is_optional and not self.output and beside.get("default", 0) is None:
            del beside["default"]
        if name not in self.kept:
            made = self.node(self.defs[name], is_optional=is_optional)
            if "required" in beside and "required" in made:
                beside["required"] = [*made["required"], *(n for n in beside["required"] if n not in made["required"])]
            return {**made, **beside}
        if name not in self.used:
            self.used[name] = {}
            self.used[name] = self.node(self.defs[name])
        return {"$ref": f"#/$defs/{name}", **beside}

    def _members(self, made: Schema, is_optional: bool) -> None:
        """Simplify a union: one keyword, no null of an optional field, no union of one member."""
        if "allOf" in made:
            parts = [self.node(part) for part in made.pop("allOf")]
            if len(parts) == 1 and not (parts[0].keys() & made.keys() - {"description", "title", "default"}):
                for key, value in parts[0].items():
                    made.setdefault(key, value)
            else:
                made["allOf"] = parts
        branches: list[Any] = [*made.pop("anyOf", ()), *made.pop("oneOf", ())]
        if not branches:
            return
        if is_optional and not self.output:
            branches = [branch for branch in branches if not _is_null(branch)]
        flat: list[Schema] = []
        for branch in branches:
            done = self.node(branch, is_optional=is_optional)
            inner = done["anyOf"] if set(done) == {"anyOf"} else [done]
            flat.extend(part for part in inner if part not in flat)
        if len(flat) == 1:
            for key, value in flat[0].items():
                made.setdefault(key, value)
        elif flat and {} not in flat:
            made["anyOf"] = flat

    def _array(self, made: Schema) -> None:
        places = made.pop("prefixItems", None)
        if places is not None:
            rest = made.pop("items", made.get("maxItems", len(places) + 1) > len(places))
            parts: list[Schema] = []
            for place in (*places, *((rest,) if rest is not False else ())):
                part = self.node(place)
                if part not in parts:
                    parts.append(part)
            open_ended = any(part == {} for part in parts)
            made["items"] = {} if open_ended else parts[0] if len(parts) == 1 else {"anyOf": parts}
        elif made.get("type") == "array":
            made["items"] = {} if made.get("items", True) in (True, False) else made["items"]

    def _object(self, made: Schema) -> None:
        required: list[str] = made.get("required", [])
        for key in _SCHEMA_MAPS:
            if key in made:
                made[key] = {
                    name: self.node(part, is_optional=key == "properties" and name not in required)
                    for name, part in made[key].items()
                }
        extra = made.get("additionalProperties")
        if "patternProperties" in made and not made.get("properties") and len(made["patternProperties"]) == 1:
            (made["additionalProperties"],) = made.pop("patternProperties").values()
        elif extra is True or extra == {}:
            del made["additionalProperties"]
        elif isinstance(extra, dict):
            made["additionalProperties"] = self.node(extra)


def _tell_rest(made: Schema, formats: frozenset[str]) -> None:
    """Replace keywords that not every API supports: by an equal bound, or by a sentence in the description."""
    phrases: list[str] = []
    is_integer = made.get("type") == "integer"
    for exclusive, inclusive, word, step in (
        ("exclusiveMinimum", "minimum", "greater than", 1),
        ("exclusiveMaximum", "maximum", "less than", -1),
    ):
        bound = made.pop(exclusive, None)
        if bound is None:
            continue
        within: Any = bound
        if is_integer:  # the next whole number beyond the bound
            within = math.floor(bound) + 1 if step > 0 else math.ceil(bound) - 1
        else:
            phrases.append(f"{word} {bound}")
        if inclusive in made:
            within = max(within, made[inclusive]) if step > 0 else min(within, made[inclusive])
        made[inclusive] = within
    if (step_size := made.pop("multipleOf", None)) is not None:
        phrases.append(f"a multiple of {step_size}")
    if isinstance(name := made.get("format"), str) and name not in formats:
        phrases.append(_FORMAT_WORDS.get(name, f"format {made.pop('format')}"))
        made.pop("format", None)
    if isinstance(encoding := made.pop("contentEncoding", None), str):
        phrases.append(encoding)
    if isinstance(media := made.pop("contentMediaType", None), str):
        phrases.append(media)
    if phrases:
        text, rest = made.get("description"), ", ".join(phrases)
        made["description"] = f"{text} ({rest})" if text else rest[:1].upper() + rest[1:]


_FORMAT_WORDS = {"date": "a date such as 2026-01-31", "uuid": "a UUID", "uri": "a URI", "email": "an email address"}


def _split_types(made: Schema) -> None:
    """Rewrite ``"type": ["string", "null"]`` as a union."""
    kinds = made.get("type")
    if not isinstance(kinds, list):
        return
    del made["type"]
    kinds = cast("list[str]", kinds)
    about = {key: made.pop(key) for key in list(made) if key not in ("description", "title", "default", "examples")}
    made["anyOf"] = [{"type": kind, **(_keywords_for(kind, about) if kind != "null" else {})} for kind in kinds]


_KEYWORDS = {
    "string": {"minLength", "maxLength", "pattern", "format", "contentEncoding", "contentMediaType"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
    "object": {"properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"},
}
_KEYWORDS["integer"] = _KEYWORDS["number"]


def _keywords_for(kind: str, about: Schema) -> Schema:
    mine = _KEYWORDS.get(kind, set())
    all_kinds = set[str]().union(*_KEYWORDS.values())
    kept = {key: value for key, value in about.items() if key in mine or key not in all_kinds}
    if "enum" in kept:
        kept["enum"] = [value for value in kept["enum"] if _type_name(value) == kind]
        if not kept["enum"]:
            del kept["enum"]
    return kept


def _describe_enum(made: Schema, drop_null: bool) -> None:
    """Add a ``type`` to a set of values; a set of several types becomes a union."""
    values: list[Any] | None = made.get("enum")
    if values is None:
        return
    if drop_null and None in values and len(values) > 1:
        values = [value for value in values if value is not None]
        made["enum"] = values
    kinds = list(dict.fromkeys(_type_name(value) for value in values))
    if "type" in made or not kinds:
        return
    if len(kinds) == 1:
        made["type"] = kinds[0]
        return
    del made["enum"]
    made["anyOf"] = [
        {"type": kind}
        if kind == "null"
        else {"type": kind, "enum": [value for value in values if _type_name(value) == kind]}
        for kind in kinds
    ]


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def _is_null(branch: Any) -> bool:
    if not isinstance(branch, dict):
        return False
    branch = cast("Schema", branch)
    return branch.get("type") == "null" or branch.get("enum") == [None] or branch.get("const", 0) is None


def _local_name(schema: Schema) -> str | None:
    ref = schema.get("$ref")
    if isinstance(ref, str):
        for prefix in _PREFIXES:
            if ref.startswith(prefix):
                return ref.removeprefix(prefix)
    return None


# -- references --------------------------------------------------------------------------------------------------------


def _parts(schema: Schema) -> list[Any]:
    """Return the schemas directly inside a schema; values of ``default`` and ``enum`` are data."""
    found: list[Any] = []
    for key in _SCHEMA_MAPS:
        if isinstance(schema.get(key), dict):
            found.extend(schema[key].values())
    for key in _SCHEMA_LISTS:
        if isinstance(schema.get(key), list):
            found.extend(schema[key])
    found.extend(schema[key] for key in _SCHEMA_PLACES if key in schema)
    return found


def _references(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    schema = cast("Schema", schema)
    name = _local_name(schema)
    return set[str]().union({name} if name is not None else (), *(_references(part) for part in _parts(schema)))


def _recursive(defs: Schema) -> frozenset[str]:
    """Return the names that can reach themselves."""
    direct = {name: _references(part) for name, part in defs.items()}
    found: set[str] = set()
    for name in defs:
        seen: set[str] = set()
        ahead = list(direct[name])
        while ahead:
            step = ahead.pop()
            if step not in seen:
                seen.add(step)
                ahead.extend(direct.get(step, ()))
        if name in seen:
            found.add(name)
    return frozenset(found)


def _size(schema: Any, defs: Schema, kept: frozenset[str], sizes: dict[str, int]) -> int:
    """Return the number of nodes after inlining all definitions but those in ``kept``."""
    if not isinstance(schema, dict):
        return 1
    schema = cast("Schema", schema)
    total = 1 + sum(_size(part, defs, kept, sizes) for part in _parts(schema))
    name = _local_name(schema)
    if name is not None and name in defs and name not in kept:
        if name not in sizes:
            sizes[name] = _size(defs[name], defs, kept, sizes)
        total += sizes[name]
    return total


# -- the checker -------------------------------------------------------------------------------------------------------


def schema_problems(schema: Schema, *, output: bool = False) -> list[str]:
    """Return the parts of a tool's schema that a model API may refuse; empty if it follows the profile.

    Args:
        schema: an input schema, or an output schema with ``output=True`` (any root, nulls allowed).
        output: judge it as an output schema.

    Returns:
        One line per problem: a JSON pointer and the reason.
    """
    problems: list[str] = []
    schema = cast("Schema", _well_formed(schema, "#", problems, 0))
    if not output and schema.get("type") != "object":
        problems.append("#: the root of an input schema has type object")
    defs: Schema = schema.get("$defs", {})
    if len(defs) > _MAX_DEFS:
        return [*problems, f"#/$defs: {len(defs)} definitions; more than {_MAX_DEFS} are not looked at"]
    _check(schema, "#", False, output, problems, _recursive(defs), defs)
    for name, part in defs.items():
        _check(part, f"#/$defs/{name}", False, output, problems, _recursive(defs), defs)
    return problems


def schema_hints(schema: Schema) -> list[str]:
    """Return improvements of an input schema that every model API accepts already.

    Returns:
        One line per hint; empty when there is none.
    """
    hints: list[str] = []
    if schema.get("additionalProperties") is not False:
        hints.append("unknown argument names pass unnoticed; `additionalProperties: false` would refuse them")
    for name in ("ctx", "context"):
        described: Any = schema.get("properties")
        part: Any = cast("Schema", described).get(name) if isinstance(described, dict) else None
        if isinstance(part, dict) and "type" not in part:
            hints.append(f"{name!r} is an argument of any type; did its parameter mean to be `{name}: Context`?")
    return hints


_SHAPES: dict[str, tuple[type, ...]] = {
    "type": (str, list),
    "enum": (list,),
    "required": (list,),
    "$ref": (str,),
    "$defs": (dict,),
    **dict.fromkeys(_SCHEMA_MAPS, (dict,)),
    **dict.fromkeys(_SCHEMA_LISTS, (list,)),
    **dict.fromkeys(_SCHEMA_PLACES, (dict, bool)),
}
"""Keyword → the kind of its value, for checks of foreign schemas."""
_MAX_DEFS = 1000
_MAX_DEPTH = 100


def _well_formed(node: Any, path: str, problems: list[str], depth: int) -> Any:
    """Return ``node`` without keywords whose values are of a wrong kind or nested too deeply; each adds a problem."""
    if not isinstance(node, dict):
        return node
    made: Schema = {}
    for key, value in cast("Schema", node).items():
        kinds = _SHAPES.get(key)
        if kinds is None:
            made[key] = value
        elif not isinstance(value, kinds) or (
            key == "required" and not all(isinstance(name, str) for name in cast("list[Any]", value))
        ):
            problems.append(f"{path}: {key!r} has a value that it may not have")
        elif depth == _MAX_DEPTH:
            problems.append(f"{path}: nested more than {_MAX_DEPTH} deep")
        elif key in _SCHEMA_MAPS or key == "$defs":
            made[key] = {
                name: _well_formed(part, f"{path}/{key}/{name}", problems, depth + 1)
                for name, part in cast("Schema", value).items()
            }
        elif key in _SCHEMA_LISTS:
            made[key] = [
                _well_formed(part, f"{path}/{key}/{index}", problems, depth + 1)
                for index, part in enumerate(cast("list[Any]", value))
            ]
        elif key in _SCHEMA_PLACES:
            made[key] = _well_formed(value, f"{path}/{key}", problems, depth + 1)
        else:
            made[key] = value
    return made


_UNKNOWN_SOMEWHERE = ("oneOf", "const", "prefixItems", "discriminator", "$schema")


def _check(
    node: Any, path: str, is_optional: bool, output: bool, problems: list[str], recursive: frozenset[str], defs: Schema
) -> None:
    if isinstance(node, bool):
        problems.append(f"{path}: a boolean stands where a schema belongs")
        return
    if not isinstance(node, dict):
        problems.append(f"{path}: not a schema")
        return
    node = cast("Schema", node)
    if "$ref" in node:
        name = _local_name(node)
        if name is None or name not in defs:
            problems.append(f"{path}: dangling reference {node['$ref']!r}")
        elif name not in recursive:
            problems.append(f"{path}: reference to {name!r}, which does not contain itself")
    if isinstance(node.get("type"), list):
        problems.append(f"{path}: a list of types")
    if node.get("type") == "array" and "items" not in node:
        problems.append(f"{path}: an array without items")
    problems.extend(f"{path}: {word} is not known everywhere" for word in _UNKNOWN_SOMEWHERE if word in node)
    if is_optional and not output:
        if any(_is_null(branch) for branch in node.get("anyOf", ())) or None in node.get("enum", ()):
            problems.append(f"{path}: a null in the union of an optional parameter")
        if node.get("default", 0) is None:
            problems.append(f"{path}: a null default of an optional parameter")
    required: list[str] = node.get("required", [])
    described: Schema = node.get("properties", {})
    problems.extend(f"{path}: {name!r} is required and not described" for name in required if name not in described)
    for key in _SCHEMA_MAPS:
        for name, part in node.get(key, {}).items():
            is_free = key == "properties" and name not in required
            title = cast("Schema", part).get("title") if isinstance(part, dict) else None
            if isinstance(title, str) and title.replace(" ", "_").lower() == name.lower():
                problems.append(f"{path}/{key}/{name}: a title that repeats the name")
            _check(part, f"{path}/{key}/{name}", is_free, output, problems, recursive, defs)
    for key in _SCHEMA_LISTS:
        for index, part in enumerate(node.get(key, ())):
            _check(part, f"{path}/{key}/{index}", False, output, problems, recursive, defs)
    for key in _SCHEMA_PLACES:
        if key in node and not (key == "additionalProperties" and node[key] is False):
            _check(node[key], f"{path}/{key}", False, output, problems, recursive, defs)
