"""A compiled function: its parameters as a schema, and the conversion of arguments to keyword arguments.

`FunctionSpec` is made when a function is registered, and all errors of the signature are found then. The generated
Struct for calls and the schema for lists are made on first use, so that a server with a thousand tools starts quickly.

`bind` is one native conversion if the arguments are valid. Otherwise `ferrule.app.signatures.coercion` converts them
again, one by one, to repair what is unambiguous and to describe all problems.
"""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, cast

import msgspec

from ferrule.app.errors import SignatureError
from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.introspection import (
    EMPTY,
    Declaration,
    FunctionKind,
    RawParameter,
    declaration_of,
    remember_callers,
)
from ferrule.app.signatures.shapes import FieldShape, decode_hook, is_secret_shape

__all__ = ["FunctionSpec", "SchemaMode", "compile_function"]

SchemaMode = Literal["model", "exact"]
"""How a schema is published: with the keywords that the APIs of models share, or with all of JSON Schema."""

INJECTED = "__ferrule_injected__"
"""A parameter of a class with this attribute is filled in by the server; the value is the kind (``"context"``)."""

DEPENDENCY = "__ferrule_dependency__"
"""A default or an ``Annotated`` note with this attribute is resolved by the server, not sent by a client."""

_NO_SECRET = (
    "a prompt or a resource cannot have a secret: its arguments and URIs are written to logs and audits; take it as an "
    "argument of a tool, or as a setting"
)
_SIMPLE = frozenset({str, int, float, bool})
_IMMUTABLE = (str, int, float, bool, bytes, type(None), enum.Enum)

_structs_asdict = msgspec.structs.asdict
_convert = msgspec.convert


class FunctionSpec:
    """A compiled function; made by `compile_function`.

    Attributes:
        function: the function itself, unchanged.
        name: its ``__name__``.
        kind: ``"sync"``, ``"async"``, ``"generator"`` or ``"async_generator"``.
        doc: the raw docstring.
        returns: the resolved return annotation; ``EMPTY`` (``inspect.Parameter.empty``) when there is none.
        parameters: the parameters that a client sends, in order.
        names: the names of all parameters, in the order of the signature.
        injected: by parameter name, the kind of value that the server fills in (``"context"``).
        dependencies: by parameter name, the marker of its dependency.
        context_parameter: the name of the parameter for the `Context`; ``None`` without one.
        runner: calls the function with its dependencies; set by `ferrule.app.execution.invoke`.
        allows_secrets: whether a parameter may be a `Secret`.
        takes_keywords: whether arguments beyond the parameters are passed on (only with a schema of the author's own).
    """

    __slots__ = (
        "_declaration",
        "_description",
        "_descriptions",
        "_positional",
        "_struct",
        "allows_secrets",
        "bind",
        "context_parameter",
        "dependencies",
        "doc",
        "function",
        "injected",
        "kind",
        "name",
        "names",
        "parameters",
        "returns",
        "runner",
        "takes_keywords",
    )

    bind: Callable[[Mapping[str, Any] | None], dict[str, Any]]
    """Converts arguments to keyword arguments of the function, without the injected ones. Raises `InvalidArguments`."""

    def __init__(self, declaration: Declaration, *, allows_secrets: bool = True) -> None:
        self.allows_secrets = allows_secrets
        self._declaration: Declaration | None = declaration
        self._struct: type[msgspec.Struct] | None = None
        self._descriptions: dict[str, str] | None = None
        self._description: str | None = None
        self.function: Callable[..., Any] = declaration.function
        self.name = declaration.name
        self.kind: FunctionKind = declaration.kind
        self.doc = declaration.doc
        self.returns: Any = declaration.returns
        self.takes_keywords = declaration.takes_keywords
        self.parameters: list[FieldShape] = []
        self.injected: dict[str, str] = {}
        self.dependencies: dict[str, Any] = {}
        self.context_parameter: str | None = None
        self.runner: Callable[..., Any] | None = None
        self._positional: tuple[str, ...] = ()
        self.names: tuple[str, ...] = ()
        self.bind = self._first_bind
        if declaration.pending is None:
            self._read(declaration)

    @property
    def is_async(self) -> bool:
        """Whether calling the function returns a coroutine."""
        return self.kind == "async"

    @property
    def is_pending(self) -> bool:
        """Whether a name in its annotations was not defined yet when it was registered."""
        return self._declaration is not None

    def finish(self) -> FunctionSpec:
        """Resolve the annotations that used undefined names at registration, and return this object.

        Raises:
            SignatureError: a name is still not defined, or an annotation has no JSON form.
        """
        declaration = self._declaration
        if declaration is not None:
            declaration = declaration_of(declaration.function)
            if declaration.pending is not None:
                raise SignatureError(
                    f"{declaration.pending}; import it at run time, not under TYPE_CHECKING", function=self.name
                )
            self.returns = declaration.returns
            self._read(declaration)
        return self

    def _read(self, declaration: Declaration) -> None:
        positional: list[str] = []
        for raw in declaration.parameters:
            if raw.is_positional_only:
                positional.append(raw.name)
            injected, dependency = _injection(raw)
            if injected is not None:
                self.injected[raw.name] = injected
                if injected == "context":
                    self.context_parameter = raw.name
            elif dependency is not None:
                self.dependencies[raw.name] = dependency
            else:
                try:
                    self.parameters.append(self._parameter(raw))
                    if not self.allows_secrets and is_secret_shape(self.parameters[-1].shape):
                        raise SignatureError(_NO_SECRET)
                except SignatureError as error:
                    raise SignatureError(error.reason, function=self.name, parameter=raw.name) from error
                except NameError as error:
                    self.parameters.clear()
                    self.injected.clear()
                    self.dependencies.clear()
                    declaration.pending = str(error)
                    return
        self._positional = tuple(positional)
        self.names = tuple(raw.name for raw in declaration.parameters)
        self._declaration = None

    def _parameter(self, raw: RawParameter) -> FieldShape:
        try:
            return _parameter(raw)
        except NameError:  # perhaps a field of a class that is defined inside a function
            remember_callers(self.function)
            return _parameter(raw)

    # -- calling ---------------------------------------------------------------------------------------------------

    def _first_bind(self, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
        self.finish()
        self.bind = self._compile()
        return self.bind(arguments)

    def _compile(self) -> Callable[[Mapping[str, Any] | None], dict[str, Any]]:
        from ferrule.app.signatures.coercion import bind_slowly

        # msgspec cannot have a field whose name begins with two underscores.
        if self.takes_keywords or any(part.name.startswith("__") for part in self.parameters):
            return lambda arguments: bind_slowly(self, arguments or {})
        if not self.parameters:
            return lambda arguments: bind_slowly(self, arguments) if arguments else {}
        struct = self.arguments_type()
        if all(type(part.shape.hint) is type and part.shape.hint in _SIMPLE for part in self.parameters):

            def bind(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
                try:
                    return _structs_asdict(_convert(arguments, struct))
                except (msgspec.ValidationError, TypeError):
                    return bind_slowly(self, arguments or {})

            return bind

        def bind_typed(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
            try:
                return _structs_asdict(_convert(arguments, struct, dec_hook=decode_hook, str_keys=True))
            except (msgspec.ValidationError, TypeError, RecursionError):
                return bind_slowly(self, arguments or {})

        return bind_typed

    def arguments_type(self) -> type[msgspec.Struct]:
        """Return a Struct with the parameters as fields: one native conversion checks names, types and presence."""
        if self._struct is None:
            fields: list[Any] = []
            for part in self.parameters:
                if part.required:
                    fields.append((part.name, part.shape.hint))
                    continue
                default = part.default
                if not isinstance(default, _IMMUTABLE):
                    default = msgspec.field(default_factory=_constant(default))
                fields.append((part.name, part.shape.hint, default))
            self._struct = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        return self._struct

    @property
    def decodes_natively(self) -> bool:
        """Return whether `arguments_type` can be decoded from JSON directly, with the same values as `bind` returns.

        `bind` also repairs some arguments that do not fit; the decoder refuses these.
        """
        if self.takes_keywords:
            return False
        for part in self.parameters:
            if part.name.startswith("__"):
                return False
            for shape in part.shape.walk():
                if shape.kind == "scalar" and shape.schema is not None and not _is_exact_in_json(shape.hint):
                    return False
        return True

    def call_with(self, **kwargs: Any) -> Any:
        """Call the function with the result of `bind` and the injected values; return its result or its coroutine."""
        args = [kwargs.pop(name) for name in self._positional if name in kwargs]
        return self.function(*args, **kwargs)

    @property
    def has_positional_only(self) -> bool:
        """Whether the function cannot be called with keywords alone; use `call_with` then."""
        return bool(self._positional)

    # -- describing ------------------------------------------------------------------------------------------------

    def description(self) -> str | None:
        """Return the docstring up to its first section; ``None`` without a docstring."""
        doc = self.doc
        if doc is None:
            return None
        if "\n" not in doc and ":" not in doc:
            return doc.strip() or None
        from ferrule.app.signatures.docstrings import parse

        parsed = parse(doc)
        self._descriptions = parsed.parameters
        return parsed.description

    def parameter_descriptions(self) -> dict[str, str]:
        """Return the docstring's description of each parameter; in the schema ``Annotated`` takes precedence."""
        if self._descriptions is None:
            self._descriptions = {}
            self.description()
        return self._descriptions

    def parameters_text(self) -> str:
        """Return the parameters in one line, for errors about wrong arguments; made once."""
        if self._description is None:
            from ferrule.app.signatures.coercion import describe

            self._description = describe(self.parameters)
        return self._description

    def input_schema(self, mode: SchemaMode = "model") -> dict[str, Any]:
        """Return the JSON schema of the arguments: an object that refuses unknown names.

        Raises:
            SignatureError: a name is still not defined, or an annotation has no JSON form.
        """
        self.finish()
        from ferrule.app.signatures.json_schema import function_schema

        return function_schema(self.parameters, self.parameter_descriptions(), mode)


def compile_function(
    function: Callable[..., Any], *, allow_keywords: bool = False, allows_secrets: bool = True
) -> FunctionSpec:
    """Return the compiled form of a function.

    Args:
        function: any callable; it is not changed.
        allow_keywords: accept ``**name``, for components whose schema the author wrote.
        allows_secrets: whether a parameter may be a `Secret`; only arguments of tools have a schema that says it.

    Raises:
        SignatureError: it has ``*args`` (or ``**kwargs``), a parameter's type has no JSON form, or it is an unbound
            method.
    """
    declaration = declaration_of(function)
    if declaration.parameters and declaration.parameters[0].name in ("self", "cls"):
        _check_bound(function, declaration.parameters[0])
    spec = FunctionSpec(declaration, allows_secrets=allows_secrets)
    if spec.takes_keywords and not allow_keywords:
        raise SignatureError(
            "**kwargs cannot be described to a client; name the parameters, take a dict, or give input_schema=",
            function=spec.name,
        )
    return spec


def _is_exact_in_json(hint: Any) -> bool:
    """Return whether a scalar has the same value if read from JSON directly; a ``Decimal`` gets more digits."""
    base = typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint
    return base in _SIMPLE or base is type(None)


def _check_bound(function: Any, first: RawParameter) -> None:
    """Refuse an unbound method: a decorator in a class body gets a plain function with the parameter ``self``."""
    # A callable object and a partial have no `__qualname__`.
    owner = getattr(function, "__qualname__", "").rpartition(".")[0]
    if first.annotation is EMPTY and owner and not owner.endswith("<locals>"):
        raise SignatureError(
            f"it is a method and `{first.name}` has no value yet; register it bound, as app.tool(instance.method)",
            function=function.__qualname__,
        )


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _parameter(raw: RawParameter) -> FieldShape:
    annotation = raw.annotation
    shape = shape_of(Any if annotation is EMPTY else annotation)
    has_default = raw.default is not EMPTY
    if has_default and type(raw.default).__module__.startswith("pydantic"):
        raise SignatureError("write Annotated[type, Field(...)] and a plain default; the function stays callable then")
    return FieldShape(raw.name, raw.name, shape, not has_default, raw.default if has_default else msgspec.UNSET)


def _injection(raw: RawParameter) -> tuple[str | None, Any]:
    """Return the injection of a parameter: ``(kind, None)``, ``(None, marker)``; ``(None, None)`` for an argument."""
    if raw.default is not EMPTY and hasattr(raw.default, DEPENDENCY):
        return None, raw.default
    annotation = raw.annotation
    if type(annotation) is type:
        return cast("str | None", getattr(annotation, INJECTED, None)), None
    if typing.get_origin(annotation) is typing.Annotated:
        annotation, *notes = typing.get_args(annotation)
        for note in notes:
            if hasattr(note, DEPENDENCY):
                return None, note
    for part in typing.get_args(annotation) if _is_union(annotation) else (annotation,):
        cls = typing.get_origin(part) or part
        if isinstance(cls, type) and (kind := getattr(cls, INJECTED, None)) is not None:
            return kind, None
    return None, None


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
