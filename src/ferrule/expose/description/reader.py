"""Reads the operations of an OpenAPI document.

An error in one operation does not affect the others: it is repaired, with a note, or the operation is skipped with the
reason. Only a document that is not an OpenAPI 3 description is refused.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import unquote

from msgspec import Struct

from ferrule.expose import media_types
from ferrule.expose.description.names import argument_names, operation_names
from ferrule.expose.description.operation_schemas import MAX_SCHEMA_BYTES, SchemaMaker
from ferrule.expose.description.references import References, UnresolvedReference
from ferrule.expose.description.schemas import SchemaConverter
from ferrule.expose.operations import (
    ApiKey,
    Body,
    BodyForm,
    Field,
    Location,
    Operation,
    Parameter,
    Response,
    Skipped,
    Style,
    UnusableOperation,
)
from ferrule.wire.json_types import is_list, is_object

__all__ = ["Description", "NotADescription", "read_description"]

logger = logging.getLogger(__name__)

MAX_DESCRIPTION = 2048
"""Maximum number of characters of an operation's description for the model."""

MAX_TITLE = 120
"""Characters of the title of an operation, and of title and version of the API, which are those of the server."""

MAX_RESPONSES = 100
"""Maximum number of responses of one operation."""

MAX_PARAMETERS = 256
"""Maximum number of parameters and members of the body of one operation."""

_METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "query")
"""Methods that can be tools. ``trace`` echoes the request, credentials included."""

_LOCATIONS: dict[str, int] = {"path": 0, "query": 1, "querystring": 2, "header": 3, "cookie": 4}
_STYLES: dict[str, tuple[Style, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}
"""Styles by location, the default first (OpenAPI, "Style Values")."""

_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
"""Header parameters that OpenAPI says have no effect: content negotiation and security describe them."""


_HEADERS_OF_THE_CONNECTION = frozenset(
    {
        "accept-encoding", "connection", "content-encoding", "content-length", "expect", "host", "keep-alive",
        "proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Header parameters that are not arguments: they say to which host a request goes and where it ends, which is decided
by the base URL and by the client (RFC 9110, sections 6.4, 7.2, 7.6 and 10.1.1; RFC 9112, section 6)."""

_HEADER_NAME = re.compile(r"[\w!#$%&'*+.^`|~-]+", re.ASCII)
"""A token (RFC 9110, section 5.6.2)."""


class NotADescription(ValueError):
    """A document is not a usable OpenAPI description; the text has the reason and the remedy."""


class Description(Struct, frozen=True, kw_only=True):
    """The content of a description.

    Attributes:
        title, version: the title and the version of the API.
        summary: the purpose of the API; ``None`` without.
        openapi: the version of the format.
        servers: the URLs of the document's servers, unchanged. No request is sent to them by default.
        operations: the usable operations, in the document's order.
        skipped: the other operations, each with the reason.
    """

    title: str
    version: str
    openapi: str
    summary: str | None = None
    servers: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    skipped: tuple[Skipped, ...] = ()


def read_description(
    document: dict[str, Any],
    *,
    base_uri: str = "",
    documents: Mapping[str, Any] | None = None,
    fetch: Callable[[str], Any] | None = None,
    max_schema_bytes: int = MAX_SCHEMA_BYTES,
) -> Description:
    """Return the description in a document.

    Args:
        document: the decoded OpenAPI document, 3.0, 3.1 or 3.2.
        base_uri: the URI of the document, for its relative references.
        documents: other documents that it refers to, by URI.
        fetch: returns the document of a URI; without it a reference to any other document makes its operation unusable.
        max_schema_bytes: the maximum number of bytes of one schema as JSON; a larger one is simplified.

    Raises:
        NotADescription: the document is not an OpenAPI description, or has an unsupported version.
    """
    openapi = _version(document)
    references = References(document, base_uri=base_uri, documents=documents, fetch=fetch)
    return _Reader(document, openapi, references, max_schema_bytes).read()


def _version(document: Any) -> str:
    if not is_object(document):
        raise NotADescription("an OpenAPI description is a JSON object")
    if "swagger" in document:
        raise NotADescription(
            f"this is Swagger {str(document['swagger'])[:20]}, the format before OpenAPI 3; convert it first, for "
            "instance with `npx swagger2openapi FILE` or on https://converter.swagger.io"
        )
    version = str(document.get("openapi", ""))
    if not version.startswith(("3.0", "3.1", "3.2")):
        found = f"openapi is {version[:20]!r}" if version else "it has no member 'openapi'"
        raise NotADescription(f"only OpenAPI 3.0, 3.1 and 3.2 are read, and {found}")
    return version


class _Found(Struct, frozen=True, kw_only=True):
    """A described operation, the URI of its document, and the parameters of all operations of its path."""

    method: str
    path: str
    raw: dict[str, Any]
    base: str
    shared: list[Any]


class _Reader:
    def __init__(self, document: dict[str, Any], openapi: str, references: References, max_schema_bytes: int) -> None:
        self.document = document
        self.openapi = openapi
        self.references = references
        has_nullable = openapi.startswith("3.0")
        self.inputs = SchemaConverter(references, has_nullable=has_nullable, direction="input")
        outputs = SchemaConverter(references, has_nullable=has_nullable, direction="output")
        self.make_schemas = SchemaMaker(self.inputs, outputs, references.base_uri, max_schema_bytes).make
        self.skipped: list[Skipped] = []
        self.security_schemes = _object(_object(document.get("components")).get("securitySchemes"))
        self.credentials = self._credentials()

    def read(self) -> Description:
        found = list(self._found())
        names = operation_names([(each.method, each.path, _text(each.raw.get("operationId"))) for each in found])
        operations: list[Operation] = []
        for each, name in zip(found, names, strict=True):
            try:
                operations.append(self._operation(each, name))
            except UnusableOperation as error:
                self._skip(each.method, each.path, str(error))
            except Exception as error:  # a bug of this module: the other operations stay usable
                logger.warning("%s %s cannot be read", each.method, each.path, exc_info=True)
                self._skip(each.method, each.path, f"its description cannot be read ({type(error).__name__})")
        info = _object(self.document.get("info"))
        servers: list[Any] = self.document["servers"] if is_list(self.document.get("servers")) else []
        return Description(
            title=_line(info.get("title"), MAX_TITLE) or "API",
            version=_line(info.get("version"), MAX_TITLE) or "0",
            summary=_shortened(_text(info.get("description")) or _text(info.get("summary")), MAX_DESCRIPTION),
            openapi=self.openapi,
            servers=tuple(server["url"] for server in servers if is_object(server) and _text(server.get("url"))),
            operations=tuple(operations),
            skipped=tuple(self.skipped),
        )

    def _credentials(self) -> frozenset[tuple[str, str]]:
        """Return location and name of the parameters that security schemes describe; they are not arguments."""
        found: set[tuple[str, str]] = set()
        for given in self.security_schemes.values():
            try:
                scheme = _object(self.references.follow(given, self.references.base_uri)[0])
            except UnresolvedReference:
                continue
            place, name = scheme.get("in"), scheme.get("name")
            if scheme.get("type") == "apiKey" and isinstance(place, str) and isinstance(name, str):
                found.add((place, name.lower() if place == "header" else name))
        return frozenset(found)

    def _skip(self, method: str, path: str, reason: str) -> None:
        self.skipped.append(Skipped(method=method, path=path, reason=reason))

    def _found(self) -> list[_Found]:
        """Return all operations, each method and path once."""
        found: dict[tuple[str, str], _Found] = {}
        for path, given in _object(self.document.get("paths")).items():
            if not path.startswith("/"):
                if not path.startswith("x-"):
                    self._skip("*", path, "a path begins with a slash")
                continue
            if any(unquote(step) in (".", "..") for step in path.replace("\\", "/").split("/")):
                self._skip("*", path, "a step '.' or '..' leads out of the API")
                continue
            try:
                item, base = self._path_item(given)
            except UnresolvedReference as error:
                self._skip("*", path, str(error))
                continue
            if not is_object(item):
                self._skip("*", path, "its description is not an object")
                continue
            shared: list[Any] = item["parameters"] if is_list(item.get("parameters")) else []
            others = _object(item.get("additionalOperations"))
            for method, raw in [*((method, item.get(method)) for method in _METHODS), *others.items()]:
                if is_object(raw):
                    each = _Found(method=method.upper(), path=path, raw=raw, base=base, shared=shared)
                    if found.setdefault((each.method, path), each) is not each:
                        self._skip(each.method, path, "it is described twice")
                elif raw is not None:
                    self._skip(method.upper(), path, "its description is not an object")
        return list(found.values())

    def _path_item(self, given: Any) -> tuple[Any, str]:
        """Return a path item and the URI of its document; members beside a reference are added to it."""
        item, base = self.references.follow(given, self.references.base_uri)
        beside = {name: value for name, value in given.items() if name != "$ref"} if is_object(given) else {}
        if item is given or not beside or not is_object(item):
            return item, base
        if base != self.references.base_uri:
            return item, base  # the members of one object cannot have two bases; the target says more
        return {**item, **beside}, base

    # -- one operation ---------------------------------------------------------------------------------------------

    def _operation(self, each: _Found, name: str) -> Operation:
        method, path, raw, base = each.method, each.path, each.raw, each.base
        if method == "TRACE" or not method.isalpha():
            raise UnusableOperation(f"a request with the method {method[:20]} is not made")
        notes: list[str] = []
        parameters = self._parameters(each, notes)
        body = self._body(raw.get("requestBody"), base, notes)
        parameters, body = _with_arguments(parameters, body)
        if len(parameters) + (0 if body is None else len(body.fields)) > MAX_PARAMETERS:
            raise UnusableOperation(f"it has more than {MAX_PARAMETERS} parameters")
        summary, description = _text(raw.get("summary")), _text(raw.get("description"))
        return Operation(
            name=name,
            method=method,
            path=path,
            operation_id=_text(raw.get("operationId")),
            title=None if summary is None else _shortened(summary, MAX_TITLE),
            description=_shortened(description or summary or f"{method} {path}", MAX_DESCRIPTION),
            tags=tuple(tag for tag in _list(raw.get("tags")) if isinstance(tag, str)),
            deprecated=raw.get("deprecated") is True,
            parameters=parameters,
            body=body,
            responses=self._responses(raw.get("responses"), base),
            security=self._security(raw),
            notes=tuple(notes),
            make_schemas=self.make_schemas,
        )

    def _parameters(self, each: _Found, notes: list[str]) -> tuple[Parameter, ...]:
        made: dict[tuple[str, str], Parameter] = {}
        path = each.path
        every = [*each.shared, *_list(each.raw.get("parameters"))]  # those of the operation win
        if len(every) > 2 * MAX_PARAMETERS:
            raise UnusableOperation(f"it has more than {MAX_PARAMETERS} parameters")
        for given in every:
            described, base = self.references.follow(given, each.base)
            if not is_object(described):
                raise UnusableOperation("a parameter is not an object")
            parameter = self._parameter(path, described, base, notes)
            if parameter is not None:
                made[parameter.location, parameter.name] = parameter
        in_path = {name for location, name in made if location == "path"}
        for name in _path_names(path):
            if name not in in_path:
                notes.append(f"the path parameter {name!r} was not described")
                made["path", name] = Parameter(
                    name=name,
                    argument=name,
                    location="path",
                    required=True,
                    style="simple",
                    raw_schema={"type": "string"},
                )
        for name in in_path - set(_path_names(path)):
            notes.append(f"the path parameter {name!r} does not stand in the path")
            del made["path", name]
        return tuple(sorted(made.values(), key=lambda parameter: _LOCATIONS[parameter.location]))

    def _parameter(self, path: str, raw: dict[str, Any], base: str, notes: list[str]) -> Parameter | None:
        name, location = raw.get("name"), raw.get("in")
        if not isinstance(name, str) or not name:
            raise UnusableOperation("a parameter has no name")
        if location is None and name in _path_names(path):
            notes.append(f"the parameter {name[:60]!r} does not say that it stands in the path")
            location = "path"
        if not isinstance(location, str) or location not in _LOCATIONS:
            raise UnusableOperation(f"the parameter {name[:60]!r} stands in {str(location)[:20]!r}")
        if location == "header" and name.lower() in _IGNORED_HEADERS:
            return None
        if location == "header" and (
            name.lower() in _HEADERS_OF_THE_CONNECTION or _HEADER_NAME.fullmatch(name) is None
        ):
            notes.append(f"the header {name[:60]!r} is not an argument")
            return None
        if (location, name.lower() if location == "header" else name) in self.credentials:
            return None
        content = raw.get("content")
        content_type = next(iter(content), None) if is_object(content) else None
        schema: Any = raw.get("schema", True)
        style: Style = _STYLES.get(location, ("form",))[0]
        if content_type is not None:
            schema, style = _object(_object(content).get(content_type)).get("schema", True), "content"
        elif location == "querystring":
            style, content_type = "content", "application/x-www-form-urlencoded"
        elif "style" in raw:
            given = raw["style"]
            if given in _STYLES[location]:
                style = given
            else:
                notes.append(f"the parameter {name[:60]!r} has the style {str(given)[:20]!r}, which its place has not")
        explode = raw.get("explode")
        return Parameter(
            name=name,
            argument=name,
            location=cast("Location", location),
            required=raw.get("required") is True or location == "path",
            style=style,
            explode=explode if isinstance(explode, bool) else style in ("form", "cookie", "deepObject"),
            allow_reserved=raw.get("allowReserved") is True and location != "path",
            content_type=content_type,
            description=_shortened(_text(raw.get("description")), MAX_DESCRIPTION),
            raw_schema=_at(schema, base, self.references),
        )

    def _body(self, given: Any, base: str, notes: list[str]) -> Body | None:
        if given is None:
            return None
        raw, base = self.references.follow(given, base)
        content = raw.get("content") if is_object(raw) else None
        content_type = self._body_type(content, base) if is_object(content) else None
        if content_type is None or not is_object(raw):
            notes.append("the body has no media type, so there is no argument for it")
            return None
        media = _object(_object(content).get(content_type))
        schema = _at(media.get("schema", True), base, self.references)
        described = {"description": _shortened(_text(raw.get("description")), MAX_DESCRIPTION)}
        required = raw.get("required") is True
        if media_types.is_wildcard(content_type):
            content_type = "application/json" if _is_data(schema) else "application/octet-stream"
        if (
            media_types.is_json(content_type)
            or media_types.is_form(content_type)
            or media_types.is_multipart(content_type)
        ):
            try:
                fields = self._fields(schema, media, is_json=media_types.is_json(content_type))
            except UnresolvedReference as error:
                if error.is_remote:
                    raise
                notes.append(f"{error}; the body accepts anything now")
                fields, schema = None, True
            if fields is not None and media_types.plain(content_type) == "application/merge-patch+json":
                fields = tuple(_removable(member) for member in fields)
            if fields is not None:
                if not required:  # an optional body requires no member
                    fields = tuple(_optional(member) for member in fields)
                return Body(
                    content_type=content_type,
                    form="fields",
                    required=required,
                    fields=fields,
                    raw_schema=schema,
                    json_type=_same_as_json(_object(content), content_type),
                    **described,
                )
            form: BodyForm = "value"
        else:
            form = "text" if media_types.is_text(content_type) else "binary"
        return Body(
            content_type=content_type, form=form, required=required, argument="body", raw_schema=schema, **described
        )

    def _body_type(self, content: dict[str, Any], base: str) -> str | None:
        """Return the media type that a body is sent with: JSON, unless it has files and can be sent in parts, too."""
        chosen = media_types.choose(content)
        parts = next((kind for kind in content if media_types.is_multipart(kind)), None)
        if chosen is None or parts is None or not media_types.is_json(chosen):
            return chosen
        try:
            media = _object(content[parts])
            fields = self._fields(_at(media.get("schema", True), base, self.references), media, is_json=False)
        except UnresolvedReference:
            return chosen
        return parts if any(member.is_binary for member in fields or ()) else chosen

    def _fields(self, schema: Any, media: dict[str, Any], *, is_json: bool) -> tuple[Field, ...] | None:
        flat = self.inputs.flat(schema, self.references.base_uri)
        if flat is None or len(flat.members) > MAX_PARAMETERS:
            return None
        encodings = {} if is_json else _object(media.get("encoding"))
        fields: list[Field] = []
        for name, member in flat.members.items():
            target, base = self.references.follow(member.raw, member.base)
            item: Any = target
            is_list_of = is_object(target) and target.get("type") == "array"
            if is_list_of:
                item, _ = self.references.follow(target.get("items", True), base)
            encoding = _object(encodings.get(name))
            style, explode = encoding.get("style"), encoding.get("explode")
            fields.append(
                Field(
                    name=name,
                    argument=name,
                    required=name in flat.required,
                    content_type=_text(encoding.get("contentType")),
                    is_binary=not is_json and _is_binary(item),
                    is_list=is_list_of,
                    style=style if style in _STYLES["query"] else "form",
                    explode=explode if isinstance(explode, bool) else True,
                    raw_schema=_at(member.raw, member.base, self.references),
                )
            )
        return tuple(fields)

    def _responses(self, given: Any, origin: str) -> tuple[Response, ...]:
        made: list[Response] = []
        for status, response in list(_object(given).items())[:MAX_RESPONSES]:
            if status.startswith("x-"):
                continue
            try:
                raw, base = self.references.follow(response, origin)
            except UnresolvedReference:
                raw, base = None, ""
            content = _object(raw.get("content")) if is_object(raw) else {}
            json_type = next((kind for kind in content if media_types.is_json(kind)), None)
            if json_type is None and "*/*" in content:
                json_type = "*/*"
            schema = None if json_type is None else _object(content[json_type]).get("schema")
            made.append(
                Response(
                    status=status.upper() if status.lower() != "default" else "default",
                    content_types=tuple(content),
                    is_json=json_type is not None,
                    description=_text(raw.get("description")) if is_object(raw) else None,
                    raw_schema=None if schema is None else _at(schema, base, self.references),
                )
            )
        return tuple(sorted(made, key=lambda response: (not response.status.startswith("2"), response.status)))

    def _security(self, raw: dict[str, Any]) -> tuple[tuple[ApiKey, ...], ...]:
        given = raw["security"] if is_list(raw.get("security")) else self.document.get("security")
        alternatives: list[tuple[ApiKey, ...]] = []
        for requirement in _list(given):
            needed: list[ApiKey] = []
            for name, scopes in _object(requirement).items():
                try:
                    found, _ = self.references.follow(self.security_schemes.get(name), self.references.base_uri)
                except UnresolvedReference:
                    found = None
                scheme = _object(found)
                place = scheme.get("in")
                needed.append(
                    ApiKey(
                        scheme=name,
                        type=_text(scheme.get("type")) or "unknown",
                        location=cast("Location", place) if place in ("query", "header", "cookie") else None,
                        name=_text(scheme.get("name")),
                        http_scheme=_text(scheme.get("scheme")),
                        scopes=tuple(scope for scope in _list(scopes) if isinstance(scope, str)),
                    )
                )
            alternatives.append(tuple(needed))
        return tuple(alternatives)


def _with_arguments(parameters: tuple[Parameter, ...], body: Body | None) -> tuple[tuple[Parameter, ...], Body | None]:
    """Return parameters and body with unique argument names."""
    wanted: list[tuple[str, str]] = [(parameter.name, parameter.location) for parameter in parameters]
    if body is not None:
        wanted += [(member.name, "body") for member in body.fields]
        wanted += [] if body.argument is None else [(body.argument, "content")]
    names = iter(argument_names(wanted))
    made = tuple(_replace(parameter, argument=next(names)) for parameter in parameters)
    if body is not None:
        fields = tuple(_replace(member, argument=next(names)) for member in body.fields)
        body = _replace(body, fields=fields, argument=None if body.argument is None else next(names))
    return made, body


def _replace(value: Any, **changes: Any) -> Any:
    from msgspec.structs import replace

    return replace(value, **changes)


def _removable(member: Field) -> Field:
    """Return a member of a merge patch, in which null removes what is there (RFC 7396)."""
    if member.required:
        return member
    return cast("Field", _replace(member, raw_schema={"anyOf": [member.raw_schema, {"type": "null"}]}))


def _same_as_json(content: dict[str, Any], content_type: str) -> str | None:
    """Return the JSON type of the same body as one in parts; ``None`` if there is none, or it is one in no parts."""
    if not media_types.is_multipart(content_type):
        return None
    schema = _object(content.get(content_type)).get("schema")
    kinds = (kind for kind in content if media_types.is_json(kind) and "patch" not in media_types.plain(kind))
    return next((kind for kind in kinds if _object(content[kind]).get("schema") == schema), None)


def _optional(member: Field) -> Field:
    return cast("Field", _replace(member, required=False))


def _at(schema: Any, base: str, references: References) -> Any:
    """Return a schema that means the same in the main document: one of another document becomes a reference to it."""
    if base == references.base_uri or not is_object(schema):
        return schema
    return _rebased(schema, base, references, 0)


def _rebased(value: Any, base: str, references: References, depth: int) -> Any:
    if depth > 64:
        return True
    if is_list(value):
        return [_rebased(part, base, references, depth + 1) for part in value]
    if not is_object(value):
        return value
    made = {name: _rebased(part, base, references, depth + 1) for name, part in value.items()}
    if isinstance(value.get("$ref"), str):
        made["$ref"] = references.absolute(value["$ref"], base)
    return made


def _is_binary(schema: Any) -> bool:
    if not is_object(schema):
        return False
    if schema.get("format") == "binary" or schema.get("type") == "file":
        return True
    return isinstance(schema.get("contentMediaType"), str) and "contentEncoding" not in schema


def _is_data(schema: Any) -> bool:
    """Whether the schema of a body of any media type describes data, rather than bytes."""
    return is_object(schema) and not _is_binary(schema) and bool(schema)


def _path_names(path: str) -> list[str]:
    names: list[str] = []
    for part in path.split("{")[1:]:
        name, closed, _ = part.partition("}")
        if closed and name and name not in names:
            names.append(unquote(name))
    return names


def _object(value: Any) -> dict[str, Any]:
    return value if is_object(value) else {}


def _list(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None


def _line(value: Any, limit: int) -> str:
    """Return a text in one line, without control characters; empty for none."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    kept: str = _shortened("".join(character for character in text if character.isprintable()), limit)
    return kept


def _shortened(text: str | None, limit: int) -> Any:
    return text if text is None or len(text) <= limit else f"{text[: limit - 1].rstrip()}…"
