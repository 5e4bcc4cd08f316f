"""The options of `ferrule.expose.expose` as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypedDict

from msgspec import Struct, field

from ferrule.app.results.encoders import Encoder, EncoderName
from ferrule.expose.choice import Include
from ferrule.expose.operations import Operation, Schema

__all__ = ["ExposeKeywords", "ExposeSettings", "ValidateOutput"]

ValidateOutput: TypeAlias = Literal["off", "log", "proven", "publish"]
"""The use of response schemas; see `ExposeSettings`."""


class ExposeSettings(Struct, frozen=True, kw_only=True):
    """The options for exposing operations.

    Attributes:
        include: the operations to expose; see `ferrule.expose.choice`.
        exclude: operations of these that are not exposed.
        rename: tool name by operation: by its name, its id, or ``"GET /path"``.
        describe: description for the model, by operation.
        override: a function that is the tool in place of an operation. It has the operation's name, the options
            ``describe``, ``hints``, ``scopes`` and ``text``, and is shown to those who may see the operation.
        parameters: values of parameters that are the same in every call, by their name in the request: versions,
            tenants. A model does not see them.
        add_parameters: parameters that the description lacks, by operation and name: the schema of an optional query
            parameter, or ``{"in": "body", "required": True, "schema": {…}}``, with ``query``, ``header``, ``cookie``,
            ``body`` (a member of a JSON body) or ``form`` (a field of a form) as location.
        hints: annotations of tools, by pattern: ``{"POST /search": {"readOnlyHint": True}}``.
        forward_headers: headers of the outer request to forward to an API, in lower case. ``authorization`` and
            ``cookie`` are credentials of the caller: they are forwarded only if they are listed here.
        validate_output: ``"off"``: schemas of answers are not used. ``"log"``: an answer that contradicts its schema is
            logged. ``"publish"``: the schema of an operation that only reads is the tool's output schema, and an answer
            that contradicts it is an error, which holds the answer. ``"proven"``: the same where the framework of the
            application makes each answer fit its schema, as FastAPI does with a response model; others are not used.
            A schema is never published for an operation whose answers are cut by ``fields`` or ``mask``.
        resources: operations with ``GET`` that become resources instead of tools; of ``"*"`` all that have it.
        fields: members of answers that are kept, by operation.
        mask: patterns of names of members of answers whose values are replaced.
        file_origins: ``https`` origins from which a file that a model names is read: ``https://files.example.com``.
        max_file_bytes: the maximum number of bytes of one such file.
        max_response_bytes: the maximum number of bytes of an answer that are read.
        timeout_s: seconds that one call may take.
        scopes: the scopes that a token needs, as for any tool.
        text: how answers with JSON are written for the model, as of any tool: ``"json"``, ``"toon"``, ``"auto"``, or a
            function from data to text; ``None`` for the server's.
        mark_deprecated: whether the description of a deprecated operation mentions that.
    """

    include: Include
    exclude: Include = ()
    rename: Mapping[str, str] = field(default_factory=dict[str, str])
    describe: Mapping[str, str] = field(default_factory=dict[str, str])
    override: Mapping[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    add_parameters: Mapping[str, Mapping[str, Schema]] = field(default_factory=dict[str, Mapping[str, Schema]])
    hints: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    forward_headers: tuple[str, ...] = ()
    validate_output: ValidateOutput = "off"
    resources: Include = ()
    fields: Mapping[str, Iterable[str]] = field(default_factory=dict[str, Iterable[str]])
    mask: tuple[str, ...] = ()
    file_origins: tuple[str, ...] = ()
    max_file_bytes: int = 16 * 1024 * 1024
    max_response_bytes: int = 8 * 1024 * 1024
    timeout_s: float | None = 60.0
    scopes: Any = ()
    text: EncoderName | Encoder | None = None
    mark_deprecated: bool = True

    def of(self, given: Mapping[str, Any], operation: Operation) -> Any:
        """Return the value for an operation in a mapping by operation; ``None`` without."""
        for key in (operation.name, operation.operation_id, operation.label):
            if key is not None and key in given:
                return given[key]
        return None


class ExposeKeywords(TypedDict, total=False):
    """The options of `ExposeSettings` as keyword arguments."""

    include: Include
    exclude: Include
    rename: Mapping[str, str]
    describe: Mapping[str, str]
    override: Mapping[str, Callable[..., Any]]
    parameters: Mapping[str, Any]
    add_parameters: Mapping[str, Mapping[str, Schema]]
    hints: Mapping[str, Mapping[str, Any]]
    forward_headers: tuple[str, ...]
    validate_output: ValidateOutput
    resources: Include
    fields: Mapping[str, Iterable[str]]
    mask: tuple[str, ...]
    file_origins: tuple[str, ...]
    max_file_bytes: int
    max_response_bytes: int
    timeout_s: float | None
    scopes: Any
    text: EncoderName | Encoder | None
    mark_deprecated: bool
