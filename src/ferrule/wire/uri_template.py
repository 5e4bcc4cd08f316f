"""URI templates (RFC 6570, levels 1 to 4): from variables to a URI, and back.

Expansion is the RFC. Matching is ours, because the RFC defines none: `UriTemplate.match` finds values which the
template could have expanded to the URI, and reads a little more than expansion writes (unescaped ``@``, ``:``, ``,``
and letters outside ASCII, query parameters in any order), since people type URIs by hand.

Two rules that a newcomer would break:

* A variable of a simple expression ``{x}`` never takes a raw ``/``, ``?`` or ``#``. An escaped slash is decoded like
  every escape, once, so a value may hold ``/`` or ``..`` all the same: code that opens a file with it must check it.
* A URI comes from a peer, so no backtracking: a template compiles to an automaton, which states can still reach the
  end is computed backwards over the URI, and a walk forwards then never guesses. Time is states x length, and since a
  template may come from a peer, too, each of the three is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeAlias, TypeGuard

from msgspec import Struct

from ferrule.wire.faults import EncodeError, FerruleError
from ferrule.wire.json_types import is_mapping
from ferrule.wire.patterns import pattern

__all__ = [
    "MAX_STATES",
    "MAX_STEPS",
    "MAX_URI_CHARS",
    "MAX_VARIABLES",
    "MatchedValue",
    "UriTemplate",
    "UriTemplateError",
    "first_match",
    "normal_uri",
]

MAX_URI_CHARS: Final = 8192
"""A longer URI matches no template."""
MAX_VARIABLES: Final = 100
"""A template with more variables is refused."""
MAX_STATES: Final = 4000
"""A template that needs more states to match is refused: a character of fixed text is one, a variable about fifteen."""
MAX_STEPS: Final = 2_000_000
"""States times characters of one match, about 0.2 s; a URI that would take more does not match. A template of 240
states reads URIs of `MAX_URI_CHARS`."""

_SHOWN_CHARS: Final = 500

MatchedValue: TypeAlias = str | list[str] | dict[str, str]
"""Text; a list for an exploded variable; a dict for an exploded one of ``;``, ``?`` or ``&`` with names not its own."""


class UriTemplateError(FerruleError, ValueError):
    """A template is malformed or too large (its author's fault).

    Attributes:
        template: the template as given.
        reason: what is wrong.
        position: where the offending expression or brace starts, in characters from 0.
    """

    def __init__(self, template: str, reason: str, position: int) -> None:
        shown = template if len(template) <= _SHOWN_CHARS else template[:_SHOWN_CHARS] + "…"
        super().__init__(f"Malformed URI template {shown!r}: {reason} at character {position}")
        self.template = template
        self.reason = reason
        self.position = position


class _Operator(Struct, frozen=True):
    """One row of the table in RFC 6570, appendix A, and what a raw character of a matched value may not be."""

    first: str
    sep: str
    named: bool
    if_empty: str
    allows_reserved: bool
    stops: str


_OPERATORS: dict[str, _Operator] = {
    "": _Operator("", ",", False, "", False, "/?#"),
    "+": _Operator("", ",", False, "", True, ""),
    "#": _Operator("#", ",", False, "", True, ""),
    ".": _Operator(".", ".", False, "", False, "/?#"),
    "/": _Operator("/", "/", False, "", False, "/?#"),
    ";": _Operator(";", ";", True, "", False, "/?#;"),
    "?": _Operator("?", "&", True, "=", False, "#&"),
    "&": _Operator("&", "&", True, "=", False, "#&"),
}

_SPEC = pattern(r"(?P<name>(?:\w|%[0-9A-Fa-f]{2})+(?:\.(?:\w|%[0-9A-Fa-f]{2})+)*)(?P<mod>\*|:[1-9]\d{0,3})?", re.ASCII)
_TOKEN = pattern(r"%[0-9A-Fa-f]{2}|.", re.DOTALL)
_ESCAPES = pattern(r"(?:%[0-9A-Fa-f]{2})+")
_ALL_UNRESERVED = pattern(r"[A-Za-z0-9\-._~]*")
_ALL_RESERVED = pattern(r"[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]*")
_LONE_PERCENT = pattern(r"%(?![0-9A-Fa-f]{2})")


class _Variable(Struct, frozen=True):
    name: str
    explode: bool
    prefix: int | None


class _Expression(Struct, frozen=True):
    operator: _Operator
    variables: tuple[_Variable, ...]


_Part: TypeAlias = str | _Expression


class UriTemplate:
    """A parsed template.

    Attributes:
        text: the template as given; two templates are equal if their texts are.
        variables: the names of its variables in order of first appearance.

    Raises:
        UriTemplateError: the text is malformed, or larger than `MAX_VARIABLES` and `MAX_STATES` allow.
    """

    __slots__ = ("_captures", "_parts", "_query", "_run", "_size", "text", "variables")

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > 2 * MAX_URI_CHARS:
            raise UriTemplateError(text, f"it is longer than {2 * MAX_URI_CHARS} characters", 0)
        self._parts = _parse(text)
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        self.variables = tuple(dict.fromkeys(each.name for part in expressions for each in part.variables))
        if sum(len(part.variables) for part in expressions) > MAX_VARIABLES:
            raise UriTemplateError(text, f"there are more than {MAX_VARIABLES} variables", 0)
        path, self._query = _split_query(self._parts)
        matcher = _plain_matcher(path) or _Automaton(path)
        if matcher.size > MAX_STATES:
            raise UriTemplateError(text, f"it needs more than {MAX_STATES} states to match", 0)
        self._run, self._captures, self._size = matcher.run, matcher.captures, matcher.size

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UriTemplate) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def exploded(self) -> set[str]:
        """Return the names whose values are lists or mappings: ``{name*}``."""
        expressions = [part for part in self._parts if isinstance(part, _Expression)]
        return {each.name for part in expressions for each in part.variables if each.explode}

    def never_filled(self) -> list[tuple[str, str]]:
        """Variables that no URI can fill when it is matched, each with the one before it that takes everything."""
        found: list[tuple[str, str]] = []
        for before, after in pairwise(self._parts):
            if isinstance(before, str) or isinstance(after, str):
                continue
            first, last = after.operator.first, before.variables[-1]
            if not first or first not in before.operator.stops:
                found += [(each.name, last.name) for each in after.variables]
        return found

    def expand(self, variables: Mapping[str, Any] | None = None, /, **more: Any) -> str:
        """Return the URI for these variables.

        Args:
            variables: name to text, number, boolean, list or mapping of those. ``None`` and a missing name leave the
                variable out, and so do an empty list and an empty mapping. Names without a place are ignored.
            more: the same; wins over ``variables``.

        Raises:
            EncodeError: a value of another type, or a list or mapping where the template takes a prefix (the
                caller's mistake).
        """
        values = {**variables, **more} if variables else more
        return "".join(_escape(part, True) if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def steps(self, uri: str) -> int:
        """About how much work `match` does for a URI: states times characters."""
        return self._size * len(uri)

    def match(self, uri: str) -> dict[str, MatchedValue] | None:
        """Return the variables for which this template expands to ``uri``; ``None`` if there are none.

        Escapes are decoded once. A variable that the URI leaves out is absent; one that it gives as empty is ``""``.
        A variable that stands twice must have one value. Where several readings are possible the earlier variable
        takes as much as it can. Never raises for any text. ``None``, too, beyond `MAX_URI_CHARS` and `MAX_STEPS`.
        """
        if len(uri) > MAX_URI_CHARS or self.steps(uri) > MAX_STEPS:
            return None
        pairs: list[tuple[_Capture, str]] | None = []
        if self._query is not None:
            uri, mark, query = uri.partition("?")
            pairs = _read_query(self._query, query) if mark else []
        raw = None if pairs is None else self._run(uri)
        if raw is None or pairs is None:
            return None
        return _gather([*zip(self._captures, raw, strict=True), *pairs])


def first_match(templates: Iterable[UriTemplate], uri: str) -> tuple[UriTemplate, dict[str, MatchedValue]] | None:
    """Return the first of several templates that matches a URI, and the variables; ``None`` where none does.

    For templates that others wrote: all together get four times `MAX_STEPS`, and those after that are not tried.
    """
    left = 4 * MAX_STEPS
    for template in templates:
        left -= template.steps(uri)
        if left < 0:
            return None
        values = template.match(uri)
        if values is not None:
            return template, values
    return None


# --- the template -----------------------------------------------------------------------------------------------------


def _parse(text: str) -> list[_Part]:
    parts: list[_Part] = []
    at = 0
    while at < len(text):
        opening, closing = text.find("{", at), text.find("}", at)
        if closing != -1 and (opening == -1 or closing < opening):
            raise UriTemplateError(text, "a brace is closed that was not opened", closing)
        if opening == -1:
            parts.append(text[at:])
            break
        if opening > at:
            parts.append(text[at:opening])
        if closing == -1:
            raise UriTemplateError(text, "an expression is not closed", opening)
        parts.append(_parse_expression(text, opening, closing))
        at = closing + 1
    return parts


def _parse_expression(text: str, opening: int, closing: int) -> _Expression:
    inside = text[opening + 1 : closing]
    if not inside:
        raise UriTemplateError(text, "an expression is empty", opening)
    symbol = inside[0] if inside[0] in _OPERATORS else ""
    if not symbol and inside[0] in "=,!@|":
        raise UriTemplateError(text, f"the operator {inside[0]!r} is reserved", opening)
    variables: list[_Variable] = []
    for spec in inside[len(symbol) :].split(","):
        found = _SPEC.fullmatch(spec)
        if found is None:
            raise UriTemplateError(text, f"{spec!r} is not a variable", opening)
        modifier = found["mod"] or ""
        prefix = int(modifier[1:]) if modifier.startswith(":") else None
        variables.append(_Variable(found["name"], modifier == "*", prefix))
    return _Expression(_OPERATORS[symbol], tuple(variables))


# --- expansion --------------------------------------------------------------------------------------------------------


def _expand(expression: _Expression, values: Mapping[str, Any]) -> str:
    operator = expression.operator
    pieces: list[str] = []
    for variable in expression.variables:
        value = values.get(variable.name)
        if is_mapping(value):
            pairs = [(_text(variable, key), _text(variable, item)) for key, item in value.items() if item is not None]
            if pairs:
                pieces += _expand_pairs(operator, variable, pairs)
        elif _is_list(value):
            items = [_text(variable, item) for item in value if item is not None]
            if items:
                pieces += _expand_items(operator, variable, items)
        elif value is not None:
            text = _text(variable, value)[: variable.prefix]
            pieces.append(_named(operator, variable.name, _escape(text, operator.allows_reserved)))
    return operator.first + operator.sep.join(pieces) if pieces else ""


def _expand_pairs(operator: _Operator, variable: _Variable, pairs: list[tuple[str, str]]) -> list[str]:
    _refuse_prefix(variable)
    escaped = [(_escape(k, operator.allows_reserved), _escape(v, operator.allows_reserved)) for k, v in pairs]
    if variable.explode:
        return [f"{k}{'=' if v or not operator.named else operator.if_empty}{v}" for k, v in escaped]
    return [_named(operator, variable.name, ",".join(part for pair in escaped for part in pair))]


def _expand_items(operator: _Operator, variable: _Variable, items: list[str]) -> list[str]:
    _refuse_prefix(variable)
    escaped = [_escape(item, operator.allows_reserved) for item in items]
    if variable.explode:
        return [_named(operator, variable.name, item) for item in escaped]
    return [_named(operator, variable.name, ",".join(escaped))]


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:  # any sequence of the program, as RFC 6570 has lists
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _named(operator: _Operator, name: str, escaped: str) -> str:
    if not operator.named:
        return escaped
    return f"{name}={escaped}" if escaped else name + operator.if_empty


def _refuse_prefix(variable: _Variable) -> None:
    if variable.prefix is not None:
        raise EncodeError(f"Variable {variable.name!r} of the URI template has a prefix, so it must be text")


def _text(variable: _Variable, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    kind = type(value).__name__
    raise EncodeError(f"Variable {variable.name!r} of the URI template cannot be of type {kind}")


def _kept(chars: str) -> tuple[str, ...]:
    """Return what stands for each byte: itself for these characters and for unreserved ones, an escape for others."""
    alike = f"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~{chars}".encode()
    return tuple(chr(byte) if byte in alike else f"%{byte:02X}" for byte in range(256))


_OF_BYTES: Final = _kept("")
_OF_BYTES_OR_RESERVED: Final = _kept(":/?#[]@!$&'()*+,;=%")


def _escape(text: str, allows_reserved: bool) -> str:
    if (_ALL_RESERVED if allows_reserved else _ALL_UNRESERVED).fullmatch(text):
        return text
    # A lone surrogate becomes U+FFFD, as everywhere on the wire.
    raw = text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    # By a table, and not by a function that a pattern calls: a peer may choose the text.
    made = "".join(map((_OF_BYTES_OR_RESERVED if allows_reserved else _OF_BYTES).__getitem__, raw.encode()))
    return _LONE_PERCENT.sub("%25", made) if allows_reserved else made


_NOT_NORMAL_ESCAPE = pattern(
    r"%(2[DEde]|3[0-9]|4[1-9A-Fa-f]|5[0-9AFaf]|6[1-9A-Fa-f]|7[0-9AEae])|%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f])"
)
"""An escape of what need not be escaped (the group), or one that is not in upper case."""


def normal_uri(uri: str) -> str:
    """Return the one form of a URI that people and programs spell in several ways.

    Letters outside ASCII, spaces and what else a URI cannot hold are escaped, escapes are in upper case, and what need
    not be escaped is not (RFC 3986, 6.2.2; RFC 3987, 3.1). Equal forms mean the same resource. A URI of more than
    `MAX_URI_CHARS` is returned as it is, since a peer decides how long one is.
    """
    if len(uri) > MAX_URI_CHARS or _ALL_RESERVED.fullmatch(uri):
        return uri
    return _NOT_NORMAL_ESCAPE.sub(_normal_escape, _escape(uri, True))


def _normal_escape(found: re.Match[str]) -> str:
    return found[0].upper() if found[1] is None else chr(int(found[1], 16))


# --- matching ---------------------------------------------------------------------------------------------------------


class _Capture(Struct, frozen=True):
    """Where a piece of the URI comes from, which says how to read it."""

    variable: _Variable
    operator: _Operator


def _split_query(parts: list[_Part]) -> tuple[list[_Part], tuple[_Variable, ...] | None]:
    """Take ``{?...}{&...}`` off the end, to be read in any order; ``None`` where the order must count.

    It must where something before it could hold a ``?`` of its own.
    """
    for at, part in enumerate(parts):
        if isinstance(part, str):
            if "?" in part or "#" in part:
                break
        elif part.operator is _OPERATORS["?"]:
            expressions = [each for each in parts[at:] if isinstance(each, _Expression)]
            if len(expressions) < len(parts) - at or any(e.operator is not _OPERATORS["&"] for e in expressions[1:]):
                break
            return parts[:at], tuple(variable for each in expressions for variable in each.variables)
        elif part.operator.allows_reserved:
            break
    return parts, None


def _read_query(variables: tuple[_Variable, ...], query: str) -> list[tuple[_Capture, str]] | None:
    """Return the raw values in a query string; ``None`` if it has a parameter too many, or one twice."""
    if "#" in query:
        return None
    named = {variable.name: variable for variable in variables}
    open_ended = next((variable for variable in variables if variable.explode), None)
    groups: dict[_Variable, list[str]] = {}
    for pair in query.split("&"):
        name, equals, value = pair.partition("=")
        variable = named.get(name, open_ended)
        if variable is None or (variable in groups and not variable.explode):
            return None
        groups.setdefault(variable, []).append(pair if variable.explode else equals + value)
    return [(_Capture(variable, _OPERATORS["?"]), "&".join(group)) for variable, group in groups.items()]


def _gather(found: list[tuple[_Capture, str | None]]) -> dict[str, MatchedValue] | None:
    """Return the decoded values by name; ``None`` if they contradict one another or hold escapes that are not UTF-8."""
    values: dict[str, MatchedValue] = {}
    prefixes: list[tuple[str, str]] = []
    for capture, raw in found:
        if raw is None:
            continue
        variable = capture.variable
        try:
            value = _read(capture, raw)
        except UnicodeDecodeError:
            return None
        if value is None:
            continue
        if variable.prefix is not None and isinstance(value, str):
            if len(value) > variable.prefix:
                return None
            prefixes.append((variable.name, value))
        elif values.setdefault(variable.name, value) != value:
            return None
    for name, prefix in prefixes:
        whole = values.setdefault(name, prefix)
        if not isinstance(whole, str) or not whole.startswith(prefix):
            return None
    return values


def _read(capture: _Capture, raw: str) -> MatchedValue | None:
    """Return the value of one piece of the URI; ``None`` if the piece means that the variable is left out."""
    operator, variable = capture.operator, capture.variable
    if not variable.explode:
        return _unescape(raw[1:] if operator.named else raw)
    if not raw and not operator.first:
        return None
    items = raw.split(operator.sep)
    if not operator.named:
        return [_unescape(item) for item in items]
    pairs = [(_unescape(name), _unescape(value)) for name, _, value in (item.partition("=") for item in items)]
    if all(name == variable.name for name, _ in pairs):
        return [value for _, value in pairs]
    return dict(pairs)


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    return _ESCAPES.sub(lambda found: bytes.fromhex(found[0].replace("%", "")).decode(), text)


class _PlainMatcher:
    """What nearly all templates are, ``{x}`` between slashes and ``{+x}`` at the end, as a regular expression."""

    def __init__(self, pattern: str, captures: list[_Capture]) -> None:
        self._pattern = re.compile(pattern, re.DOTALL)
        self.captures = captures
        self.size = 1

    def run(self, uri: str) -> list[str | None] | None:
        found = self._pattern.fullmatch(uri)
        return None if found is None else list(found.groups())


def _plain_matcher(parts: list[_Part]) -> _PlainMatcher | None:
    """Return a matcher for plain templates; ``None`` for all others.

    Each variable must be followed by a character that it cannot take, or by the end: then its possessive loop cannot
    cut off a match, and there is nothing to try twice.
    """
    pattern, captures = "", list[_Capture]()
    for at, part in enumerate(parts):
        if isinstance(part, str):
            if "%" in part or _escape(part, True) != part:
                return None
            pattern += re.escape(part)
            continue
        operator, variable = part.operator, part.variables[0]
        following = parts[at + 1] if at + 1 < len(parts) else "/"
        if len(part.variables) > 1 or variable.explode:
            return None
        if operator is _OPERATORS[""] and isinstance(following, str) and following[0] in operator.stops:
            pattern += "([^/?#]*+)"
        elif operator is _OPERATORS["+"] and at + 1 == len(parts):
            pattern += "(.*+)"
        else:
            return None
        captures.append(_Capture(variable, operator))
    return _PlainMatcher(pattern, captures)


_LITERAL, _RUN, _SPLIT, _JUMP, _OPEN, _CLOSE, _END = range(7)


class _Automaton:
    """Every template, as states that take one character or escape at a time.

    A state is ``(kind, argument, argument)``: a literal takes exactly one token, a run takes any number that are not
    in its set of stops, a split has two ways to go on and prefers the first, and open and close mark a capture. All
    ways lead to higher states, so that one pass downwards settles a position.
    """

    def __init__(self, parts: list[_Part]) -> None:
        first = parts[0] if parts and isinstance(parts[0], str) else ""
        # Most URIs are refused by their start; one that needs escapes may be spelt in two ways.
        self._prefix = "" if "%" in first or _escape(first, True) != first else first
        self.captures: list[_Capture] = []
        self._states: list[tuple[int, Any, Any]] = []
        for part in parts:
            if isinstance(part, str):
                self._add_literal(part)
            else:
                self._add_expression(part)
        self._states.append((_END, None, None))
        self.size = len(self._states)
        numbered = list(enumerate(self._states))
        self._literals = [(at, token) for at, (kind, token, _) in numbered if kind == _LITERAL]
        self._others = [(at, *state) for at, state in reversed(numbered) if state[0] != _LITERAL]

    def run(self, uri: str) -> list[str | None] | None:
        """Return the text of each capture, ``None`` for one that was not passed; ``None`` if the URI does not match."""
        if not uri.startswith(self._prefix):
            return None
        tokens = [token.upper() if len(token) > 1 else token for token in _TOKEN.findall(_escape(uri, True))]
        reach = self._reach(tokens)
        return self._walk(tokens, reach) if reach[0][0] else None

    def _reach(self, tokens: list[str]) -> list[bytearray]:
        """For each position the states from which the end can be reached."""
        size = len(self._states)
        following = bytearray(size)
        reach = [following]
        for token in (None, *reversed(tokens)):
            current = bytearray(size)
            for at, wanted in self._literals:
                if wanted == token:
                    current[at] = following[at + 1]
            for at, kind, first, second in self._others:
                if kind == _RUN:
                    current[at] = current[at + 1] or (token is not None and token not in first and following[at])
                elif kind == _SPLIT:
                    current[at] = current[first] or current[second]
                elif kind == _JUMP:
                    current[at] = current[first]
                elif kind == _END:
                    current[at] = token is None
                else:
                    current[at] = current[at + 1]
            reach.append(current)
            following = current
        reach.reverse()
        return reach

    def _walk(self, tokens: list[str], reach: list[bytearray]) -> list[str | None]:
        found: list[str | None] = [None] * len(self.captures)
        state = position = start = 0
        while True:
            kind, first, second = self._states[state]
            if kind == _LITERAL:
                position += 1
                state += 1
            elif kind == _RUN:
                while position < len(tokens) and tokens[position] not in first and reach[position + 1][state]:
                    position += 1
                state += 1
            elif kind == _SPLIT:
                state = first if reach[position][first] else second
            elif kind == _JUMP:
                state = first
            elif kind == _OPEN:
                start = position
                state += 1
            elif kind == _CLOSE:
                found[first] = "".join(tokens[start:position])
                state += 1
            else:
                return found

    def _add_literal(self, text: str) -> None:
        for token in _TOKEN.findall(_escape(text, True)):
            self._states.append((_LITERAL, token.upper() if len(token) > 1 else token, None))

    def _add_expression(self, expression: _Expression) -> None:
        """Each variable twice: as the first one present (after ``first``), and after another one (after ``sep``).

        A path that takes a variable goes on among the copies after ``sep``; one that leaves it out stays where it is.
        """
        states, variables = self._states, expression.variables
        fresh: list[int] = []
        later: list[int] = []
        jumps: list[tuple[int, int]] = []
        for at, variable in enumerate(variables):
            for splits, lead in ((fresh, expression.operator.first), (later, expression.operator.sep)):
                splits.append(len(states))
                if at == 0 and splits is later:
                    continue
                states.append((_SPLIT, None, None))
                self._add_literal(lead)
                self._add_variable(expression, variable)
                jumps.append((len(states), at + 1))
                states.append((_JUMP, None, None))
        end = len(states)
        fresh.append(end)
        later.append(end)
        for at, following in jumps:
            states[at] = (_JUMP, later[following], None)
        for splits in (fresh, later):
            for at, (state, otherwise) in enumerate(pairwise(splits)):
                if at or splits is fresh:
                    states[state] = (_SPLIT, state + 1, otherwise)

    def _add_variable(self, expression: _Expression, variable: _Variable) -> None:
        operator, states = expression.operator, self._states
        stops = set(operator.stops)
        if variable.explode:
            stops.discard(operator.sep)
        elif len(expression.variables) > 1 and not operator.named:
            stops.add(operator.sep)
        if operator.named and not variable.explode:
            self._add_literal(variable.name)
        states.append((_OPEN, None, None))
        if operator.named and not variable.explode:
            states.append((_SPLIT, len(states) + 1, len(states) + 3))
            states.append((_LITERAL, "=", None))
        states.append((_RUN, frozenset(stops), None))
        states.append((_CLOSE, len(self.captures), None))
        self.captures.append(_Capture(variable, operator))
