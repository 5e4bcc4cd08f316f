"""Estimates the cost of validating a value against a foreign JSON Schema, before the validation.

A schema of one kilobyte can require 2^n evaluations through ``$ref``, and a recursive one as many as its value is deep.
A validator then blocks the process for minutes, or recurses until the stack overflows. `SchemaWork` counts the work of
a validator without doing it: the number of evaluations of subschemas and their greatest depth. Each pair of a subschema
and a part of the value is counted once and remembered, so that the count itself is bounded by the same limit.

Long numbers count for more, and most where they are divided (`ferrule.protocol.number_work`).

The count is the worst case: every branch of ``anyOf`` is tried and every pattern of ``patternProperties`` matches.
This module validates nothing: an unresolvable reference counts as one evaluation, and the validator refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias, cast
from urllib.parse import unquote, urljoin

from ferrule.protocol.number_work import division_work, fraction_bits, is_long, length_work
from ferrule.wire.faults import FerruleError
from ferrule.wire.json_types import is_list

__all__ = [
    "MAX_EVALUATIONS",
    "MAX_EVALUATION_DEPTH",
    "MAX_SCHEMA_PATTERNS",
    "MAX_SCHEMA_VALUES",
    "SchemaTooCostly",
    "SchemaWork",
]

MAX_EVALUATIONS: Final = 20_000_000
"""Maximum number of evaluations of subschemas for one value: about half a second of jsonschema-rs."""
MAX_EVALUATION_DEPTH: Final = 2000
"""Maximum depth of evaluations inside one another. jsonschema-rs recurses: the stack overflows near 10,000, which ends
the process."""
MAX_SCHEMA_VALUES: Final = 100_000
"""Maximum number of JSON values in one schema, including members and entries of its enumerations."""
MAX_SCHEMA_PATTERNS: Final = 200
"""Maximum number of regular expressions in one schema."""

_MAX_COUNTED: Final = 200_000
"""Maximum number of pairs of a subschema and a value that are counted; counting one takes longer than evaluating it."""
_MAX_VALUE_DEPTH: Final = 256
"""Maximum nesting depth of a value; jsonschema-rs refuses deeper ones."""
_MAX_PASSES: Final = 32
_UNEVALUATED_FACTOR: Final = 3
"""Factor of a keyword ``unevaluated…``, which evaluates the other keywords of its schema again (measured: 2.9)."""
_PATTERN_CHARS: Final = 16
"""Characters of text that a regular expression reads in about the time of one evaluation."""
_BACKTRACKS: Final = re.compile(r"\(\?[=!<>]|\\[1-9k]|[*+?}]\+")
_BACKTRACKING_COST: Final = 2000
"""Cost of a regular expression with look-around or back-references, which may backtrack 10,000 times for each text."""
_META_SCHEMAS: Final = ("http://json-schema.org/", "https://json-schema.org/")
_META_SCHEMA_COST: Final = 100

_CONTAINERS: Final = frozenset((dict, list))
_TOO_MANY_PARTS: Final = f"more than {_MAX_COUNTED} of its parts may apply to parts of this value"

_HERE_ONE: Final = ("not", "if", "then", "else")
_HERE_MANY: Final = ("allOf", "anyOf", "oneOf")
_EACH_ITEM: Final = ("contains", "unevaluatedItems", "additionalItems")
_EACH_MEMBER: Final = ("additionalProperties", "unevaluatedProperties")


class SchemaTooCostly(FerruleError, ValueError):
    """Validating against a foreign schema would exceed a limit of this module (the schema author's mistake)."""


class _SchemaNode:
    """One subschema: its own cost, and the subschemas that it applies, with the parts of the value for each."""

    __slots__ = ("cost", "divides", "factor", "here", "items", "members", "named", "names", "patterns", "prefix", "raw")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.raw = raw
        self.cost = 1
        self.patterns = 0
        self.divides = fraction_bits(raw)
        self.factor = 1
        self.here: list[_SchemaNode] = []
        self.named: dict[str, _SchemaNode] = {}
        self.members: list[_SchemaNode] = []
        self.names: list[_SchemaNode] = []
        self.prefix: list[_SchemaNode] = []
        self.items: list[_SchemaNode] = []

    def all(self) -> Iterator[_SchemaNode]:
        for group in (self.here, self.members, self.names, self.prefix, self.items):
            yield from group
        yield from self.named.values()


class SchemaWork:
    """The work of one schema.

    Args:
        schema: a JSON Schema as JSON values; of any draft, keywords of several are counted.

    Raises:
        SchemaTooCostly: it has too many values or patterns, or it applies itself to the same value again, without end.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._nodes: dict[int, _SchemaNode] = {}
        self._index = _Index(schema)
        self._root = self._compile(schema)
        nodes = [*reversed(self._nodes.values())]  # mostly an applied subschema comes before the one that applies it
        _refuse_endless(nodes)
        self._width = _width(self._root, nodes)
        self._chain = _longest_chain(nodes)
        self._has_patterns = any(node.patterns for node in nodes)
        self._divides = max(node.divides for node in nodes)
        self._divisions = _width(self._root, nodes, lambda node: node.divides > 0) if self._divides else 0

    def evaluations(self, value: Any) -> int:
        """Return an upper bound of the evaluations for this value.

        Raises:
            SchemaTooCostly: the value needs more than `MAX_EVALUATIONS`, or a depth above `MAX_EVALUATION_DEPTH`.
        """
        # The cheap bound first: widest part times the number of parts. Most values are far below the limit.
        if self._width:
            size = _size(value, MAX_EVALUATIONS // self._width, self._has_patterns)
            work = self._width * size
            if self._divisions:
                work += self._divisions * division_work(value, self._divides, MAX_EVALUATIONS // self._divisions)
            if work <= MAX_EVALUATIONS and self._chain * min(size, _MAX_VALUE_DEPTH) <= MAX_EVALUATION_DEPTH:
                return work
        return _count(self._root, value)

    # -- from JSON to nodes -----------------------------------------------------------------------------------------

    def _compile(self, root: Any) -> _SchemaNode:
        # With a list and not by recursion: the nesting of a foreign schema must not exhaust Python's stack.
        made = _SchemaNode(root)
        self._nodes[id(root)] = made
        todo = [made]
        while todo:
            node = todo.pop()
            for group, sub in self._applied(node):
                if not isinstance(sub, dict):
                    continue
                known = self._nodes.get(id(cast("Any", sub)))
                if known is None:
                    known = self._nodes[id(cast("Any", sub))] = _SchemaNode(cast("Mapping[str, Any]", sub))
                    todo.append(known)
                if isinstance(group, list):
                    group.append(known)
                else:
                    node.named[group] = known
        return made

    def _applied(self, node: _SchemaNode) -> Iterator[tuple[list[_SchemaNode] | str, Any]]:
        raw = node.raw
        node.cost += _own_cost(raw)
        if "unevaluatedProperties" in raw or "unevaluatedItems" in raw:
            node.factor = _UNEVALUATED_FACTOR
        if isinstance(raw.get("pattern"), str):
            node.patterns += _pattern_cost(raw["pattern"])
        for key in ("$ref", "$dynamicRef", "$recursiveRef"):
            if isinstance(raw.get(key), str):
                found = self._index.resolve(raw, raw[key])
                # The validator has the drafts themselves; they are large, and not in this document.
                if not found and raw[key].startswith(_META_SCHEMAS):
                    node.cost += _META_SCHEMA_COST
                for sub in found:
                    yield node.here, sub
        for key in _HERE_ONE:
            yield node.here, raw.get(key)
        for key in _HERE_MANY:
            for sub in _listed(raw.get(key)):
                yield node.here, sub
        for key in ("dependentSchemas", "dependencies"):
            for sub in _mapped(raw.get(key)).values():
                yield node.here, sub
        yield from _mapped(raw.get("properties")).items()
        for pattern, sub in _mapped(raw.get("patternProperties")).items():
            node.patterns += _pattern_cost(pattern)
            yield node.members, sub
        for key in _EACH_MEMBER:
            yield node.members, raw.get(key)
        yield node.names, raw.get("propertyNames")
        items = raw.get("items")
        for sub in (*_listed(raw.get("prefixItems")), *_listed(items)):
            yield node.prefix, sub
        yield node.items, items
        for key in _EACH_ITEM:
            yield node.items, raw.get(key)


class _Index:
    """The targets of the references in a document."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._bases: dict[int, str] = {}
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[str, list[Any]] = {}
        patterns = values = 0
        todo: list[tuple[Any, str]] = [(root, "")]
        while todo:
            value, base = todo.pop()
            if isinstance(value, dict):
                raw = cast("dict[str, Any]", value)
                own = raw.get("$id")
                if isinstance(own, str):
                    base = _joined(base, own)
                    self._resources.setdefault(base.rstrip("#"), raw)
                self._bases[id(raw)] = base
                for key in ("$anchor", "$dynamicAnchor"):
                    if isinstance(raw.get(key), str):
                        self._anchors.setdefault(raw[key], []).append(raw)
                patterns += isinstance(raw.get("pattern"), str) + len(_mapped(raw.get("patternProperties")))
                parts: list[Any] = list(raw.values())
            else:
                parts = cast("list[Any]", value)
            values += len(parts)
            if values > MAX_SCHEMA_VALUES:
                raise SchemaTooCostly(f"it has more than {MAX_SCHEMA_VALUES} values")
            todo.extend([(part, base) for part in parts if type(part) in _CONTAINERS])
        if patterns > MAX_SCHEMA_PATTERNS:
            raise SchemaTooCostly(f"it has more than {MAX_SCHEMA_PATTERNS} patterns")

    def resolve(self, holder: Mapping[str, Any], reference: str) -> list[Any]:
        """Return the subschemas that a reference may name; an empty list if its target is outside the document."""
        base = self._bases.get(id(holder), "")
        place, _, fragment = _joined(base, reference).partition("#")
        fragment = unquote(fragment)
        # All subschemas with this anchor: which one a `$dynamicRef` names depends on the path of the evaluation.
        if fragment and not fragment.startswith("/"):
            return self._anchors.get(fragment, [])
        node: Any = self._resources.get(place, self._root if reference.startswith("#") else None)
        for part in fragment.split("/")[1:]:
            # In this order (RFC 6901, section 4): `~01` is the text `~1`.
            key = part.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict):
                node = cast("dict[str, Any]", node).get(key)
            elif is_list(node) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            else:
                return []
        return [] if node is None else [node]


def _joined(base: str, reference: str) -> str:
    try:
        return urljoin(base, reference)
    except ValueError:
        return reference


def _mapped(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if is_list(value) else []


def _pattern_cost(pattern: str) -> int:
    return _BACKTRACKING_COST if _BACKTRACKS.search(pattern) else 1


def _own_cost(raw: Mapping[str, Any]) -> int:
    """Return the cost of a subschema without those that it applies, in evaluations.

    An enumeration is searched from its start, and comparing two texts takes an eighth of an evaluation.
    """
    cost = 0
    listed = raw.get("enum")
    for value in (*(_listed(listed)), raw.get("const")):
        cost += 8 * _size(value, MAX_SCHEMA_VALUES, False) if isinstance(value, dict | list) else 1
    for key in ("required", "dependentRequired"):
        cost += len(raw[key]) if isinstance(raw.get(key), dict | list) else 0
    return cost // 8


def _closures(root: _SchemaNode, nodes: list[_SchemaNode]) -> dict[int, dict[_SchemaNode, int]] | None:
    """Return, for each subschema, how often it evaluates each other one for the same value.

    ``None`` if these counts would take too much memory.
    """
    found: dict[int, dict[_SchemaNode, int]] = {}
    entries = 0
    todo = [(node, False) for node in nodes]
    while todo:
        node, is_left = todo.pop()
        if id(node) in found:
            continue
        if not is_left:
            todo.append((node, True))
            todo.extend((sub, False) for sub in node.here if id(sub) not in found)
            continue
        here = {node: 1}
        for sub in node.here:
            for each, times in found[id(sub)].items():
                here[each] = min(here.get(each, 0) + node.factor * times, MAX_EVALUATIONS)
        found[id(node)] = here
        entries += len(here)
        if entries > _MAX_COUNTED:
            return None
    return found


def _width(root: _SchemaNode, nodes: list[_SchemaNode], cost_of: Callable[[_SchemaNode], int] | None = None) -> int:
    """Return the greatest number of evaluations that one part of any value needs; 0 without a bound below the limit.

    The limit is `MAX_EVALUATIONS`. The result is a least fixed point: with a schema for lists of itself, parts at each
    depth need the same number; with a choice between two lists of itself, twice as many at each further depth.

    Args:
        root: the schema.
        nodes: all its subschemas.
        cost_of: returns what one evaluation of a subschema counts; ``None`` for its own cost.
    """
    closures = _closures(root, nodes)
    if closures is None:
        return 0
    own = {
        at: sum(
            times * (each.cost + each.patterns if cost_of is None else cost_of(each)) for each, times in here.items()
        )
        for at, here in closures.items()
    }
    below = {at: _below(here) for at, here in closures.items()}
    width = dict.fromkeys(closures, 0)
    # Widths only rise. Without a fixed point after these passes there is probably no bound.
    for _ in range(_MAX_PASSES):
        has_changed = False
        for node in nodes:
            most = own[id(node)]
            for shared, groups in below[id(node)]:
                always = sum(times * width[id(sub)] for sub, times in shared)
                for group in groups:
                    most = max(most, always + sum(times * width[id(sub)] for sub, times in group))
            if most > MAX_EVALUATIONS:
                return 0
            if most > width[id(node)]:
                width[id(node)] = most
                has_changed = True
        if not has_changed:
            return width[id(root)]
    return 0


_Group: TypeAlias = list[tuple[_SchemaNode, int]]


def _below(here: Mapping[_SchemaNode, int]) -> list[tuple[_Group, list[_Group]]]:
    """Return the subschemas for one member, one member's name and one entry of a list.

    Each item has the subschemas that apply to all of them, and a list of those for a single name or position.
    """
    members: _Group = []
    named: dict[str, _Group] = {}
    names: _Group = []
    items: _Group = []
    prefix: dict[int, _Group] = {}
    for node, times in here.items():
        members += [(sub, times) for sub in node.members]
        names += [(sub, times) for sub in node.names]
        items += [(sub, times) for sub in node.items]
        for name, sub in node.named.items():
            named.setdefault(name, []).append((sub, times))
        for at, sub in enumerate(node.prefix):
            prefix.setdefault(at, []).append((sub, times))
    found: list[tuple[_Group, list[_Group]]] = []
    if members or named:
        found.append((members, [[], *named.values()]))
    if names:
        found.append((names, [[]]))
    if items or prefix:
        found.append((items, [[], *prefix.values()]))
    return found


def _longest_chain(nodes: list[_SchemaNode]) -> int:
    """Return the greatest number of subschemas that apply inside one another to the same value."""
    found: dict[int, int] = {}
    todo = [(node, False) for node in nodes]
    while todo:
        node, is_left = todo.pop()
        if is_left:
            found[id(node)] = 1 + max((found[id(sub)] for sub in node.here), default=0)
        elif id(node) not in found:
            todo.append((node, True))
            todo.extend((sub, False) for sub in node.here if id(sub) not in found)
    return max(found.values())


def _refuse_endless(nodes: list[_SchemaNode]) -> None:
    """Raise `SchemaTooCostly` for a schema that applies itself to the same value again."""
    done: set[int] = set()
    opened: set[int] = set()
    todo = [(node, False) for node in nodes]
    while todo:
        node, is_left = todo.pop()
        if is_left:
            opened.discard(id(node))
            done.add(id(node))
        elif id(node) in opened:
            raise SchemaTooCostly("it refers to itself without end")
        elif id(node) not in done:
            opened.add(id(node))
            todo.append((node, True))
            todo.extend((sub, False) for sub in node.here)


def _size(value: Any, limit: int, counts_text: bool) -> int:
    """Return the number of values in a value, names included; stops above ``limit``."""
    if not isinstance(value, dict | list):
        if type(value) is int and is_long(value):
            return 1 + length_work(value)
        return 1 + len(value) // _PATTERN_CHARS if counts_text and isinstance(value, str) else 1
    count = 1
    todo: list[Any] = [cast("Any", value)]
    while todo and count <= limit:
        part: Any = todo.pop()
        if isinstance(part, dict):
            count += len(cast("dict[str, Any]", part))
            if counts_text:
                count += sum(len(name) for name in cast("dict[str, Any]", part)) // _PATTERN_CHARS
            part = list(cast("dict[str, Any]", part).values())
        entries = cast("list[Any]", part)
        count += len(entries)
        for each in entries:
            if isinstance(each, dict | list):
                todo.append(each)
            elif counts_text and isinstance(each, str):
                count += len(each) // _PATTERN_CHARS
            elif type(each) is int and is_long(each):
                count += length_work(each)
    return count


def _count(root: _SchemaNode, value: Any) -> int:
    """Return the evaluations of ``root`` for ``value``, each pair of subschema and part once."""
    known: dict[tuple[int, int], tuple[int, int]] = {}
    pieces: list[Any] = []  # references what is made here: the id of a deleted object could be used again
    todo: list[tuple[_SchemaNode, Any, list[tuple[int, _SchemaNode, Any]] | None]] = [(root, value, None)]
    while todo:
        node, part, applied = todo.pop()
        pair = (id(node), id(part))
        if applied is None:
            if pair in known:
                continue
            if len(known) + len(todo) > _MAX_COUNTED:
                raise SchemaTooCostly(_TOO_MANY_PARTS)
            applied = _applications(node, part)
            pieces.append(applied)
            todo.append((node, part, applied))
            # A preliminary entry: a pair that is reached again before it is counted must not be counted twice.
            known[pair] = (0, 0)
            todo.extend((sub, below, None) for _, sub, below in applied if (id(sub), id(below)) not in known)
            continue
        total, depth = node.cost, 0
        if node.divides and type(part) in (int, float):
            total += division_work(part, node.divides, MAX_EVALUATIONS)
        elif type(part) is int and is_long(part):
            total += length_work(part)
        if node.patterns:
            total += node.patterns * _size(
                list(cast("dict[str, Any]", part)) if type(part) is dict else part, MAX_EVALUATIONS, True
            )
        for factor, sub, below in applied:
            evaluations, inner = known[id(sub), id(below)]
            total += factor * evaluations
            depth = max(depth, inner)
        if total > MAX_EVALUATIONS:
            raise SchemaTooCostly(f"it may take more than {MAX_EVALUATIONS} evaluations for this value")
        if depth >= MAX_EVALUATION_DEPTH:
            raise SchemaTooCostly(f"it may recurse more than {MAX_EVALUATION_DEPTH} times for this value")
        known[pair] = (total, depth + 1)
    return known[id(root), id(value)][0]


def _applications(node: _SchemaNode, part: Any) -> list[tuple[int, _SchemaNode, Any]]:
    applied = [(node.factor, sub, part) for sub in node.here]
    # Checked before the lists are made, which could take gigabytes.
    if (
        type(part) in (dict, list)
        and len(part) * (len(node.members) + len(node.names) + len(node.items)) > _MAX_COUNTED
    ):
        raise SchemaTooCostly(_TOO_MANY_PARTS)
    if type(part) is dict:
        members = cast("dict[str, Any]", part)
        if node.named:
            applied += [(1, sub, members[name]) for name, sub in node.named.items() if name in members]
        if node.members:
            applied += [(1, sub, member) for member in members.values() for sub in node.members]
        if node.names:
            applied += [(1, sub, name) for name in members for sub in node.names]
    elif is_list(part):
        applied += [(1, sub, entry) for sub, entry in zip(node.prefix, part, strict=False)]
        if node.items:
            applied += [(1, sub, entry) for entry in part for sub in node.items]
    return applied
