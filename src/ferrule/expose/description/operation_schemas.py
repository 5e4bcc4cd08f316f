"""The input and output schema of one operation, made of the schemas of its parameters, body and answers."""

from __future__ import annotations

from typing import Any, cast

from ferrule.expose.description.keywords import says_the_name
from ferrule.expose.description.schemas import SchemaConverter
from ferrule.expose.files import file_schema
from ferrule.expose.operations import Operation, OperationSchemas, Parameter, Schema, UnusableOperation
from ferrule.wire.codec import encode
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_SCHEMA_BYTES", "SchemaMaker"]

MAX_SCHEMA_BYTES = 24 * 1024
"""Of one schema, as JSON: about 6,000 tokens. A larger one is simplified."""

MAX_ARGUMENT_DESCRIPTION = 200
"""Characters of an argument's description in a schema that is simplified."""


class SchemaMaker:
    """Makes the schemas of the operations of one document.

    Args:
        inputs, outputs: converters of the document.
        base: its URI.
        max_bytes: of one schema, as JSON.
    """

    def __init__(self, inputs: SchemaConverter, outputs: SchemaConverter, base: str, max_bytes: int) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._base = base
        self._max_bytes = max_bytes

    def make(self, operation: Operation) -> OperationSchemas:
        """Return the schemas of an operation.

        Raises:
            UnusableOperation: they refer to a document that may not be fetched, or cannot be enforced.
        """
        notes: list[str] = []
        made = self._input(operation, notes)
        output = self._output(operation, notes)
        return OperationSchemas(
            input=_enforceable(_bounded(made, self._max_bytes, "input", notes), notes),
            output=None if output is None else _bounded(output, self._max_bytes, "output", notes),
            notes=tuple(dict.fromkeys(notes)),
        )

    def _input(self, operation: Operation, notes: list[str]) -> dict[str, Any]:
        properties: dict[str, Any] = {}
        required: list[str] = []
        used: dict[str, None] = {}

        def add(argument: str, raw: Any, *, is_required: bool, description: str | None = None) -> None:
            schema, references = self._inputs.convert(raw, self._base, notes)
            used.update(dict.fromkeys(references))
            if not isinstance(schema, bool) and says_the_name(schema.get("title"), argument):
                schema = {keyword: schema[keyword] for keyword in schema if keyword != "title"}
            properties[argument] = _described(schema, description)
            if is_required:
                required.append(argument)

        for parameter in operation.parameters:
            add(
                parameter.argument,
                parameter.raw_schema,
                is_required=parameter.required,
                description=_place(parameter),
            )
        body = operation.body
        for member in () if body is None else body.fields:
            if member.is_binary:
                schema = file_schema(_own_description(member.raw_schema))
                properties[member.argument] = {"type": "array", "items": schema} if member.is_list else schema
                if member.required:
                    required.append(member.argument)
            else:
                add(member.argument, member.raw_schema, is_required=member.required)
        if body is not None and body.argument is not None:
            if body.form == "value":
                add(body.argument, body.raw_schema, is_required=body.required, description=body.description)
            else:
                is_text = body.form == "text"
                properties[body.argument] = (
                    _described({"type": "string"}, body.description or f"The body, as {body.content_type}")
                    if is_text
                    else file_schema(body.description)
                )
                if body.required:
                    required.append(body.argument)
        made: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            made["required"] = required
        made["additionalProperties"] = False
        definitions = self._inputs.definitions(used, notes)
        if definitions:
            made["$defs"] = definitions
        return made

    def _output(self, operation: Operation, notes: list[str]) -> dict[str, Any] | None:
        successful = [response for response in operation.responses if response.status.startswith("2")]
        if not successful:
            successful = [response for response in operation.responses if response.status == "default"]
        if not successful or any(response.raw_schema is None for response in successful):
            return None
        alternatives: list[Schema] = []
        used: dict[str, None] = {}
        for response in successful:
            schema, references = self._outputs.convert(response.raw_schema, self._base, notes)
            used.update(dict.fromkeys(references))
            if schema not in alternatives:
                alternatives.append(schema)
        made = alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}
        if isinstance(made, bool) or not made:
            return None
        definitions = self._outputs.definitions(used, notes)
        return _with_definitions(made, definitions) if definitions else made


def _with_definitions(schema: dict[str, Any], definitions: dict[str, Schema]) -> dict[str, Any]:
    """Return a schema with its ``$defs``; one that is only a reference is replaced by what it refers to."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target = definitions[reference.rsplit("/", 1)[-1]]
        if is_object(target):
            schema = {**target, **{name: part for name, part in schema.items() if name != "$ref"}}
            definitions = _reachable(schema, definitions)
    return {**schema, "$defs": definitions} if definitions else schema


def _place(parameter: Parameter) -> str | None:
    """Return the description of a parameter; where its name in the request differs, the description says it."""
    if parameter.argument == parameter.name:
        return parameter.description
    name = f"{parameter.name!r} in the {parameter.location}"
    return name if parameter.description is None else f"{parameter.description} ({name})"


def _own_description(raw: Any) -> str | None:
    found = raw.get("description") if is_object(raw) else None
    return found if isinstance(found, str) else None


def _described(schema: Schema, description: str | None) -> Schema:
    if description is None:
        return schema
    if isinstance(schema, bool):
        return {"description": description} if schema else schema
    return {**schema, "description": description}


def _bounded(schema: dict[str, Any], max_bytes: int, which: str, notes: list[str]) -> dict[str, Any]:
    """Return a schema of at most ``max_bytes``.

    What a larger one loses, until it fits: examples; descriptions of inner members; its largest definitions, which then
    accept anything of their type.
    """
    size = len(encode(schema))
    if size <= max_bytes:
        return schema
    for drop in ({"examples", "deprecated"}, {"examples", "deprecated", "description", "title", "default"}):
        smaller = _shortened(schema, drop)
        if len(encode(smaller)) <= max_bytes:
            notes.append(f"the {which} schema was shortened: inner descriptions and examples are left out")
            return smaller
        schema = smaller
    definitions: dict[str, Any] = dict(schema.get("$defs", {}))
    by_size = sorted(definitions, key=lambda name: -len(encode(definitions[name])))
    for name in by_size:
        part = definitions[name]
        kind = part.get("type") if is_object(part) else None
        definitions[name] = {"type": kind} if isinstance(kind, str) else {}
        reduced = {**schema, "$defs": _reachable(schema, definitions)}
        if len(encode(reduced)) <= max_bytes:
            notes.append(f"the {which} schema was simplified: some nested objects accept any members")
            return reduced
    notes.append(f"the {which} schema was simplified: arguments accept any value of their type")
    properties: dict[str, Any] = schema.get("properties", {})
    plain = {
        name: {keyword: part[keyword] for keyword in ("type", "enum") if keyword in part} if is_object(part) else part
        for name, part in properties.items()
    }
    made = {name: part for name, part in schema.items() if name not in ("$defs", "properties")}
    return {**made, "properties": plain} if which == "input" else {"type": "object"}


def _shortened(schema: dict[str, Any], keywords: set[str]) -> dict[str, Any]:
    """Return a schema whose inner schemas lack some keywords; descriptions of the arguments themselves stay."""
    made = cast("dict[str, Any]", _without(schema, keywords, 1))
    for name, part in schema.get("properties", {}).items():
        if is_object(part) and isinstance(part.get("description"), str) and is_object(made["properties"][name]):
            made["properties"][name]["description"] = part["description"][:MAX_ARGUMENT_DESCRIPTION]
    return made


def _reachable(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    todo: list[Any] = [{name: part for name, part in schema.items() if name != "$defs"}]
    found: dict[str, Any] = {}
    while todo:
        part = todo.pop()
        if is_list(part):
            todo.extend(part)
        elif is_object(part):
            reference = part.get("$ref")
            if isinstance(reference, str):
                name = reference.rsplit("/", 1)[-1]
                if name in definitions and name not in found:
                    found[name] = definitions[name]
                    todo.append(definitions[name])
            todo.extend(part.values())
    return dict(sorted(found.items()))


def _without(value: Any, keywords: set[str], level: int) -> Any:
    """Return a schema without some keywords; names of members, which stand at every second level, are kept."""
    if is_list(value):
        return [_without(part, keywords, level) for part in value]
    if not is_object(value):
        return value
    made: dict[str, Any] = {}
    for name, part in value.items():
        if level == 0:  # the names of a map of schemas
            made[name] = _without(part, keywords, 1)
        elif name in ("properties", "patternProperties", "dependentSchemas", "$defs"):
            made[name] = _without(part, keywords, 0)
        elif name in ("enum", "const", "required", "dependentRequired"):
            made[name] = part
        elif name not in keywords:
            made[name] = _without(part, keywords, 1)
    return made


def _enforceable(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return a schema that the validator takes: without patterns, if one of them is none that it knows.

    Raises:
        UnusableOperation: it is refused even then.
    """
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema)
    except ValueError:
        smaller = _without(schema, {"pattern", "format"}, 1)
        try:
            jsonschema_rs.validator_for(smaller)
        except ValueError as error:
            raise UnusableOperation(f"its schema cannot be enforced: {str(error)[:200]}") from error
        notes.append("a pattern was no regular expression of JSON Schema; patterns are left out")
        return cast("dict[str, Any]", smaller)
    return schema
