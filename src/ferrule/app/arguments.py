"""Arguments that the fast path refused: read again one by one, mended where that is unambiguous, explained where not.

What is mended, always by the declared type and never towards text:

* JSON text where a list, dict, model, number, boolean or null is declared and text is not: ``"[1, 2]"``, ``"5"``,
  ``"true"`` (models often send them so). The text must be one whole JSON value; ``"5 apples"`` and ``"True"`` are
  refused. Where the type accepts text, alone or in a union, the text stays exactly as it came.
* A number with a zero fraction where an integer is declared: ``3.0`` is an integer in JSON Schema.
* ``null`` for a parameter that has a default and whose type forbids ``null``: it counts as left out.

What is explained goes to a model: each problem with its path, what was expected and what kind of value came, then the
parameters that exist. Values are not repeated, since a log may keep the text.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ferrule.app.errors import SignatureError
from ferrule.app.guards import is_array, is_object
from ferrule.app.shapes import FieldShape, Shape, native
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError, FerruleError

if TYPE_CHECKING:
    from ferrule.app.signature import FunctionSpec

__all__ = ["ArgumentProblem", "InvalidArguments", "bind_slowly", "lenient"]

_MAX_REPAIRS = 32
_MAX_PROBLEMS = 20
_MAX_NAME_CHARS = 60

_PATH = re.compile(r"^(?P<reason>.*?) - at `\$(?P<path>[^`]*)`(?P<outer>(?: - at `\$[^`]*`)*)$", re.DOTALL)
_OUTER = re.compile(r" - at `\$([^`]*)`")
_GOT = re.compile(r"^Expected `(?P<expected>[^`]*)`(?P<rest>.*), got `(?P<got>[^`]*)`$", re.DOTALL)
_STEPS = re.compile(r"\[(?P<index>\d+)\]|\[\.\.\.\]|\.(?P<name>[^.\[]+)")
_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class ArgumentProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong with arguments.

    Attributes:
        path: where, as ``days`` or ``options.tags[0]``.
        reason: what, in words for a model.
    """

    path: str
    reason: str


class InvalidArguments(FerruleError, ValueError):
    """Arguments do not fit a function's parameters (the caller's fault).

    Attributes:
        problems: each with its path.
        parameters: one line that names what may be sent.
    """

    def __init__(self, problems: list[ArgumentProblem], parameters: str) -> None:
        self.problems = problems
        self.parameters = parameters
        lines = [f"- `{problem.path}`: {problem.reason}" for problem in problems]
        super().__init__("\n".join([*lines, f"Parameters: {parameters}"]))


def bind_slowly(spec: FunctionSpec, arguments: Any) -> dict[str, Any]:
    """As ``spec.bind``, parameter by parameter.

    Raises:
        InvalidArguments: with every problem that was found.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArguments([ArgumentProblem("arguments", "expected object")], describe(spec.parameters))
    given = cast("Mapping[str, Any]", arguments)
    problems: list[ArgumentProblem] = []
    kwargs: dict[str, Any] = {}
    for part in spec.parameters:
        if part.name in given:
            try:
                kwargs[part.name] = lenient(given[part.name], part.shape)
            except msgspec.ValidationError as error:
                if given[part.name] is None and not part.required:
                    kwargs[part.name] = part.default
                else:
                    problems.append(_problem(part, error))
            except RecursionError:
                problems.append(ArgumentProblem(part.name, "nested too deeply"))
        elif part.required:
            problems.append(ArgumentProblem(part.name, f"required, send {_kind_of(part.shape)}"))
        else:
            kwargs[part.name] = part.default
    names = [part.name for part in spec.parameters]
    for name in given:
        if name in names:
            continue
        if spec.takes_keywords and name not in spec.injected:
            kwargs[name] = given[name]
        else:
            problems.append(_unknown(name, names))
    if problems:
        raise InvalidArguments(problems[:_MAX_PROBLEMS], describe(spec.parameters))
    return kwargs


def lenient(value: Any, shape: Shape) -> Any:
    """``value`` as ``shape``, with the repairs that the head of this file lists.

    Raises:
        msgspec.ValidationError: it does not fit, repaired or not; of several failures the first.
    """
    first: msgspec.ValidationError | None = None
    for _ in range(_MAX_REPAIRS):
        try:
            return native(value, shape)
        except msgspec.ValidationError as error:
            first = first or error
            mended, changed = _mend(value, str(error))
            if not changed:
                raise first from None
            value = mended
        except TypeError as error:
            raise SignatureError(str(error)) from error
    raise cast("msgspec.ValidationError", first)


def _mend(value: Any, message: str) -> tuple[Any, bool]:
    reason, path = split_path(message)
    found = _GOT.match(reason)
    if found is None:
        return value, False
    expected = found["expected"].split(" | ")
    if found["got"] == "str" and "str" not in expected:
        return _replace(value, path, _from_text)
    if found["got"] == "float" and "int" in expected:
        return _replace(value, path, _whole)
    return value, False


def _from_text(value: Any) -> tuple[Any, bool]:
    if not isinstance(value, str):
        return value, False
    try:
        made = decode(value)
    except DecodeError:
        return value, False
    return (value, False) if isinstance(made, str) else (made, True)


def _whole(value: Any) -> tuple[Any, bool]:
    return (int(value), True) if isinstance(value, float) and value.is_integer() else (value, False)


def _replace(value: Any, path: str, mend: Callable[[Any], tuple[Any, bool]]) -> tuple[Any, bool]:
    """``value`` with the part at a JSON path mended; what is on the way is copied, never changed."""
    if not path:
        return mend(value)
    step = _STEPS.match(path)
    if step is None:
        return value, False
    rest = path[step.end() :]
    if step["index"] is not None and is_array(value):
        items = list(value)
        index = int(step["index"])
        if index >= len(items):
            return value, False
        items[index], changed = _replace(items[index], rest, mend)
        return items, changed
    if not is_object(value):
        return value, False
    made = dict(value)
    any_changed = False
    for name in [step["name"]] if step["name"] is not None else list(made):  # `[...]`: some value of a dict
        if name in made:
            made[name], changed = _replace(made[name], rest, mend)
            any_changed = any_changed or changed
    return made, any_changed


def split_path(message: str) -> tuple[str, str]:
    """A conversion's message without its path, and the path below ``$``, as ``.tags[0]``."""
    found = _PATH.match(message)
    if found is None:
        return message, ""
    outer = _OUTER.findall(found["outer"])
    return found["reason"], "".join(reversed(outer)) + found["path"]


# -- words -------------------------------------------------------------------------------------------------------------


def _problem(part: FieldShape, error: msgspec.ValidationError) -> ArgumentProblem:
    reason, path = split_path(str(error))
    return ArgumentProblem(part.name + path, say(reason))


def say(reason: str) -> str:
    """A conversion's reason in the words of JSON Schema."""
    found = _GOT.match(reason)
    if found is not None:
        expected = " or ".join(_WORDS.get(word, word) for word in found["expected"].split(" | "))
        return f"expected {expected}{found['rest']}, got {_WORDS.get(found['got'], found['got'])}"
    if reason.startswith("Invalid enum value"):
        return "not one of the allowed values"
    reason = re.sub(r"`(str|int|float|bool)`", lambda word: _WORDS[word[1]], reason)
    return reason[:1].lower() + reason[1:]


def _unknown(name: str, names: list[str]) -> ArgumentProblem:
    shown = name if len(name) <= _MAX_NAME_CHARS else name[:_MAX_NAME_CHARS] + "…"
    near = difflib.get_close_matches(name[:_MAX_NAME_CHARS], names, n=1)
    hint = f", did you mean `{near[0]}`?" if near else ""
    return ArgumentProblem(shown, f"there is no such parameter{hint}")


def _kind_of(shape: Shape) -> str:
    """What a parameter takes, in a word or two."""
    if shape.values:
        values = [getattr(value, "value", value) for value in shape.values]
        return "one of " + ", ".join(msgspec.json.encode(value).decode() for value in values[:12])
    if shape.kind == "union":
        kinds = dict.fromkeys(_kind_of(item) for item in shape.items)
        return " or ".join(kinds)
    if shape.kind in ("array", "tuple"):
        return "array"
    if shape.kind in ("map", "object", "custom"):
        return "object" if shape.kind != "custom" or shape.schema is None else "value"
    schema = shape.schema or {}
    words: str = schema.get("type", "any value")
    return f"{words} ({schema['format']})" if "format" in schema else words


def describe(parameters: list[FieldShape]) -> str:
    """``city (string, required), days (integer)``; ``none`` when there are none."""
    return (
        ", ".join(f"{part.name} ({_kind_of(part.shape)}{', required' if part.required else ''})" for part in parameters)
        or "none"
    )
