"""The rules about schemas that do not depend on a model API: valid, closed, described; and about URI templates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.rules.schema_walk import Node, subschemas
from ferrule.checks.table import RuleFinding
from ferrule.client.calls.schema_check import SchemaCheck
from ferrule.protocol.schema_work import SchemaTooCostly
from ferrule.wire.headers import InvalidHeaderAnnotation, compile_param_plan
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.uri_template import UriTemplate, UriTemplateError

__all__ = ["check_schemas"]

MAX_DEFAULTS: Final = 200
"""Maximum number of defaults of one tool that are compared with their schemas."""
_DIALECTS: Final = frozenset(
    {
        "http://json-schema.org/draft-04/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
    }
)
"""Dialects that the validator has in itself; it would fetch the schema of any other one from the network."""
_SAYS_A_TYPE: Final = frozenset(
    {"type", "enum", "const", "$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "not", "if", "properties", "items"}
)


def check_schemas(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about schemas and URI templates: F20 to F27."""
    for kind, name, definition in picture.named():
        if kind == "tools":
            yield from _tool(name, definition)
        elif kind == "templates":
            try:
                UriTemplate(name)
            except UriTemplateError as error:
                yield RuleFinding("F27", kind, name, "/uriTemplate", str(error))


def _tool(name: str, tool: Mapping[str, Any]) -> Iterator[RuleFinding]:
    schema = tool.get("inputSchema")
    if not is_mapping(schema) or schema.get("type") != "object":
        yield RuleFinding("F21", "tools", name, "/inputSchema", "has an input schema whose root is not of type object")
    try:
        compile_param_plan(schema)
    except InvalidHeaderAnnotation as error:
        yield RuleFinding("F26", "tools", name, "/inputSchema", str(error))
    for key in ("inputSchema", "outputSchema"):
        if key in tool and tool[key] is not None:
            yield from (
                RuleFinding(code, "tools", name, f"/{key}{path}", message)
                for code, path, message in _schema(tool[key], key)
            )


def _schema(schema: Any, key: str) -> Iterator[tuple[str, str, str]]:
    """Return code, pointer and message of what is wrong with one schema."""
    if not is_mapping(schema):
        yield "F20", "", "is no JSON Schema: it is not an object"
        return
    invalid = _invalid(schema)
    if invalid is not None:
        yield "F20", *invalid
        return
    nodes = list(subschemas(schema))
    missing = _missing_reference(schema, nodes)
    if missing is not None:
        yield "F22", *missing
        return
    if key == "inputSchema":
        yield from _parameters(schema, nodes)


def _invalid(schema: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return pointer and message where a schema breaks the schema of schemas; ``None`` if it is valid.

    One of another dialect is judged as 2020-12. Its own description of its dialect is not fetched.
    """
    import jsonschema_rs

    dialect = schema.get("$schema")
    known = isinstance(dialect, str) and dialect.rstrip("#") in _DIALECTS
    judged = {key: value for key, value in schema.items() if known or key != "$schema"}
    try:
        jsonschema_rs.meta.validate(judged)
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{part}" for part in error.instance_path)
        return path, f"is no valid JSON Schema: {error.message[:200]}"
    except ValueError:
        return None
    return None


def _missing_reference(schema: Mapping[str, Any], nodes: list[Node]) -> tuple[str, str] | None:
    """Return pointer and message of the first reference to nothing; ``None`` if all are there or cannot be judged."""
    if any("$id" in node.schema or "$anchor" in node.schema or "$dynamicAnchor" in node.schema for node in nodes[1:]):
        return None
    for node in nodes:
        reference = node.schema.get("$ref")
        if not isinstance(reference, str) or reference in ("#", ""):
            continue
        if not reference.startswith("#"):
            if "$id" not in schema:
                return node.path, f"refers to {reference[:200]!r}, which is not in the schema"
        elif reference.startswith("#/") and not _is_there(schema, reference[2:].split("/")):
            return node.path, f"refers to {reference[:200]!r}, which does not exist"
    return None


def _is_there(value: Any, parts: list[str]) -> bool:
    for part in parts:
        name = part.replace("~1", "/").replace("~0", "~")
        if is_mapping(value) and name in value:
            value = value[name]
        elif is_list(value) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return False
    return True


def _parameters(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[tuple[str, str, str]]:
    properties = schema.get("properties")
    described: Mapping[str, Any] = properties if is_mapping(properties) else {}
    required = schema.get("required")
    for each in required if is_list(required) else ():
        if each not in described:
            yield "F23", "/required", f"requires {each!r}, which properties do not describe"
    for name, part in described.items():
        if part is True or (is_mapping(part) and not (_SAYS_A_TYPE & part.keys())):
            yield "F24", f"/properties/{name}", f"takes anything as {name!r}"
    yield from _defaults(schema, nodes)


def _defaults(schema: Mapping[str, Any], nodes: list[Node]) -> Iterator[tuple[str, str, str]]:
    about = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    for node in [node for node in nodes if "default" in node.schema][:MAX_DEFAULTS]:
        try:
            problem = SchemaCheck({**about, **node.schema}).problem(node.schema["default"])
        except (SchemaTooCostly, ValueError, ImportError):
            continue
        if problem is not None:
            yield "F25", f"{node.path}/default", f"has a default that does not fit: {problem[1][:200]}"
