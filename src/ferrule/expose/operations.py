"""The operations of an API: their parameters, bodies and responses, independent of OpenAPI.

`ferrule.expose.description` converts an OpenAPI description to a list of `Operation`s. The schemas of an operation are
made on first use: a description of ten thousand operations, of which ten are exposed, needs ten conversions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from msgspec import Struct, field

__all__ = [
    "ApiKey",
    "Body",
    "BodyForm",
    "Field",
    "Location",
    "Operation",
    "OperationSchemas",
    "Parameter",
    "Response",
    "Schema",
    "Skipped",
    "Style",
    "UnusableOperation",
]

Schema: TypeAlias = "dict[str, Any] | bool"
"""A JSON Schema, 2020-12."""

Location: TypeAlias = Literal["path", "query", "querystring", "header", "cookie"]
"""The part of the request that has a parameter."""

Style: TypeAlias = Literal[
    "form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "deepObject", "cookie", "content"
]
"""The style of a parameter (OpenAPI, "Style Values"); ``content``: encoded by its media type."""

BodyForm: TypeAlias = Literal["fields", "value", "binary", "text"]
"""The form of a body's arguments: one for each member, one with a JSON value, with bytes, or with text."""


class UnusableOperation(ValueError):
    """An operation cannot be a tool; the text is the reason. The other operations are not affected."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a request.

    Attributes:
        name: its name in the request.
        argument: the name of the tool's argument.
        location: the part of the request.
        required: whether the request needs it.
        style: the form of its value in the request.
        explode: whether each member of a list or object is written separately.
        allow_reserved: whether reserved characters stay unescaped in a query value (RFC 6570, ``+``), and slashes in a
            path value.
        content_type: the media type of its value, if ``style`` is ``content``.
        description: its description for the model.
        raw_schema: the described schema; `OperationSchemas` has the converted one.
    """

    name: str
    argument: str
    location: Location
    required: bool = False
    style: Style = "form"
    explode: bool = False
    allow_reserved: bool = False
    content_type: str | None = None
    description: str | None = None
    raw_schema: Any = True


class Field(Struct, frozen=True, kw_only=True):
    """One member of a body whose members are arguments.

    Attributes:
        name: its name in the body.
        argument: the name of the tool's argument.
        required: whether the body needs it.
        content_type: the media type of the part, in a multipart body; ``None``: chosen by the value.
        is_binary: whether the value is bytes (``format: binary``), in a multipart body a file.
        is_list: whether it is a list, so that each member becomes a separate part or form value.
        style, explode: the form of a list or object in a URL-encoded form.
        raw_schema: the described schema.
    """

    name: str
    argument: str
    required: bool = False
    content_type: str | None = None
    is_binary: bool = False
    is_list: bool = False
    style: Style = "form"
    explode: bool = True
    raw_schema: Any = True


class Body(Struct, frozen=True, kw_only=True):
    """The body of a request.

    Attributes:
        content_type: the media type that is sent, with parameters.
        form: the form of its arguments.
        required: whether the request needs a body.
        argument: the name of the argument with the whole body; ``None`` if ``form`` is ``fields``.
        fields: its members, if ``form`` is ``fields``.
        description: its description for the model.
        raw_schema: the described schema.
        json_type: the JSON media type that is sent instead where no file is given, since parts have no null and no
            empty list; ``None`` if the API takes this body in parts only.
        members: the form of objects in parts: ``json``, or ``html``, as Django REST framework reads forms:
            ``owner.name``, ``lines[0]title``, and an empty part for null.
    """

    content_type: str
    form: BodyForm
    required: bool = False
    argument: str | None = None
    fields: tuple[Field, ...] = ()
    description: str | None = None
    raw_schema: Any = True
    json_type: str | None = None
    members: Literal["json", "html"] = "json"


class Response(Struct, frozen=True, kw_only=True):
    """One kind of answer.

    Attributes:
        status: ``"200"``, ``"2XX"``, ``"default"`` …
        content_types: the described media types of its body; empty for no body.
        is_json: whether one of them is JSON.
        description: its description.
        raw_schema: the described schema of the JSON body; ``None`` without one.
    """

    status: str
    content_types: tuple[str, ...] = ()
    is_json: bool = False
    description: str | None = None
    raw_schema: Any = None


class ApiKey(Struct, frozen=True, kw_only=True):
    """A way to authenticate that an operation names (OpenAPI, "Security Scheme Object").

    Attributes:
        scheme: the name of the scheme in the description.
        type: ``"apiKey"``, ``"http"``, ``"oauth2"``, ``"openIdConnect"``, ``"mutualTLS"``.
        location, name: the part of the request with the API key, and its name there.
        http_scheme: ``"bearer"``, ``"basic"`` …, for ``http``.
        scopes: the scopes that the operation needs.
    """

    scheme: str
    type: str
    location: Location | None = None
    name: str | None = None
    http_scheme: str | None = None
    scopes: tuple[str, ...] = ()


class OperationSchemas(Struct, frozen=True, kw_only=True):
    """The schemas of one operation, converted.

    Attributes:
        input: the schema of the tool's arguments; an object that allows no others.
        output: the schema of a successful response; ``None`` if none is described, or a response may be empty.
        notes: descriptions of repaired and omitted parts.
    """

    input: dict[str, Any]
    output: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of an API.

    Attributes:
        name: the name of the tool: at most 64 letters, digits, ``_`` and ``-``; unique in its description.
        method: the method in capitals.
        path: the path template, with ``{name}`` for path parameters.
        operation_id: its id in the description; ``None`` without.
        title: a short title.
        description: its description for the model.
        tags: its tags in the description.
        deprecated: whether the API marks it as deprecated.
        parameters: the parameters in the order of the description, path parameters first.
        body: the body of its request; ``None`` without.
        responses: its responses, successful ones first.
        is_output_proven: whether the API makes each response fit its schema.
        security: alternatives, each a tuple of schemes that are needed together; empty if none is needed.
        notes: descriptions of repairs.
        reads: undeclared parts of a request that the operation reads: ``request.json``.
        make_schemas: makes its schemas; `schemas` keeps them.
    """

    name: str
    method: str
    path: str
    operation_id: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    deprecated: bool = False
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    responses: tuple[Response, ...] = ()
    is_output_proven: bool = False
    security: tuple[tuple[ApiKey, ...], ...] = ()
    notes: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    make_schemas: Callable[[Operation], OperationSchemas] | None = None
    kept: dict[str, OperationSchemas] = field(default_factory=dict[str, OperationSchemas])

    @property
    def label(self) -> str:
        """Method and path, for messages."""
        return f"{self.method} {self.path}"

    @property
    def is_read_only(self) -> bool:
        """Whether the method promises that nothing changes (RFC 9110, section 9.2.1)."""
        return self.method in ("GET", "HEAD", "OPTIONS", "QUERY")

    @property
    def is_idempotent(self) -> bool:
        """Whether the method may be repeated without further effect (RFC 9110, section 9.2.2)."""
        return self.is_read_only or self.method in ("PUT", "DELETE")

    @property
    def arguments(self) -> frozenset[str]:
        """The names of all arguments."""
        names = {parameter.argument for parameter in self.parameters}
        if self.body is not None:
            names.update(member.argument for member in self.body.fields)
            if self.body.argument is not None:
                names.add(self.body.argument)
        return frozenset(names)

    def schemas(self) -> OperationSchemas:
        """Return the schemas, which are converted on the first call.

        Raises:
            UnusableOperation: the schemas cannot be made.
        """
        made = self.kept.get("made")
        if made is None:
            if self.make_schemas is None:
                made = OperationSchemas(input={"type": "object", "properties": {}, "additionalProperties": False})
            else:
                made = self.make_schemas(self)
            self.kept["made"] = made
        return made


class Skipped(Struct, frozen=True, kw_only=True):
    """An operation that cannot be offered.

    Attributes:
        method, path: its method and path.
        reason: the reason as a sentence.
    """

    method: str
    path: str
    reason: str
