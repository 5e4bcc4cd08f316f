"""Makes the input and output schema of an operation from the schemas of its parameters, body and responses."""

from __future__ import annotations

from typing import Any, cast

from ferrule.expose.description.bounds import complete
from ferrule.expose.description.keywords import patterns_in, says_the_name, type_names, without_keywords
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


_PATTERNS = frozenset({"pattern", "patternProperties"})


class SchemaMaker:
    """Makes the schemas of the operations of one document.

    Args:
        inputs, outputs: the converters of the document for arguments and for results.
        base: the URI of the document.
        max_bytes: the maximum number of bytes of one schema, as JSON.
    """

    def __init__(self, inputs: SchemaConverter, outputs: SchemaConverter, base: str, max_bytes: int) -> None:
        self._inputs = inputs
        self._outputs = outputs
        self._base = base
        self._max_bytes = max_bytes
        self._patterns: dict[str, bool] = {}

    def make(self, operation: Operation) -> OperationSchemas:
        """Return the schemas of an operation.

        Raises:
            UnusableOperation: a schema refers to a document that may not be fetched, or cannot be enforced.
        """
        notes: list[str] = []
        made = self._enforceable(self._input(operation, notes), notes)
        output: dict[str, Any] | None
        try:
            output = self._output(operation, notes)
            output = None if output is None else self._enforceable(output, notes)
        except UnusableOperation as error:
            notes.append(f"there is no output schema: {error}")
            output = None
        return OperationSchemas(input=made, output=output, notes=tuple(dict.fromkeys(notes))[:MAX_NOTES])

    def _enforceable(self, schema: dict[str, Any], notes: list[str]) -> dict[str, Any]:
        """Return a schema that the validator takes: without patterns, if one of them is none that it knows.

        Raises:
            UnusableOperation: it is refused even then.
        """
        import jsonschema_rs

        # As JSON has it: jsonschema-rs ends the process on a lone surrogate, which values of Python may have.
        encoded = encode(schema)
        schema = cast("dict[str, Any]", decode(encoded))
        # One pattern takes up to a tenth of a second, and large documents have the same few in each schema.
        patterns = set(patterns_in(schema)) if b'"pattern' in encoded else set[str]()
        plain = cast("dict[str, Any]", without_keywords(schema, _PATTERNS)) if patterns else schema
        try:
            jsonschema_rs.validator_for(plain)
        except ValueError as error:
            raise UnusableOperation(f"its schema cannot be enforced: {str(error)[:200]}") from error
        if all(self._is_pattern(each) for each in patterns):
            return schema
        notes.append("a pattern was not a regular expression of JSON Schema; patterns are left out")
        return plain

    def _is_pattern(self, text: str) -> bool:
        """Return whether the validator takes a regular expression; each one is tried once."""
        import jsonschema_rs

        known = self._patterns.get(text)
        if known is None:
            try:
                jsonschema_rs.validator_for({"pattern": text})
                known = True
            except ValueError:
                known = False
            self._patterns[text] = known
        return known

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
                description=_location_text(parameter),
            )
        body = operation.body
        for member in () if body is None else body.fields:
            if member.is_binary:
                schema = file_schema(_own_description(member.raw_schema))
                if body is not None and (body.json_type or body.members == "html") and _is_nullable(member.raw_schema):
                    schema["type"] = ["object", "null"]
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
            return None  # it accepts every value
        if isinstance(made.get("$ref"), str) and len(used) == 1:  # the definition in place of a reference to it
            (absolute,) = used
            definition = self._outputs.definition(absolute)
            if is_object(definition.schema):
                made = {**definition.schema, **{name: part for name, part in made.items() if name != "$ref"}}
                used = dict.fromkeys(definition.references)
                notes += definition.notes
        return complete(made, used, self._outputs, self._max_bytes, notes)


def _location_text(parameter: Parameter) -> str | None:
    """Return the description of a parameter; it has the name in the request if the argument's name differs."""
    if parameter.argument == parameter.name:
        return parameter.description
    name = f"{parameter.name!r} in the {parameter.location}"
    return name if parameter.description is None else f"{parameter.description} ({name})"


def _is_nullable(raw: Any) -> bool:
    return is_object(raw) and (raw.get("nullable") is True or "null" in type_names(raw.get("type")))


def _own_description(raw: Any) -> str | None:
    found = raw.get("description") if is_object(raw) else None
    return found if isinstance(found, str) else None


def _described(schema: Schema, description: str | None) -> Schema:
    if description is None:
        return schema
    if isinstance(schema, bool):
        return {"description": description} if schema else schema
    return {**schema, "description": description}
