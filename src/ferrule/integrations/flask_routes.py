"""An OpenAPI document of a Flask application without an extension: URL rules, converters, hints and docstrings.

Names that a view reads from ``request`` are not declared anywhere. This module detects that a view does so, but not the
names; give them by ``add_parameters=`` or in a document of your own.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.docstrings import Doc, parse
from ferrule.app.signatures.json_schema import exact_schema
from ferrule.wire.json_types import is_object

__all__ = ["READS", "document_of_routes", "has_route", "path_template", "reads_of", "route_at"]

READS = "x-reads"
"""Member of an operation: the undeclared parts of the request that its view reads."""

_VARIABLE = re.compile(
    r"<(?:(?P<converter>[a-zA-Z_][a-zA-Z0-9_]*)(?:\((?P<arguments>.*?)\))?:)?(?P<name>[a-zA-Z_][a-zA-Z0-9_]*)>"
)
"""A variable of a URL rule (Werkzeug, "Rule Format")."""

_LENGTH = re.compile(r"\[\^/\]\{(\d+)(,?)(\d*)\}")
_READ = ("args", "values", "json", "get_json", "form", "files", "data", "get_data", "stream")
_BODY_PARTS = {"body": "application/json", "form": "application/x-www-form-urlencoded"}
"""Parameters of views that flask-pydantic fills from the body."""


def document_of_routes(app: Any) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document of an application's rules, without those of static files."""
    document: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": str(app.name), "version": "0"},
        "paths": {},
        "$defs": {},
    }
    for rule in app.url_map.iter_rules():
        if _is_page(rule):
            item = document["paths"].setdefault(path_template(rule), {})
            for method, view in _views(app, rule):
                item.setdefault(method.lower(), _operation(document, rule, method, view))
    return document


def path_template(rule: Any) -> str:
    """Return the path of a rule as OpenAPI writes it: ``/users/{user_id}``."""
    return _VARIABLE.sub(lambda found: f"{{{found['name']}}}", rule.rule)


def route_at(rules: Any, method: str, path: str) -> str | None:
    """Return the path of the rule that a request leads to, as `path_template`.

    Args:
        rules: a ``werkzeug.routing.Map``.
        method: the method of the request.
        path: the path of the request, decoded.

    ``None`` where no rule takes it, so that the application's own answer says why, or where it depends on the host.
    """
    from werkzeug.exceptions import HTTPException

    if rules.host_matching:
        return None
    try:
        rule, _ = rules.bind("localhost").match(path, method, return_rule=True)
    except HTTPException:  # a redirect is one, too
        return None
    return path_template(rule)


def has_route(rules: Any, method: str, path: str) -> bool:
    """Return whether a ``werkzeug.routing.Map`` has a rule of a method and of a path, as `path_template` writes it."""
    return any(method in (rule.methods or ()) and path_template(rule) == path for rule in rules.iter_rules())


def reads_of(view: Callable[..., Any]) -> list[str]:
    """Return the parts of the request that the code of a view names: ``["request.args"]``."""
    code: CodeType | None = getattr(view, "__code__", None)  # a view may be any callable
    if code is None:
        return []
    names: set[str] = set()
    waiting = [code]
    while waiting:
        each = waiting.pop()
        names.update(each.co_names)
        waiting += [part for part in each.co_consts if isinstance(part, CodeType)]
    return [f"request.{name}" for name in _READ if name in names] if "request" in names else []


def _is_page(rule: Any) -> bool:
    # Rules of Werkzeug before 2 have no `websocket`.
    if rule.build_only or rule.redirect_to is not None or getattr(rule, "websocket", False) or rule.alias:
        return False
    return rule.endpoint != "static" and not rule.endpoint.endswith(".static")


def _views(app: Any, rule: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield each method of a rule with the function that serves it."""
    view = app.view_functions.get(rule.endpoint)
    if view is None:
        return
    methods = set(rule.methods or ("GET",))
    # Flask and Werkzeug add these by themselves.
    methods -= {"OPTIONS"} | ({"HEAD"} if "GET" in methods else set())
    kind: Any = getattr(view, "view_class", None)  # set by `View.as_view`
    for method in sorted(methods):
        served = view
        if kind is not None:
            # A `MethodView` has a method for each verb, a `View` one for all.
            served = getattr(kind, method.lower(), None) or getattr(kind, "dispatch_request", view)
        served = inspect.unwrap(served)
        while isinstance(served, partial):
            served = served.func
        yield method, served


def _operation(document: dict[str, Any], rule: Any, method: str, view: Callable[..., Any]) -> dict[str, Any]:
    doc = parse(inspect.getdoc(view) if view.__doc__ else None)
    hints = _hints(view)
    made: dict[str, Any] = {"parameters": list(_path_parameters(document, rule, doc, hints)), "responses": {}}
    if doc.description:
        made["description"] = doc.description
        first = doc.description.partition("\n")[0]
        if len(first) <= 120:
            made["summary"] = first.rstrip(".")
    blueprint = rule.endpoint.rpartition(".")[0]
    if blueprint:
        made["tags"] = [blueprint]
    described = _models(document, made, hints, rule)
    result = _schema(document, hints["return"]) if "return" in hints else None
    if result is not None and (result.get("type") in ("object", "array") or "$ref" in result):
        made["responses"]["200"] = {"description": "", "content": {"application/json": {"schema": result}}}
    else:
        made["responses"]["default"] = {"description": ""}
    read = [] if described else reads_of(view)
    if read:
        made[READS] = read
    return made


def _hints(view: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(view, include_extras=True)
    except Exception:  # a name that is defined for type checkers only, or anything that an annotation may do
        return {}


def _path_parameters(document: dict[str, Any], rule: Any, doc: Doc, hints: dict[str, Any]) -> Iterator[dict[str, Any]]:
    converters: dict[str, Any] = getattr(rule, "_converters", {})  # Werkzeug has no public name for them
    for found in _VARIABLE.finditer(rule.rule):
        name = found["name"]
        schema = _converter_schema(converters.get(name))
        if schema is None or schema == {"type": "string", "minLength": 1}:
            hinted = _schema(document, hints[name]) if name in hints else None
            schema = hinted or schema or {"type": "string"}
        made = {"name": name, "in": "path", "required": True, "schema": schema}
        if name in doc.parameters:
            made["description"] = doc.parameters[name]
        yield made


def _converter_schema(converter: Any) -> dict[str, Any] | None:
    """Return the schema of the values that a converter accepts; ``None`` for an application's own converter."""
    from werkzeug import routing

    kind: type[Any] = converter.__class__
    if kind is routing.IntegerConverter:
        return _number_schema(converter)
    if kind is routing.FloatConverter:
        # A whole number without a point is not matched (Werkzeug, "FloatConverter").
        sign = "-?" if converter.signed else ""
        return {"type": "string", "pattern": rf"^{sign}\d+\.\d+$", "description": "A number with a decimal point: 2.0"}
    if kind is routing.UUIDConverter:
        return {"type": "string", "format": "uuid"}
    if kind is routing.PathConverter:
        return {"type": "string", "minLength": 1, "description": "May have slashes"}
    if kind is routing.AnyConverter:
        choices = [
            choice.replace("\\", "") for choice in converter.regex.removeprefix("(?:").removesuffix(")").split("|")
        ]
        return {"type": "string", "enum": sorted(choices)}
    if kind is routing.UnicodeConverter:
        return _length_schema(converter.regex)
    return None


def _number_schema(converter: Any) -> dict[str, Any]:
    digits = int(converter.fixed_digits or 0)
    if digits:
        return {"type": "string", "pattern": rf"^\d{{{digits}}}$"}
    made: dict[str, Any] = {"type": "integer"}
    if converter.min is not None:
        made["minimum"] = converter.min
    elif not converter.signed:
        made["minimum"] = 0
    if converter.max is not None:
        made["maximum"] = converter.max
    return made


def _length_schema(regex: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "string", "minLength": 1}
    found = _LENGTH.fullmatch(regex)
    if found is not None:
        made["minLength"] = int(found[1])
        if found[3] or not found[2]:
            made["maxLength"] = int(found[3] or found[1])
    return made


def _models(document: dict[str, Any], made: dict[str, Any], hints: dict[str, Any], rule: Any) -> bool:
    """Describe the parameters that flask-pydantic fills: ``query``, ``body`` and ``form``; whether there are any."""
    found = False
    for name in ("query", *_BODY_PARTS):
        if name not in hints or name in rule.arguments:
            continue
        schema = _schema(document, hints[name])
        flat = document["$defs"].get(str(schema.get("$ref", "")).removeprefix("#/$defs/"), schema) if schema else None
        if schema is None or not is_object(flat) or not is_object(flat.get("properties")):
            continue
        found = True
        if name == "query":
            required = flat.get("required", [])
            made["parameters"] += [
                {"name": member, "in": "query", "required": member in required, "schema": part}
                for member, part in flat["properties"].items()
            ]
        else:
            made["requestBody"] = {"required": True, "content": {_BODY_PARTS[name]: {"schema": schema}}}
    return found


def _schema(document: dict[str, Any], hint: Any) -> dict[str, Any] | None:
    """Return the schema of a hint, its definitions in the document; ``None`` where it describes no JSON."""
    if hint in (None, Any, object, inspect.Parameter.empty) or hint is type(None):
        return None
    try:
        made = exact_schema(shape_of(hint))
    except Exception:  # a response object, or whatever else a view may return
        return None
    definitions: dict[str, Any] = made.pop("$defs", {})
    known: dict[str, Any] = document["$defs"]
    if any(name in known and known[name] != part for name, part in definitions.items()):
        return None  # two classes with one name
    known.update(definitions)
    return made or None
