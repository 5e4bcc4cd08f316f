"""The declaration of a function: its parameters and annotations, with names resolved.

Plain functions are read from their code object, which costs a tenth of ``inspect.signature``; other callables (methods,
partials, instances, wrapped functions) are read with ``inspect``. Postponed annotations are evaluated in the function's
module; names that exist only inside a function are looked up in the frames of the code that registers it. With a name
that is not defined yet the signature is pending: it is resolved again on first use, and it is an error if that fails.
"""

from __future__ import annotations

import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from ferrule.app.errors import SignatureError
from ferrule.app.signatures.adapters.base import remember_names
from ferrule.kernel.signatures import annotations_of, signature_of

__all__ = ["Declaration", "FunctionKind", "RawParameter", "declaration_of", "remember_callers"]

FunctionKind = Literal["sync", "async", "generator", "async_generator"]

_LITERAL_FORM: Any = type(Literal[1])

EMPTY = inspect.Parameter.empty

_SIGNATURE_ATTRIBUTES = frozenset({"__wrapped__", "__signature__"})
"""Attributes of a function whose signature differs from that of its code."""

_VARARGS, _VARKEYWORDS = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
_GENERATOR, _COROUTINE, _ASYNC_GENERATOR = inspect.CO_GENERATOR, inspect.CO_COROUTINE, inspect.CO_ASYNC_GENERATOR


class RawParameter(msgspec.Struct):
    """One parameter as written; ``default`` is ``EMPTY`` when there is none."""

    name: str
    annotation: Any
    default: Any
    is_positional_only: bool = False


class Declaration(msgspec.Struct):
    """The declaration of a function.

    Attributes:
        pending: the name that could not be resolved; ``None`` if all are resolved.
        takes_keywords: whether it has a ``**name`` parameter.
    """

    function: Any
    name: str
    kind: FunctionKind
    parameters: list[RawParameter]
    returns: Any
    doc: str | None
    takes_keywords: bool = False
    pending: str | None = None


def declaration_of(function: Callable[..., Any]) -> Declaration:
    """Return the declaration of a function, method, partial or callable instance.

    Raises:
        SignatureError: it has ``*args``, it cannot be inspected, or an annotation raised an exception.
    """
    if type(function) is types.FunctionType and not (
        function.__dict__ and _SIGNATURE_ATTRIBUTES & function.__dict__.keys()
    ):
        made = _of_function(function)
        source: Any = function
    else:
        made, source = _of_callable(function)
    _resolve(made, source)
    return made


def _of_function(function: types.FunctionType) -> Declaration:
    code = function.__code__
    if code.co_flags & _VARARGS:
        raise _no_varargs(function.__qualname__)
    annotations = _annotations(function)
    defaults = function.__defaults__ or ()
    keyword_defaults = function.__kwdefaults__ or {}
    count = code.co_argcount
    first_default = count - len(defaults)
    parameters: list[RawParameter] = []
    for index, name in enumerate(code.co_varnames[: count + code.co_kwonlyargcount]):
        if index >= count:
            default = keyword_defaults.get(name, EMPTY)
        else:
            default = defaults[index - first_default] if index >= first_default else EMPTY
        parameters.append(RawParameter(name, annotations.get(name, EMPTY), default, index < code.co_posonlyargcount))
    return Declaration(
        function,
        function.__name__,
        _kind_of_flags(code.co_flags),
        parameters,
        annotations.get("return", EMPTY),
        function.__doc__,
        bool(code.co_flags & _VARKEYWORDS),
    )


def _of_callable(function: Any) -> tuple[Declaration, Any]:
    # A callable object and a partial have no name of their own.
    label = getattr(function, "__qualname__", None) or type(function).__qualname__
    try:
        signature = signature_of(function)
    except (TypeError, ValueError) as error:
        raise SignatureError("it cannot be inspected, so it cannot be served", function=label) from error
    except Exception as error:
        raise _unreadable(error, label) from error
    parameters: list[RawParameter] = []
    takes_keywords = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise _no_varargs(label)
        if parameter.kind is parameter.VAR_KEYWORD:
            takes_keywords = True
            continue
        only = parameter.kind is parameter.POSITIONAL_ONLY
        parameters.append(RawParameter(parameter.name, parameter.annotation, parameter.default, only))
    inner = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    # A callable object and a partial have no name of their own.
    name = getattr(function, "__name__", None) or getattr(inner, "__name__", None) or type(inner).__name__
    source = inspect.unwrap(inner)
    if not inspect.isroutine(source):
        source = type(source).__call__
    # A callable object may have no docstring.
    doc = getattr(inner if isinstance(function, functools.partial) else function, "__doc__", None)
    kind = _kind_of_callable(function, inner)
    return Declaration(function, name, kind, parameters, signature.return_annotation, doc, takes_keywords), source


def _no_varargs(label: str) -> SignatureError:
    return SignatureError("*args cannot be described to a client; name the parameters or take a list", function=label)


def _kind_of_flags(flags: int) -> FunctionKind:
    if flags & _COROUTINE:
        return "async"
    if flags & _ASYNC_GENERATOR:
        return "async_generator"
    return "generator" if flags & _GENERATOR else "sync"


def _kind_of_callable(function: Any, inner: Any) -> FunctionKind:
    for candidate in (function, inner, type(inner).__call__ if callable(inner) else None):
        if candidate is None:
            continue
        if inspect.iscoroutinefunction(candidate):
            return "async"
        if inspect.isasyncgenfunction(candidate):
            return "async_generator"
        if inspect.isgeneratorfunction(candidate):
            return "generator"
    return "sync"


def _annotations(function: Any) -> dict[str, Any]:
    try:
        return annotations_of(function)
    except Exception as error:
        raise _unreadable(error, function.__qualname__) from error


def _unreadable(error: Exception, label: str) -> SignatureError:
    return SignatureError(f"an annotation cannot be read: {type(error).__name__}: {error}", function=label)


def _resolve(made: Declaration, source: Any) -> None:
    for parameter in made.parameters:
        if type(parameter.annotation) is not type:
            break
    else:
        if type(made.returns) is type:
            return
    named = {parameter.name: parameter.annotation for parameter in made.parameters if parameter.annotation is not EMPTY}
    if made.returns is not EMPTY:
        named["return"] = made.returns
    resolved = _evaluate(made, named, source)
    for parameter in made.parameters:
        parameter.annotation = resolved.get(parameter.name, EMPTY)
    made.returns = resolved.get("return", EMPTY)


def _evaluate(made: Declaration, named: dict[str, Any], source: Any) -> dict[str, Any]:
    # Only functions written in Python have globals.
    names = getattr(source, "__globals__", {})
    try:
        return {name: _evaluated(annotation, names, None) for name, annotation in named.items()}
    except NameError:
        pass
    except Exception as error:
        raise _unreadable(error, made.name) from error
    local_names = _names_of_callers(source)
    # A callable object may have no module.
    remember_names(getattr(source, "__module__", "") or "", local_names)
    # Set by Python 3.12 and later on generic functions.
    local_names |= {parameter.__name__: parameter for parameter in getattr(source, "__type_params__", ())}
    try:
        return {name: _evaluated(annotation, names, local_names) for name, annotation in named.items()}
    except NameError as error:
        made.pending = str(error)
        return named
    except Exception as error:
        raise _unreadable(error, made.name) from error


def _evaluated(annotation: Any, names: dict[str, Any], local_names: dict[str, Any] | None) -> Any:
    """Return an annotation with its strings evaluated."""
    # Not with `typing.get_type_hints`, which takes ten calls for each part.
    if type(annotation) is str:
        annotation = eval(_code_of(annotation), names, local_names)
    if annotation is None:
        return type(None)
    if type(annotation) is type or not _has_text(annotation):
        return annotation
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    return typing.get_type_hints(holder, names, local_names or {}, include_extras=True)["it"]


@functools.lru_cache(maxsize=1024)
def _code_of(text: str) -> types.CodeType:
    return compile(text.strip(), "<annotation>", "eval")


def _has_text(annotation: Any) -> bool:
    """Return whether an annotation has an unevaluated part; the values of ``Literal`` are text and not evaluated."""
    if isinstance(annotation, str | typing.ForwardRef):
        return True
    # Only subscripted annotations have arguments.
    parts = getattr(annotation, "__args__", None)
    if not parts or annotation.__class__ is _LITERAL_FORM:
        return False
    for part in parts:  # noqa: SIM110 - registering many tools is counted in calls, and a generator is one per part
        if type(part) is not type and _has_text(part):
            return True
    return False


def remember_callers(function: Any) -> None:
    """Remember the local classes of the registering functions, so that they are found by name."""
    source = inspect.unwrap(function)
    # A callable object may have no module.
    remember_names(getattr(source, "__module__", "") or "", _names_of_callers(source))


def _names_of_callers(source: Any) -> dict[str, Any]:
    """Return the local names of the frames outside this library, the nearest first, and of the function's closure."""
    found: dict[str, Any] = {}
    frame: types.FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    depth = 0
    while frame and depth < 32:
        if frame.f_locals is not frame.f_globals and not str(frame.f_globals.get("__name__", "")).startswith(
            "ferrule."
        ):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
        depth += 1
    # Only functions written in Python have a closure.
    closure = getattr(source, "__closure__", None)
    for name, cell in zip(source.__code__.co_freevars, closure, strict=False) if closure else ():
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found
