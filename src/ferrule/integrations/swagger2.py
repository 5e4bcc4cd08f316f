"""Documents of Flask-RESTX, which makes Swagger 2.0, as OpenAPI 3.0.

Only documents of Flask-RESTX are converted. Other Swagger documents are refused, with the name of a converter
(`ferrule.expose.description.reader`).
"""

from __future__ import annotations

from typing import Any

from ferrule.wire.json_types import is_list, is_object

__all__ = ["openapi_of_swagger"]

_OF_PARAMETERS = ("name", "in", "required", "description")
_BODY_PLACES = ("body", "formData")
_STYLES = {
    "multi": ("form", True),
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "pipes": ("pipeDelimited", False),
}
_FLOWS = {"accessCode": "authorizationCode", "application": "clientCredentials"}


def openapi_of_swagger(document: dict[str, Any]) -> dict[str, Any]:
    """Return a Swagger 2.0 document as OpenAPI 3.0, with its ``basePath`` as prefix of the paths."""
    base = str(document.get("basePath", "")).rstrip("/")
    shared = _object(document.get("parameters"))
    consumes, produces = _texts(document.get("consumes")), _texts(document.get("produces"))
    made: dict[str, Any] = {
        "openapi": "3.0.3",
        "info": document.get("info", {}),
        "tags": document.get("tags", []),
        "paths": {},
        "components": {
            "schemas": _moved(_object(document.get("definitions"))),
            "securitySchemes": {
                name: _security(_object(scheme))
                for name, scheme in _object(document.get("securityDefinitions")).items()
            },
        },
    }
    if "security" in document:
        made["security"] = document["security"]
    for path, item in _object(document.get("paths")).items():
        common = [_resolved(each, shared) for each in _list(_object(item).get("parameters"))]
        made["paths"][base + path] = {
            method: _operation(operation, common, shared, consumes, produces)
            for method, operation in _object(item).items()
            if method != "parameters" and is_object(operation)
        }
    return made


def _operation(
    operation: dict[str, Any],
    common: list[dict[str, Any]],
    shared: dict[str, Any],
    consumes: list[str],
    produces: list[str],
) -> dict[str, Any]:
    own = [_resolved(each, shared) for each in _list(operation.get("parameters"))]
    named = {(each.get("in"), each.get("name")): each for each in [*common, *own]}
    kept = ("operationId", "summary", "description", "tags", "deprecated", "security")
    made: dict[str, Any] = {name: operation[name] for name in kept if name in operation}
    made["parameters"] = [_parameter(each) for each in named.values() if each.get("in") not in _BODY_PLACES]
    body = _body(list(named.values()), _texts(operation.get("consumes")) or consumes)
    if body is not None:
        made["requestBody"] = body
    types = _texts(operation.get("produces")) or produces or ["application/json"]
    made["responses"] = {
        str(status): _response(_object(response), types)
        for status, response in _object(operation.get("responses")).items()
    }
    return made


def _parameter(given: dict[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {name: given[name] for name in _OF_PARAMETERS if name in given}
    made["schema"] = _value_schema(given)
    if given.get("type") == "array" and given.get("in") == "query":
        made["style"], made["explode"] = _STYLES.get(str(given.get("collectionFormat", "csv")), ("form", False))
    return made


def _body(parameters: list[dict[str, Any]], consumes: list[str]) -> dict[str, Any] | None:
    whole = next((each for each in parameters if each.get("in") == "body"), None)
    if whole is not None:
        content = {kind: {"schema": _moved(whole.get("schema", {}))} for kind in consumes or ["application/json"]}
        made: dict[str, Any] = {"required": whole.get("required") is True, "content": content}
        if "description" in whole:
            made["description"] = whole["description"]
        return made
    fields = [each for each in parameters if each.get("in") == "formData"]
    if not fields:
        return None
    properties = {str(each.get("name")): _described(each) for each in fields}
    required = [str(each.get("name")) for each in fields if each.get("required") is True]
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    has_file = any(each.get("type") == "file" for each in fields)
    kind = "multipart/form-data" if has_file else "application/x-www-form-urlencoded"
    forms = [each for each in consumes if each in ("multipart/form-data", "application/x-www-form-urlencoded")]
    if not has_file and forms:
        kind = forms[0]
    return {"required": bool(required), "content": {kind: {"schema": schema}}}


def _described(given: dict[str, Any]) -> dict[str, Any]:
    made = _value_schema(given)
    return {**made, "description": given["description"]} if "description" in given else made


def _value_schema(given: dict[str, Any]) -> dict[str, Any]:
    if "schema" in given:
        schema = _moved(given["schema"])
        return _object(schema)
    without = {*_OF_PARAMETERS, "collectionFormat", "allowEmptyValue"}
    schema = {name: part for name, part in given.items() if name not in without}
    if schema.get("type") == "file":
        return {**schema, "type": "string", "format": "binary"}
    if schema.get("format") == "mask":  # the fields that the caller wants to see
        del schema["format"]
    return _object(_moved(schema))


def _response(given: dict[str, Any], types: list[str]) -> dict[str, Any]:
    made: dict[str, Any] = {"description": given.get("description", "")}
    if "schema" in given:
        made["content"] = {kind: {"schema": _moved(given["schema"])} for kind in types}
    return made


def _security(given: dict[str, Any]) -> dict[str, Any]:
    if given.get("type") == "basic":
        return {"type": "http", "scheme": "basic"}
    if given.get("type") != "oauth2":
        return given
    flow = str(given.get("flow", "implicit"))
    names = {"authorizationUrl": given.get("authorizationUrl"), "tokenUrl": given.get("tokenUrl")}
    urls = {name: url for name, url in names.items() if url is not None}
    return {"type": "oauth2", "flows": {_FLOWS.get(flow, flow): {**urls, "scopes": given.get("scopes", {})}}}


def _moved(value: Any, depth: int = 0) -> Any:
    """Return a schema with references to the place that definitions have in OpenAPI 3."""
    if depth > 64:
        return {}
    if is_list(value):
        return [_moved(part, depth + 1) for part in value]
    if not is_object(value):
        return value
    made = {name: _moved(part, depth + 1) for name, part in value.items()}
    reference = made.get("$ref")
    if isinstance(reference, str):
        made["$ref"] = reference.replace("#/definitions/", "#/components/schemas/", 1)
    if made.get("x-nullable") is True:
        made["nullable"] = True
    if isinstance(made.get("discriminator"), str):
        made["discriminator"] = {"propertyName": made["discriminator"]}
    return made


def _resolved(parameter: Any, shared: dict[str, Any]) -> dict[str, Any]:
    given = _object(parameter)
    reference = given.get("$ref")
    return _object(shared.get(reference.rpartition("/")[2])) if isinstance(reference, str) else given


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _texts(value: Any) -> list[str]:
    return [each for each in _list(value) if isinstance(each, str)]
