"""Errors for keyword arguments that do not exist, in the words of the public name that was called.

Python's own message names an inner ``__init__`` and says nothing of the name that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["check_options", "check_values", "explains_arguments", "suggestion"]

P = ParamSpec("P")
R = TypeVar("R")

_MAX_COMPARED = 200
"""Names that a misspelt one is compared with: the comparison is slow, and a peer may choose how many there are."""
_MAX_MATCHED = 5
"""Names, of those that have most pairs of letters in common with it, that it is matched with letter by letter."""
_MAX_LENGTH = 80


def suggestion(name: str, names: Iterable[str]) -> str | None:
    """Return the name that was probably meant, or ``None``.

    Args:
        name: the written name.
        names: the names that exist; only the first 200, and nothing for a name of more than 80 characters.
    """
    if len(name) > _MAX_LENGTH:
        return None
    from difflib import get_close_matches
    from heapq import nlargest
    from itertools import islice

    wanted = _pairs(name)
    found = [each for each in islice(names, _MAX_COMPARED) if len(each) <= _MAX_LENGTH]
    likely = nlargest(_MAX_MATCHED, found, key=lambda each: len(wanted & (pairs := _pairs(each))) / len(wanted | pairs))
    close = get_close_matches(name, likely, 1)
    return close[0] if close else None


def _pairs(name: str) -> set[tuple[str, str]]:
    """Return the pairs of neighbours in a name, its ends included."""
    return set(zip(f" {name}", f"{name} ", strict=True))


def check_options(what: str, given: Mapping[str, Any], known: type[Any], *also: str) -> None:
    """Refuse an option that does not exist.

    Args:
        what: the subject of the sentence, such as ``"A tool"``.
        given: options by name.
        known: the TypedDict, or the Struct, of those that exist.
        also: further names that exist, for the suggestion.

    Raises:
        TypeError: one of them does not; the closest that does is named.
    """
    # A struct has its fields there, a TypedDict has annotations only.
    names = [*also, *getattr(known, "__struct_fields__", known.__annotations__)]
    for name in given:
        if name not in names:
            raise TypeError(_refusal(what, name, names))


def check_values(values: Mapping[str, Any], rules: Mapping[str, tuple[str, tuple[Any, ...], float | None]]) -> None:
    """Refuse a value of another type, a number that is too small, and a word that is no choice.

    The message has the type of the value and not the value, which may be a secret; a word that is no choice is shown.

    Args:
        values: by name.
        rules: name → what it is in words, the types or the words that are allowed, the least number (``None`` for no
            bound).

    Raises:
        TypeError: a value has another type.
        ValueError: a number is too small, or a word is none of the choices.
    """
    for name, (words, allowed, least) in rules.items():
        value = values[name]
        if isinstance(allowed[0], str):
            if value not in allowed:
                raise ValueError(f"{name} is {words}, not {value!r}")
        elif not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            raise TypeError(f"{name} is {words}, not {type(value).__name__}")
        elif least is not None and value is not None and value < least:
            raise ValueError(f"{name} is at least {least:g}")


def explains_arguments(what: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a decorator: a call that does not fit the function's signature fails in words of ``what``.

    For constructors and other functions that are called seldom: it costs a frame.

    Args:
        what: the public name, as its user writes it; ``None`` takes the class that is being made.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                trace = error.__traceback__
                if trace is None or trace.tb_next is not None:  # raised inside the function
                    raise
                explanation = _explain(what or type(args[0]).__name__, function, args, kwargs)
                if explanation is None:
                    raise
                raise TypeError(explanation) from None

        return call

    return decorate


def _explain(what: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str | None:
    from inspect import Parameter, signature

    parameters = list(signature(function).parameters.values())
    if parameters and parameters[0].name == "self":
        parameters, args = parameters[1:], args[1:]
    names = [each.name for each in parameters]
    for name in kwargs:
        if name not in names:
            return _refusal(what, name, names)
    by_position = [each.name for each in parameters if each.kind is not Parameter.KEYWORD_ONLY]
    by_name = [f"{each.name}=" for each in parameters if each.kind is Parameter.KEYWORD_ONLY]
    if len(args) <= len(by_position):
        return None
    return f"{what} takes {', '.join(by_position) or 'nothing'} by position; name the rest: {', '.join(by_name)}"


def _refusal(what: str, name: str, names: Iterable[str]) -> str:
    close = suggestion(name, names)
    hint = f"did you mean {close!r}?" if close else f"there are {', '.join(names)}"
    return f"{what} has no option {name!r}; {hint}"
