"""Records of what an API offers: operations, their parameters, bodies and answers, as the engine uses them.

An OpenAPI description becomes a list of `Operation`s (`ferrule.expose.description`), and nothing behind that point
knows OpenAPI. The schemas of an operation are made when they are first asked for: a description of ten thousand
operations, of which ten are exposed, costs ten conversions.
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
"""Where a parameter stands in the request."""

Style: TypeAlias = Literal[
    "form", "simple", "label", "matrix", "spaceDelimited", "pipeDelimited", "deepObject", "cookie", "content"
]
"""How a parameter is written (OpenAPI, "Style Values"); ``content``: encoded as its media type says."""

BodyForm: TypeAlias = Literal["fields", "value", "binary", "text"]
"""How a body is given: its members as arguments, one argument with a JSON value, bytes, or text."""


class UnusableOperation(ValueError):
    """An operation cannot be offered as a tool; the text says why. The other operations are not affected."""


class Parameter(Struct, frozen=True, kw_only=True):
    """One parameter of a request.

    Attributes:
        name: in the request.
        argument: name of the tool's argument.
        location: where it stands.
        required: whether the request needs it.
        style: how it is written.
        explode: whether each member of a list or object stands alone.
        allow_reserved: whether reserved characters are left as they are in a query value (RFC 6570, ``+``), and slashes
            in a path value.
        content_type: the media type of its value, where ``style`` is ``content``.
        description: for the model.
        raw_schema: as the description has it; `OperationSchemas` converts it.
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
        name: in the body.
        argument: name of the tool's argument.
        required: whether the body needs it.
        content_type: the media type of the part, in a multipart body; ``None`` where its value decides.
        is_binary: the value is bytes (``format: binary``), in a multipart body a file.
        is_list: it is a list, so that each member becomes a part or a form value of its own.
        style, explode: how a value that is a list or object is written in a URL-encoded form.
        raw_schema: as the description has it.
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
        content_type: as it is sent, parameters included.
        form: how it is given.
        required: whether the request needs one.
        argument: name of the argument that holds it whole; ``None`` where ``form`` is ``fields``.
        fields: its members, where ``form`` is ``fields``.
        description: for the model.
        raw_schema: as the description has it.
    """

    content_type: str
    form: BodyForm
    required: bool = False
    argument: str | None = None
    fields: tuple[Field, ...] = ()
    description: str | None = None
    raw_schema: Any = True


class Response(Struct, frozen=True, kw_only=True):
    """One kind of answer.

    Attributes:
        status: ``"200"``, ``"2XX"``, ``"default"`` …
        content_types: the media types of its body, as described; empty for no body.
        is_json: whether one of them is JSON.
        description: as described.
        raw_schema: the schema of the JSON body; ``None`` where there is none.
    """

    status: str
    content_types: tuple[str, ...] = ()
    is_json: bool = False
    description: str | None = None
    raw_schema: Any = None


class ApiKey(Struct, frozen=True, kw_only=True):
    """A way to authenticate that an operation names (OpenAPI, "Security Scheme Object").

    Attributes:
        scheme: name of the scheme in the description.
        type: ``"apiKey"``, ``"http"``, ``"oauth2"``, ``"openIdConnect"``, ``"mutualTLS"``.
        location, name: where an API key stands, and under which name.
        http_scheme: ``"bearer"``, ``"basic"`` …, of ``http``.
        scopes: that the operation needs.
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
        output: the schema of a successful answer; ``None`` where none is described or an answer may be empty.
        notes: what was repaired or left out, in plain words.
    """

    input: dict[str, Any]
    output: dict[str, Any] | None = None
    notes: tuple[str, ...] = ()


class Operation(Struct, frozen=True, kw_only=True):
    """One operation of an API.

    Attributes:
        name: the name of the tool: at most 64 letters, digits, ``_`` and ``-``; unique in its description.
        method: in capitals.
        path: template, with ``{name}`` for path parameters.
        operation_id: as described; ``None`` without.
        title: in a few words.
        description: for the model.
        tags: as described.
        deprecated: whether the API advises against it.
        parameters: in the order of the description, path parameters first.
        body: what it takes; ``None`` for nothing.
        responses: successful ones first.
        is_output_proven: the API makes each answer fit its schema before it sends it.
        security: alternatives, each a tuple of what is needed together; empty where nothing is needed.
        notes: what was repaired while it was read.
        reads: what the operation reads of a request though its description does not say so: ``request.json``.
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
        """Names of all arguments."""
        names = {parameter.argument for parameter in self.parameters}
        if self.body is not None:
            names.update(member.argument for member in self.body.fields)
            if self.body.argument is not None:
                names.add(self.body.argument)
        return frozenset(names)

    def schemas(self) -> OperationSchemas:
        """Return the schemas, which are converted on the first call.

        Raises:
            UnusableOperation: they cannot be made.
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
        method, path: which.
        reason: why, in plain words.
    """

    method: str
    path: str
    reason: str
