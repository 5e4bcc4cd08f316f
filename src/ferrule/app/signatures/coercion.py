"""Arguments that the fast path refused: converted again one by one, repaired or described.

These repairs are made, always to the declared type and never to text:

* JSON text where a list, dict, model, number, boolean or null is declared and text is not: ``"[1, 2]"``, ``"5"``,
  ``"true"`` (models often send them so). The text must be one whole JSON value; ``"5 apples"`` and ``"True"`` are
  refused. Where the type accepts text, alone or in a union, the text stays exactly as it came.
* A number with a zero fraction where an integer is declared: ``3.0`` is an integer in JSON Schema.
* ``null`` for a parameter that has a default and whose type forbids ``null``: it counts as left out.

The description is for a model: each problem with its path, the expected type and the type that was sent, and then the
existing parameters. It does not contain values, since the text may be logged.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ferrule._options import suggestion
from ferrule.app.errors import SignatureError
from ferrule.app.signatures.shapes import FieldShape, Shape, flat_members, json_kind, kinds_of, native, split_path
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.json_types import is_array, is_object
from ferrule.wire.patterns import pattern

if TYPE_CHECKING:
    from ferrule.app.signatures.function import FunctionSpec

__all__ = ["ArgumentProblem", "InvalidArguments", "bind_slowly", "lenient"]

_MAX_PROBLEMS = 20
_MAX_NAME_CHARS = 60
_MAX_PARTS = 2_000
"""Maximum number of parts of one argument that are converted separately to find its problems."""
_MAX_WORK = 100_000
"""Maximum number of values in these parts; a value counts again in each part that it is inside."""
_CHARS_PER_VALUE = 64
"""So many characters of text count as one value: it may be the JSON text of many."""

_GOT = pattern(r"^Expected `(?P<expected>[^`]*)`(?P<rest>.*), got `(?P<got>[^`]*)`$", re.DOTALL)
_EXAMPLES = {
    "RFC3339 encoded datetime": "expected a date and a time, such as `2026-07-28T09:30:00Z`",
    "RFC3339 encoded date": "expected a date, such as `2026-07-28`",
    "RFC3339 encoded time": "expected a time, such as `09:30:00Z`",
    "ISO8601 duration": "expected a duration, such as `PT1H30M`",
    "Invalid UUID": "expected a UUID, such as `123e4567-e89b-12d3-a456-426614174000`",
}
"""Descriptions of text formats by the name that msgspec has for them in its errors."""
_PROBLEM = pattern(r"(?:^|; )`([^`]*)`: ")
_WORDS = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}


class ArgumentProblem(msgspec.Struct, frozen=True):
    """One problem of arguments.

    Attributes:
        path: the path of the value, such as ``days`` or ``options.tags[0]``.
        reason: the problem, described for a model.
    """

    path: str
    reason: str


class InvalidArguments(FerruleError, ValueError):
    """Arguments do not fit a function's parameters (the caller's fault).

    Attributes:
        problems: the problems with their paths.
        parameters: one line with the existing parameters.
    """

    def __init__(self, problems: list[ArgumentProblem], parameters: str) -> None:
        self.problems = problems
        self.parameters = parameters
        lines = [f"- `{problem.path}`: {problem.reason}" for problem in problems]
        super().__init__("\n".join([*lines, f"Parameters: {parameters}"]))


def bind_slowly(spec: FunctionSpec, arguments: Any) -> dict[str, Any]:
    """Return the keyword arguments for a function, converted parameter by parameter.

    Raises:
        InvalidArguments: arguments do not fit; with all problems, at most 20.
    """
    if not isinstance(arguments, Mapping):
        raise InvalidArguments([ArgumentProblem("arguments", "expected object")], spec.parameters_text())
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
                    problems += _Search(_MAX_PROBLEMS - len(problems)).run(part, given[part.name], error)
            except RecursionError:
                problems.append(ArgumentProblem(part.name, "nested too deeply"))
        elif part.required:
            problems.append(ArgumentProblem(part.name, f"required, send {_kind_of(part.shape)}"))
        else:
            kwargs[part.name] = part.default
    names = {part.name for part in spec.parameters}
    for name in given:
        if name in names:
            continue
        if spec.takes_keywords and name not in spec.injected:
            kwargs[name] = given[name]
            continue
        if len(problems) >= _MAX_PROBLEMS:  # a peer chooses how many there are; only these are shown
            break
        problems.append(_unknown(name, names))
    if problems:
        raise InvalidArguments(problems[:_MAX_PROBLEMS], spec.parameters_text())
    return kwargs


def lenient(value: Any, shape: Shape) -> Any:
    """Return ``value`` converted to ``shape``, with the repairs that the module's docstring lists.

    All parts are repaired in one pass; the time grows linearly with the size of the value.

    Raises:
        msgspec.ValidationError: the value does not fit, even repaired.
        RecursionError: it is nested too deeply.
        SignatureError: the type cannot be converted (the author's mistake).
    """
    try:
        return native(value, shape)
    except msgspec.ValidationError as error:
        first = error
    except TypeError as error:
        raise SignatureError(str(error)) from error
    repaired = _repair(value, shape)
    if repaired is value:
        raise first
    try:
        return native(repaired, shape)
    except msgspec.ValidationError as error:
        # The first error describes the sent value; the second applies if the repair has solved the first.
        raise (first if _is_inside(first, error) else error) from None


def _is_inside(first: msgspec.ValidationError, second: msgspec.ValidationError) -> bool:
    """Return whether the path of the second error is inside that of the first: a part of text that was decoded here."""
    sent, found = split_path(str(first))[1], split_path(str(second))[1]
    return found.startswith(sent)


def _repair(value: Any, shape: Shape) -> Any:
    """Return ``value`` with its parts repaired that do not fit ``shape``; ``value`` itself if there are none."""
    if isinstance(value, str):
        return _from_text(value, shape)
    if isinstance(value, float):
        return int(value) if value.is_integer() and _is_integer_shape(shape) else value
    if not (is_array(value) or is_object(value)):
        return value  # truth values, whole numbers and null have no parts
    if shape.kind == "union":
        member = _member_for(value, shape)
        return value if member is None else _repair(value, member)
    if is_array(value):
        return _repair_array(value, shape)
    return _repair_object(value, shape) if is_object(value) else value


def _from_text(value: str, shape: Shape) -> Any:
    """Return the decoded value of JSON text, if the type accepts no text; ``value`` itself otherwise."""
    kinds = kinds_of(shape)
    if "str" in kinds or "any" in kinds or shape.kind == "custom":  # pydantic converts text itself
        return value
    try:
        made = decode(value)
    except DecodeError:
        return value
    return value if isinstance(made, str) else _repair(made, shape)


def _is_integer_shape(shape: Shape) -> bool:
    kinds = kinds_of(shape)
    return "int" in kinds and "float" not in kinds and "any" not in kinds


def _member_for(value: Any, shape: Shape) -> Shape | None:
    """Return the member of a union for a container.

    Of several classes it is the one with most of its names, of several arrays the first that most items fit.
    """
    kind = json_kind(value)
    fitting = [member for member in flat_members(shape) if kind in kinds_of(member) and member.kind != "custom"]
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    if kind == "array":
        return max(fitting, key=lambda member: _fitting_items(value, member))
    names = cast("dict[str, Any]", value).keys()
    return max(fitting, key=lambda member: len(names & {field.wire_name for field in member.fields}))


def _fitting_items(value: list[Any], shape: Shape) -> int:
    """Return how many items of an array are of a kind that their place accepts, whole numbers as integers too."""
    if shape.kind == "array":
        pairs = [(item, shape.items[0]) for item in value]
    else:
        parts = [field.shape for field in shape.fields] if shape.is_array else shape.items
        pairs = list(zip(value, parts, strict=False))
    return sum(
        not {"any", json_kind(item)}.isdisjoint(kinds := kinds_of(part))
        or (isinstance(item, float) and item.is_integer() and "int" in kinds)
        for item, part in pairs
    )


def _repair_array(value: list[Any], shape: Shape) -> Any:
    if shape.kind == "array":
        made = [_repair(item, shape.items[0]) for item in value]
    elif shape.kind == "tuple" or shape.is_array:
        parts = [field.shape for field in shape.fields] if shape.is_array else shape.items
        made = [_repair(item, part) for item, part in zip(value, parts, strict=False)]
        made += value[len(parts) :]
    else:
        return value
    return made if any(new is not old for new, old in zip(made, value, strict=True)) else value


def _repair_object(value: dict[str, Any], shape: Shape) -> Any:
    if shape.kind == "map":
        parts = dict.fromkeys(value, shape.items[1])
    elif shape.kind == "object":
        parts = {field.wire_name: field.shape for field in shape.fields}
    else:
        return value
    made = {name: _repair(part, parts[name]) if name in parts else part for name, part in value.items()}
    return made if any(made[name] is not part for name, part in value.items()) else value


# -- words -------------------------------------------------------------------------------------------------------------


def _problem(path: str, error: msgspec.ValidationError) -> ArgumentProblem:
    reason, inner = split_path(str(error))
    return ArgumentProblem(path + inner, say(reason))


def _split(path: str, error: msgspec.ValidationError) -> list[ArgumentProblem]:
    """Return the problems that a library such as pydantic found in its class; its adapter joins them in one text."""
    reason, inner = split_path(str(error))
    parts = _PROBLEM.split(reason)[1:]
    places = [place if place.startswith("[") else f".{place}" for place in parts[::2]]
    return [ArgumentProblem(path + inner + place, say(each)) for place, each in zip(places, parts[1::2], strict=True)]


class _Search:
    """Finds all parts of one argument that do not fit; a conversion reports the first only.

    Args:
        most: maximum number of problems. A peer decides how many problems and parts there are, how large the parts are
            and how deep, so all of it is bounded.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._parts_left = _MAX_PARTS
        self._work_left = _MAX_WORK
        self._found: list[ArgumentProblem] = []

    def run(self, part: FieldShape, value: Any, error: msgspec.ValidationError) -> list[ArgumentProblem]:
        """Return the problems inside an argument that was refused with ``error``; that one only, if there are none."""
        first = _problem(part.name, error)
        with suppress(RecursionError):  # deeper in calls than the conversion; the first problem is known
            self._inspect(part.name, value, part.shape, error)
        place = first.path.partition("[...]")[0]  # what a conversion says of every key
        return self._found if any(each.path.startswith(place) for each in self._found) else [first, *self._found[:-1]]

    def _inspect(self, path: str, value: Any, shape: Shape, error: msgspec.ValidationError) -> None:
        before = len(self._found)
        is_inside = bool(split_path(str(error))[1])
        if isinstance(value, str) and is_inside:
            value = _from_text(value, shape)
        if shape.kind == "union" and is_inside:
            shape = _member_for(value, shape) or shape
        if is_object(value) and shape.kind == "object":
            self._look_at_fields(path, value, shape)
        elif is_object(value) and shape.kind == "map":
            for key, item in value.items():
                if self._is_over:
                    break
                self._try(f"{path}[{_shown(str(key))!r}]", item, shape.items[1])
        elif is_array(value) and (shape.kind in ("array", "tuple") or shape.is_array):
            parts = [field.shape for field in shape.fields] if shape.is_array else shape.items
            for at, item in enumerate(value):
                if self._is_over or (shape.kind != "array" and at >= len(parts)):
                    break
                self._try(f"{path}[{at}]", item, parts[0 if shape.kind == "array" else at])
        elif shape.kind == "custom":
            self._found += _split(path, error)[: self._most - len(self._found)]
        if len(self._found) == before and len(self._found) < self._most:
            self._found.append(_problem(path, error))

    def _look_at_fields(self, path: str, value: dict[str, Any], shape: Shape) -> None:
        for field in shape.fields:
            if field.wire_name in value:
                self._try(f"{path}.{field.wire_name}", value[field.wire_name], field.shape)
            elif field.required and len(self._found) < self._most:
                self._found.append(
                    ArgumentProblem(f"{path}.{field.wire_name}", f"required, send {_kind_of(field.shape)}")
                )
        if shape.is_closed:
            names = {field.wire_name for field in shape.fields}
            for name in value:
                if name not in names and len(self._found) < self._most:
                    problem = _unknown(name, names)
                    self._found.append(ArgumentProblem(f"{path}.{problem.path}", problem.reason))

    @property
    def _is_over(self) -> bool:
        return self._parts_left <= 0 or self._work_left <= 0 or len(self._found) >= self._most

    def _try(self, path: str, value: Any, shape: Shape) -> None:
        if self._is_over:
            return
        self._parts_left -= 1
        self._work_left -= _work_of(value, self._work_left)
        if self._work_left <= 0:
            return
        try:
            lenient(value, shape)
        except msgspec.ValidationError as error:
            self._inspect(path, value, shape, error)


def _work_of(value: Any, most: int) -> int:
    """Return the number of values in a value, which is itself one of them; ``most`` if there are more."""
    count = 0
    todo: list[Any] = [value]
    while todo and count < most:
        part = todo.pop()
        count += 1
        if isinstance(part, str):
            count += len(part) // _CHARS_PER_VALUE
        elif is_array(part):
            todo += part[:most]
        elif is_object(part):
            todo += part.values()
    return min(count + len(todo), most)


def say(reason: str) -> str:
    """Return the reason of a conversion's error with the type names of JSON Schema."""
    for encoded, example in _EXAMPLES.items():
        if encoded in reason:
            return example
    found = _GOT.match(reason)
    if found is not None:
        expected = " or ".join(_WORDS.get(word, word) for word in found["expected"].split(" | "))
        return f"expected {expected}{found['rest']}, got {_WORDS.get(found['got'], found['got'])}"
    if reason.startswith("Invalid enum value"):
        return "not one of the allowed values"
    reason = re.sub(r"`(str|int|float|bool)`", lambda word: _WORDS[word[1]], reason)
    return reason[:1].lower() + reason[1:]


def _shown(name: str) -> str:
    return name if len(name) <= _MAX_NAME_CHARS else name[:_MAX_NAME_CHARS] + "…"


def _unknown(name: str, names: set[str]) -> ArgumentProblem:
    shown = _shown(name)
    near = suggestion(name[:_MAX_NAME_CHARS], names)
    hint = f", did you mean `{near}`?" if near else ""
    return ArgumentProblem(shown, f"there is no such parameter{hint}")


def _kind_of(shape: Shape) -> str:
    """Return the type of a parameter's schema in a word or two."""
    from ferrule.app.signatures.json_schema import exact_schema

    made = exact_schema(shape)
    return _in_a_word(made, made.get("$defs", {}))


def _in_a_word(schema: dict[str, Any], defs: dict[str, Any], *, depth: int = 0) -> str:
    if depth > 20:
        return "any value"
    if isinstance(ref := schema.get("$ref"), str):
        return _in_a_word(defs.get(ref.rpartition("/")[2], {}), defs, depth=depth + 1)
    if "enum" in schema or "const" in schema:
        values: list[Any] = schema.get("enum", [schema.get("const")])
        return "one of " + ", ".join(msgspec.json.encode(value).decode() for value in values[:12])
    parts: list[dict[str, Any]] = schema.get("anyOf", schema.get("oneOf", []))
    if parts:
        return " or ".join(dict.fromkeys(_in_a_word(part, defs, depth=depth + 1) for part in parts))
    words: str | list[str] = schema.get("type", "any value")
    word = words if isinstance(words, str) else " or ".join(words)
    return f"{word} ({schema['format']})" if "format" in schema else word


def describe(parameters: list[FieldShape]) -> str:
    """``city (string, required), days (integer)``; ``none`` when there are none."""
    return (
        ", ".join(f"{part.name} ({_kind_of(part.shape)}{', required' if part.required else ''})" for part in parameters)
        or "none"
    )
