"""The input and output schema of one operation, made of the schemas of its parameters, body and answers."""

from __future__ import annotations

from typing import Any, cast

from ferrule.expose.description.bounds import complete
from ferrule.expose.description.keywords import says_the_name, without_keywords
from ferrule.expose.description.schemas import SchemaConverter
from ferrule.expose.files import file_schema
from ferrule.expose.operations import Operation, OperationSchemas, Parameter, Schema, UnusableOperation
from ferrule.wire.codec import decode, encode
from ferrule.wire.json_types import is_object

__all__ = ["MAX_SCHEMA_BYTES", "SchemaMaker"]

MAX_SCHEMA_BYTES = 24 * 1024
"""Maximum number of bytes of one schema as JSON, about 6,000 tokens. A larger one is simplified."""

MAX_NOTES = 50
"""Maximum number of repairs that are noted for one operation."""


class SchemaMaker:
    """Makes the schemas of the operations of one document.

    Args:
        inputs, outputs: converters of the document.
        base: its URI.
        max_bytes: the maximum number of bytes of one schema, as JSON.
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
        made = _enforceable(self._input(operation, notes), notes)
        output: dict[str, Any] | None
        try:
            output = self._output(operation, notes)
            output = None if output is None else _enforceable(output, notes)
        except UnusableOperation as error:
            notes.append(f"there is no output schema: {error}")
            output = None
        return OperationSchemas(input=made, output=output, notes=tuple(dict.fromkeys(notes))[:MAX_NOTES])

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
        return complete(made, used, self._inputs, self._max_bytes, notes)

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
        if isinstance(made, bool) or not made.keys() - {"title", "description", "examples"}:
            return None  # it says nothing
        if isinstance(made.get("$ref"), str) and len(used) == 1:  # not a reference alone, but what it leads to
            (absolute,) = used
            definition = self._outputs.definition(absolute)
            if is_object(definition.schema):
                made = {**definition.schema, **{name: part for name, part in made.items() if name != "$ref"}}
                used = dict.fromkeys(definition.references)
                notes += definition.notes
        return complete(made, used, self._outputs, self._max_bytes, notes)


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


def _enforceable(schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    """Return a schema that the validator takes: without patterns, if one of them is none that it knows.

    Raises:
        UnusableOperation: it is refused even then.
    """
    import jsonschema_rs

    # As JSON has it: jsonschema-rs ends the process on a lone surrogate, which values of Python may have.
    schema = cast("dict[str, Any]", decode(encode(schema)))
    try:
        jsonschema_rs.validator_for(schema)
    except ValueError:
        smaller = without_keywords(schema, frozenset({"pattern", "patternProperties", "format"}))
        try:
            jsonschema_rs.validator_for(smaller)
        except ValueError as error:
            raise UnusableOperation(f"its schema cannot be enforced: {str(error)[:200]}") from error
        notes.append("a pattern was not a regular expression of JSON Schema; patterns are left out")
        return cast("dict[str, Any]", smaller)
    return schema
