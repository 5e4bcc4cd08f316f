"""The signature of a function of the old ``FastMCP``: its arguments, and what of its result is structured.

Ferrule's signatures describe and convert the values. This module adds what the old SDK did otherwise: unknown arguments
are ignored, a parameter without annotation is described as text, ``= Field(…)`` is a default, ``**names`` is a
parameter. Structured are results with a return annotation, apart from a bare ``dict`` or ``list`` and classes without
fields; what is no object is wrapped in ``result``.
"""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ferrule.app.errors import ResultError, SignatureError
from ferrule.app.results.result_plan import ResultPlan, plan_result, to_json_value, wrap_schema
from ferrule.app.signatures.adapters import adapter_for
from ferrule.app.signatures.function import FunctionSpec, compile_function
from ferrule.errors import DecodeError
from ferrule.types import LATEST_MODERN_VERSION, REVISIONS
from ferrule.wire.codec import decode
from ferrule_compat.content import as_content
from ferrule_compat.exceptions import InvalidSignature
from ferrule_compat.models import Model, plain
from ferrule_compat.wire_types import find

__all__ = ["FuncMetadata", "func_metadata"]

logger = logging.getLogger(__name__)

_EMPTY: Any = inspect.Parameter.empty
_WORDS: Final = {
    **dict.fromkeys(("1", "on", "t", "true", "y", "yes"), True),
    **dict.fromkeys(("0", "off", "f", "false", "n", "no"), False),
}
_SCALARS: frozenset[Any] = frozenset({str, int, float, bool, bytes, type(None)})


class _Rewritten:
    """A function with another signature, which compiles in its place."""

    def __init__(self, function: Any, signature: inspect.Signature) -> None:
        functools.update_wrapper(self, function, updated=())
        self.__signature__ = signature
        self.__annotations__: dict[str, Any] = {}

    def __call__(self, **kwargs: Any) -> Any:
        return self.__wrapped__(**kwargs)  # type: ignore[attr-defined]


class _Output(NamedTuple):
    schema: dict[str, Any] | None = None
    plan: ResultPlan | None = None
    is_wrapped: bool = False


class FuncMetadata:
    """The compiled arguments and result of a function.

    Attributes:
        spec: Ferrule's signature.
        context_kwarg: the parameter for the context; ``None`` without one.
        parameters: the schema of the arguments.
        output_schema: the schema of the structured result; ``None`` for a result that is content only.
        wrap_output: whether the structured result is ``{"result": value}``.
    """

    def __init__(self, function: Callable[..., Any], structured_output: bool | None = None) -> None:
        self.spec = _compiled(function)
        self.context_kwarg = self.spec.context_parameter
        self.parameters = self._schema()
        self._names = frozenset(part.name for part in self.spec.parameters)
        self._texts = frozenset(part.name for part in self.spec.parameters if _is_text(part.shape.hint))
        self._truths = frozenset(part.name for part in self.spec.parameters if _is_truth_value(part.shape.hint))
        made = _Output() if structured_output is False else _output(self.spec.returns, self.spec.name)
        if structured_output and made.schema is None:
            raise InvalidSignature(f"Function {self.spec.name}: its return type has no structured output")
        self.output_schema, self._plan, self.wrap_output = made
        self._holds_models = self._plan is not None and _holds_models(self.spec.returns)

    def _schema(self) -> dict[str, Any]:
        made = self.spec.input_schema("exact")
        made.pop("additionalProperties", None)
        for name in _bare(self.spec.function) & made["properties"].keys():
            made["properties"][name].setdefault("type", "string")
        return made

    def bind(self, arguments: Mapping[str, Any], *, reads_json: bool = False) -> dict[str, Any]:
        """Return the converted arguments; unknown ones are left out.

        Args:
            arguments: by name.
            reads_json: take text that is a JSON list, object or null as that value where a parameter is not text only.

        Raises:
            ValueError: they do not fit the parameters.
        """
        given = {name: value for name, value in arguments.items() if name in self._names}
        for name in self._truths & given.keys():
            given[name] = _truth_value(given[name])
        read = _json_in(given, self._texts) if reads_json else {}
        if read:
            try:
                return self.spec.bind({**given, **read})
            except ValueError:  # text that only looks like JSON
                pass
        return self.spec.bind(given)

    def convert_result(self, value: Any) -> Any:
        """Return content, or ``(content, structured)``, for what the function returned."""
        if isinstance(value, find("CallToolResult")):
            return value
        content = as_content(value)
        if self._plan is None:
            return content
        if _is_plain_class(self.spec.returns) and isinstance(value, self.spec.returns):
            value = _attributes(value)
        if self._plan.kind == "free" or self._holds_models:  # any value, which Ferrule would send as text alone
            data = to_json_value(plain(value, mode="json", by_alias=True))
        else:
            data = self._projected(self._plan, value)
        return content, {"result": data} if self.wrap_output else data

    def _projected(self, plan: ResultPlan, value: Any) -> Any:
        try:
            return plan.project(value, REVISIONS[LATEST_MODERN_VERSION]).structured_content
        except ResultError:
            try:
                from pydantic import TypeAdapter
            except ImportError:  # the old SDK installed it; a server that does without it has no such results
                raise
            # As the old SDK converted: 5.0 is an integer, "1.5" and NaN are numbers, keys of a dictionary a list.
            try:
                adapter: Any = TypeAdapter(_described(self.spec.returns))
                return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
            except Exception:
                logger.debug("pydantic does not take the result of %s", self.spec.name, exc_info=True)
            raise


def func_metadata(function: Callable[..., Any], skip_names: Any = (), structured_output: bool | None = None) -> Any:
    """Return the compiled arguments and result of a function."""
    return FuncMetadata(function, structured_output)


def _is_text(hint: Any) -> bool:
    return (typing.get_args(hint)[0] if typing.get_origin(hint) is typing.Annotated else hint) is str


def _is_truth_value(hint: Any) -> bool:
    return hint is bool or set(typing.get_args(hint)) == {bool, type(None)}


def _truth_value(value: Any) -> Any:
    """Return the truth value that the old SDK read in text or in a number; another value as it is."""
    if isinstance(value, str):
        return _WORDS.get(value.lower(), value)
    return bool(value) if isinstance(value, int | float) and value in (0, 1) else value


def _json_in(given: Mapping[str, Any], texts: frozenset[str]) -> dict[str, Any]:
    """Return the arguments that are the JSON text of a list, an object or null, as these values."""
    made: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, str) and name not in texts:
            try:
                found = decode(value)
            except DecodeError:
                continue
            if found is None or isinstance(found, list | dict):
                made[name] = found
    return made


def _bare(function: Any) -> set[str]:
    return {name for name, each in inspect.signature(function).parameters.items() if each.annotation is _EMPTY}


def _compiled(function: Callable[..., Any]) -> FunctionSpec:
    try:
        signature = inspect.signature(function)
        parameters = signature.parameters.values()
        hints: Mapping[str, Any] = {}
        if "pydantic.fields" in sys.modules:
            hints = _hints_of(function)
        if any(_is_variable(each) or _field_of(each, hints) is not None for each in parameters):
            return compile_function(_Rewritten(function, _rewritten(function, signature)))
        return compile_function(function)
    except SignatureError as error:
        raise InvalidSignature(str(error)) from error


def _hints_of(function: Any) -> dict[str, Any]:
    target = function.func if isinstance(function, functools.partial) else function
    try:
        return typing.get_type_hints(target, include_extras=True)
    except Exception:  # Ferrule's own reading finds names of the caller, or says what is wrong
        return {}


def _is_variable(parameter: inspect.Parameter) -> bool:
    return parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)


def _field_of(parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Any:
    """Return pydantic's ``Field`` that holds the default of a parameter; ``None`` where Python's default counts."""
    if type(parameter.default).__module__.startswith("pydantic"):
        return parameter.default
    if parameter.default is not _EMPTY:
        return None
    annotation = hints.get(parameter.name)
    notes = typing.get_args(annotation)[1:] if typing.get_origin(annotation) is typing.Annotated else ()
    found = [note for note in notes if type(note).__module__.startswith("pydantic") and hasattr(note, "is_required")]
    return next((note for note in found if not note.is_required()), None)


def _rewritten(function: Any, signature: inspect.Signature) -> inspect.Signature:
    hints = _hints_of(function)
    made: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        annotation, default = hints.get(name, parameter.annotation), parameter.default
        field = _field_of(parameter, hints)
        if _is_variable(parameter):
            annotation = _EMPTY
        elif field is not None:
            # `is_required` and not the default itself: a field may have a factory.
            default = _EMPTY if field.is_required() else field.get_default(call_default_factory=True)
            if field is parameter.default:
                annotation = typing.Annotated[Any if annotation is _EMPTY else annotation, field]
        made.append(inspect.Parameter(name, parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return inspect.Signature(made, return_annotation=hints.get("return", signature.return_annotation))


# -- results -----------------------------------------------------------------------------------------------------------


def _output(returns: Any, name: str) -> _Output:
    """Return the structured output of a return annotation, by the rules of the old SDK."""
    described = _described(returns)
    if described is _EMPTY:
        return _Output()
    wrapped = _is_wrapped(described)
    if wrapped is None:
        return _Output()
    nothing = {"type": "null"} if described is type(None) or described is None else {}
    try:
        plan = plan_result(_with_form(described), mode="exact")
        if plan.kind == "content":
            return _Output()
        schema = plan.output_schema() or nothing
    except (SignatureError, NameError, TypeError, ValueError) as error:
        logger.info("The result of %s has no schema: %s", name, error)
        return _Output()
    if wrapped:
        schema = {key: value for key, value in wrap_schema(schema).items() if not key.startswith("x-")}
    return _Output(schema, plan, wrapped)


def _is_plain_class(annotation: Any) -> bool:
    """Return whether a class has annotated attributes and none of the forms that Ferrule knows."""
    return (
        isinstance(annotation, type)
        and not typing.is_typeddict(annotation)
        and adapter_for(annotation) is None
        and bool(typing.get_type_hints(annotation))
    )


def _with_form(annotation: Any) -> Any:
    """Return an annotation, for a plain class the typed dictionary of its attributes."""
    if annotation in _SCALARS or not _is_plain_class(annotation):
        return annotation
    hints = {name: hint for name, hint in typing.get_type_hints(annotation).items() if not name.startswith("_")}
    fields = {name: typing.NotRequired[hint] if hasattr(annotation, name) else hint for name, hint in hints.items()}
    made: Any = typing.TypedDict  # as a function, for names that are known at run time only
    return made(annotation.__name__, fields)


def _attributes(value: Any) -> dict[str, Any]:
    names = typing.get_type_hints(type(value))
    return {name: getattr(value, name) for name in names if not name.startswith("_") and hasattr(value, name)}


def _holds_models(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return True
    return any(_holds_models(part) for part in typing.get_args(annotation))


def _described(returns: Any) -> Any:
    """Return the annotation of the data; of ``Annotated[CallToolResult, T]`` that is ``T``."""
    base = typing.get_args(returns)[0] if typing.get_origin(returns) is typing.Annotated else returns
    result = find("CallToolResult")
    parts = typing.get_args(base) if typing.get_origin(base) in (typing.Union, types.UnionType) else ()
    if any(isinstance(part, type) and issubclass(part, result) for part in parts):
        raise InvalidSignature("CallToolResult cannot be used in Union or Optional types")
    if isinstance(base, type) and issubclass(base, result):
        return typing.get_args(returns)[1] if base is not returns else _EMPTY
    return returns


def _is_wrapped(annotation: Any) -> bool | None:
    """Return whether the data is wrapped in ``result``; ``None`` for a class without fields, which has no schema."""
    base = typing.get_args(annotation)[0] if typing.get_origin(annotation) is typing.Annotated else annotation
    if base is None or base in _SCALARS:
        return True
    if isinstance(base, types.GenericAlias):
        # Only this form: `typing.Dict[str, …]` is wrapped.
        arguments = typing.get_args(base)
        return not (typing.get_origin(base) is dict and len(arguments) == 2 and arguments[0] is str)
    if not isinstance(base, type):
        return True
    if hasattr(base, "__get_pydantic_core_schema__"):
        return False
    try:
        return None if not typing.get_type_hints(base) else False
    except NameError:
        return False
