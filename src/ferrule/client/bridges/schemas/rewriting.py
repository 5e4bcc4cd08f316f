"""The schema of a tool's arguments in the subset of a model API, with the plan that restores the arguments.

The result accepts all that the original accepts and perhaps more: the server checks the arguments in any case. What a
keyword that an API lacks would have said stands in the description, for the model to read.

References are put in place of their names. A schema that contains itself keeps references to ``$defs`` where the API
takes them, and is unrolled twice elsewhere.
"""

from __future__ import annotations

import re
from typing import Any, Final

from ferrule.client.bridges.names import fitting_names
from ferrule.client.bridges.schemas.cleaning import Schema, cleaned, value_key
from ferrule.client.bridges.schemas.descriptions import enum_nodes, typed_nodes, with_null, with_rest_described
from ferrule.client.bridges.schemas.dialects import Dialect
from ferrule.client.bridges.schemas.flattening import is_objects, merged, one_object, resolved
from ferrule.client.bridges.schemas.restoring import ArgumentPlan
from ferrule.wire.json_types import is_list, is_object

__all__ = ["MAX_DEPTH", "MAX_NODES", "SchemaNotExpressible", "rewritten"]

MAX_NODES: Final = 4000
"""Maximum number of nodes after references are replaced; above it they stay references, or become "any value"."""
MAX_DEPTH: Final = 64
"""Maximum depth of a schema; what is deeper becomes "any value"."""
_MAX_TOTAL = 4 * MAX_NODES
_VALUES_PER_NODE = 16

_SIMPLE_TYPES: Final = [{"type": kind} for kind in ("string", "number", "boolean", "object")]
_ANY_ARRAY: Final[Schema] = {"type": "array", "items": {"anyOf": _SIMPLE_TYPES, "nullable": True}}

_WORDS = ("title", "description", "default", "examples")
_Made = tuple[Schema, ArgumentPlan]


class SchemaNotExpressible(Exception):
    """The schema cannot be written in a strict subset; the message says why."""


def rewritten(schema: Any, dialect: Dialect, max_nodes: int = MAX_NODES) -> tuple[Schema, ArgumentPlan]:
    """Return a schema of an object in a dialect, and how arguments for it become arguments for the original.

    Args:
        schema: the ``inputSchema`` of a tool; it is not changed.
        dialect: the subset.
        max_nodes: maximum number of nodes after references are replaced; see `MAX_NODES`.

    Raises:
        SchemaNotExpressible: the dialect is strict, and the schema allows what it cannot describe.
    """
    return _Rewriter(schema, dialect, max_nodes).document()


class _Rewriter:
    def __init__(self, root: Any, dialect: Dialect, max_nodes: int) -> None:
        self.root = root
        self.dialect = dialect
        self.nodes = 0
        self.max_nodes = max_nodes
        self.names: dict[str, str] = {}
        self.defs: dict[str, Schema] = {}
        self.plans: dict[str, ArgumentPlan] = {}
        self.unwritten: list[tuple[str, str, Any]] = []
        self.taken: list[tuple[ArgumentPlan, ArgumentPlan]] = []
        self.null_checks = 0

    def document(self) -> _Made:
        node, seen = self.flat(self.root, ())
        branches = node.pop("anyOf", None) or node.pop("oneOf", None)
        node.pop("oneOf", None)
        if branches:
            node = one_object(node, [self.flat(branch, seen)[0] for branch in branches])
        for key in ("enum", "const", "default", "examples"):
            node.pop(key, None)
        if not node.get("properties") and "patternProperties" not in node and self.dialect.closed:
            node.setdefault("additionalProperties", False)  # a tool without arguments
        made, plan = self.node({**node, "type": "object"}, 0, seen)
        made.setdefault("properties", {})
        self.write_definitions()
        self.join_plans()
        return ({**made, "$defs": self.defs} if self.defs else made), plan

    def write_definitions(self) -> None:
        """Write what `again` has referenced; not there, because a chain of references may be longer than the stack."""
        while self.unwritten:
            known, name, target = self.unwritten.pop()
            self.defs[known], plan = self.node(target, 1, (name,))
            self.taken.append((self.plans[known], plan))

    def join_plans(self) -> None:
        """Add the plans of branches to those of their unions, now that each plan is complete."""
        # A union inside a definition may refer to that definition, whose plan the first pass completes.
        for _ in range(2):
            for plan, other in self.taken:
                plan.take(other)

    # -- one node -----------------------------------------------------------------------------------------------------

    def node(self, schema: Any, depth: int, seen: tuple[str, ...]) -> _Made:
        self.nodes += 1
        if depth > MAX_DEPTH or self.nodes > _MAX_TOTAL:
            return self.anything({}), ArgumentPlan()
        if is_object(schema) and isinstance(name := schema.get("$ref"), str):
            target = resolved(self.root, name)
            if target is not None and (name in seen or self.nodes > self.max_nodes):
                return self.again(name, target, schema, depth, seen)
        node, seen = self.flat(schema, seen)
        branches = node.pop("anyOf", None) or node.pop("oneOf", None)
        node.pop("oneOf", None)
        if not branches and "enum" in node:
            self.nodes += len(node["enum"]) // _VALUES_PER_NODE  # a reference to a large set repeats it
            branches = enum_nodes(node, self.dialect)
        if not branches and is_list(node.get("type")):
            branches = typed_nodes(node, self.dialect)
        if branches:
            return self.union(node, branches, depth, seen)
        return self.plain(node, depth, seen)

    def flat(self, schema: Any, seen: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Return a node without references and ``allOf``, and the references that are now inside."""
        node = cleaned(schema)
        while (name := node.pop("$ref", None)) is not None:
            target = resolved(self.root, name)
            if target is None or seen.count(name) > 1 or len(seen) > MAX_DEPTH:
                node.setdefault("description", f"as {name[:200]} says")
                break
            seen = (*seen, name)
            node = merged([cleaned(target), node])
        parts = node.pop("allOf", ())
        if parts:
            inner: list[Schema] = []
            for part in parts:
                done, seen = self.flat(part, seen)
                inner.append(done)
            node = self.distributed(inner, node)
        if "const" in node:
            value = node.pop("const")
            node["enum"] = [value]
        return node, seen

    def distributed(self, parts: list[Schema], node: Schema) -> Schema:
        """Merge the parts of ``allOf``; of several unions, only the first stays."""
        return merged([*parts, node])

    def again(self, name: str, target: Any, schema: Schema, depth: int, seen: tuple[str, ...]) -> _Made:
        """Return the node for a reference to what contains it, or in a schema that is too large to put it in."""
        if self.dialect.recursion:
            known = self.names.get(name)
            if known is None:
                stem = re.sub(r"[^A-Za-z0-9_]", "_", name.rpartition("/")[2].strip("#")) or "root"
                known, number = stem, len(self.names)
                while known in self.defs:
                    known, number = f"{stem}_{number}", number + 1
                self.names[name] = known
                self.defs[known], self.plans[known] = {}, ArgumentPlan()
                self.unwritten.append((known, name, target))
            return {"$ref": f"#/$defs/{known}"}, self.plans[known]
        if self.dialect.closed:
            raise SchemaNotExpressible("it contains itself")
        if seen.count(name) < 2 and self.nodes <= self.max_nodes:
            node, seen = self.flat(schema, seen)
            return self.node(node, depth, seen)
        kind: Any = cleaned(target).get("type")
        return self.anything({"type": kind} if isinstance(kind, str) else {}), ArgumentPlan()

    def anything(self, node: Schema) -> Schema:
        """Return a node for any value, or of a type without further keywords."""
        if self.dialect.closed:
            raise SchemaNotExpressible("it allows any value somewhere")
        made = {key: value for key, value in node.items() if key in ("type", "title", "description")}
        if not self.dialect.typed:
            return made
        kind = made.get("type")
        if kind is None:
            return {**made, "anyOf": [*_SIMPLE_TYPES, _ANY_ARRAY], "nullable": True}
        return {**made, "items": _ANY_ARRAY["items"]} if kind == "array" else made

    # -- unions -------------------------------------------------------------------------------------------------------

    def union(self, node: Schema, branches: list[Any], depth: int, seen: tuple[str, ...]) -> _Made:
        words = {key: node[key] for key in _WORDS if key in node}
        rest = {key: value for key, value in node.items() if key not in words}
        if rest.get("type") == "object" and "properties" in rest:
            inner = [self.flat(branch, seen)[0] for branch in branches]
            if is_objects([{"type": "object", **branch} for branch in inner]):
                return self.node(one_object(node, inner), depth, seen)
        if rest:
            branches = [self.joined(rest, branch, seen) for branch in branches]
        made: list[Schema] = []
        seen_branches: set[Any] = set()
        plans: list[ArgumentPlan] = []
        has_null = False
        for branch in branches:
            if self.dialect.nullable and _is_null(branch):
                has_null = True
                continue
            done, its_plan = self.node(branch, depth + 1, seen)
            has_null = has_null or done.get("nullable") is True
            flat: list[Schema] = done["anyOf"] if done.keys() == {"anyOf"} else [done]
            for each in flat:
                if (key := value_key(each)) not in seen_branches:
                    seen_branches.add(key)
                    made.append(each)
            plans.append(its_plan)
        plan = plans[0] if len(plans) == 1 else ArgumentPlan()
        if len(plans) > 1:
            self.taken += [(plan, each) for each in plans]
        described = with_rest_described(words, self.dialect)
        if self.dialect.nullable:
            made = [{key: value for key, value in each.items() if key != "nullable"} for each in made]
            described = {**described, "nullable": True} if has_null else described
        if not made:
            return {**described, "type": "string"} if self.dialect.typed else {**described, "type": "null"}, plan
        if len(made) == 1:
            return self.alone(made[0], described), plan
        if {} in made:
            return self.anything(described), plan
        return {**described, "anyOf": made}, plan

    def alone(self, made: Schema, described: Schema) -> Schema:
        """Return the only branch of a union with the words of the union; a reference has no words beside it."""
        return made if "$ref" in made else {**made, **described}

    def joined(self, rest: Schema, branch: Any, seen: tuple[str, ...]) -> Any:
        if is_object(branch) and "$ref" in branch:
            return branch if rest.keys() <= {"type"} else {"allOf": [rest, branch]}
        node = cleaned(branch)
        return merged([node, rest]) if "allOf" not in node else {"allOf": [rest, branch]}

    # -- one type -----------------------------------------------------------------------------------------------------

    def plain(self, node: Schema, depth: int, seen: tuple[str, ...]) -> _Made:
        kind: Any = node.get("type")
        plan = ArgumentPlan()
        if kind is None and "enum" not in node:
            return self.anything(with_rest_described(node, self.dialect)), plan
        made = with_rest_described(node, self.dialect)
        if kind == "object" or (is_list(kind) and "object" in kind):
            self.object(node, made, plan, depth, seen)
        elif kind == "array" or (is_list(kind) and "array" in kind):
            self.array(node, made, plan, depth, seen)
        if self.dialect.nullable:
            if is_list(kind):
                made["type"] = next(each for each in kind if each != "null")
                made["nullable"] = True
            elif kind == "null":
                made.update(type="string", nullable=True)
        return made, plan

    def object(self, node: Schema, made: Schema, plan: ArgumentPlan, depth: int, seen: tuple[str, ...]) -> None:
        dialect = self.dialect
        properties: Schema = node.get("properties", {})
        patterns: Schema = node.get("patternProperties", {})
        extra: Any = node.get("additionalProperties")
        if dialect.closed and (patterns or is_object(extra) or extra is True or (not properties and extra is None)):
            raise SchemaNotExpressible("it has an object of any members")
        if dialect.property_names is not None:
            plan.names = {
                new: old for new, old in fitting_names(properties, (), dialect.property_names).items() if new != old
            }
        new_names = {old: new for new, old in plan.names.items()}
        needed: list[str] = node.get("required", [])
        required = [name for name in needed if name in properties]
        always = set(required)
        if properties or not dialect.typed:
            made["properties"] = {}
        for name, part in properties.items():
            new = new_names.get(name, name)
            done, its_plan = self.node(part, depth + 1, seen)
            plan.properties[new] = its_plan
            if dialect.all_required and name not in always:
                if not self.takes_null(part, ()):
                    plan.unset.add(new)
                done = with_null(done)
            made["properties"][new] = done
        if dialect.all_required:
            made["required"] = [new_names.get(name, name) for name in properties]
        elif required:
            made["required"] = [new_names.get(name, name) for name in required]
        else:
            made.pop("required", None)
        self.members(made, plan, patterns, extra, depth, seen)

    def members(
        self, made: Schema, plan: ArgumentPlan, patterns: Schema, extra: Any, depth: int, seen: tuple[str, ...]
    ) -> None:
        """Add what is said about members that are no properties."""
        keywords = self.dialect.keywords
        made.pop("additionalProperties", None)
        made.pop("patternProperties", None)
        if patterns and "patternProperties" in keywords:
            made["patternProperties"] = {key: self.node(part, depth + 1, seen)[0] for key, part in patterns.items()}
        elif len(patterns) == 1 and not made.get("properties"):
            (extra,) = patterns.values()
        elif patterns:
            extra = None
        if "additionalProperties" not in keywords:
            if is_object(extra) and extra:
                plan.others = self.node(extra, depth + 1, seen)[1]
            return
        if self.dialect.closed or extra is False:
            made["additionalProperties"] = False
        elif is_object(extra) and extra:
            made["additionalProperties"], plan.others = self.node(extra, depth + 1, seen)

    def array(self, node: Schema, made: Schema, plan: ArgumentPlan, depth: int, seen: tuple[str, ...]) -> None:
        places: list[Any] = node.get("prefixItems", [])
        rest: Any = node.get("items", True)
        done = [self.node(place, depth + 1, seen) for place in places]
        plan.places = [each for _, each in done]
        if places and rest is False:
            made["maxItems"] = min(len(places), node.get("maxItems", len(places)))
            if "maxItems" not in self.dialect.keywords:
                del made["maxItems"]
        if places and "prefixItems" in self.dialect.keywords:
            made["prefixItems"] = [each for each, _ in done]
            if is_object(rest):
                made["items"], plan.items = self.node(rest, depth + 1, seen)
            elif "maxItems" in made:
                made.pop("items", None)
            return
        made.pop("prefixItems", None)
        if places:
            kinds: list[Any] = places + ([rest] if is_object(rest) else [])
            made["items"], _ = self.node({"anyOf": kinds}, depth + 1, seen)
            plan.items = self.node(rest, depth + 1, seen)[1] if is_object(rest) else None
        else:
            made["items"], plan.items = self.node({} if rest in (True, False) else rest, depth + 1, seen)

    def takes_null(self, schema: Any, seen: tuple[str, ...]) -> bool:
        """Return whether null is a value of a node, so that it cannot stand for "not given".

        Raises:
            SchemaNotExpressible: the optional properties have more branches than can be looked at.
        """
        self.null_checks += 1
        if self.null_checks > _MAX_TOTAL:
            raise SchemaNotExpressible("it is too large")
        node, seen = self.flat(schema, seen)
        branches: list[Any] = node.get("anyOf") or node.get("oneOf") or []
        if branches:
            return len(seen) < MAX_DEPTH and any(self.takes_null(branch, seen) for branch in branches)
        if "enum" in node:
            return None in node["enum"]
        kind: Any = node.get("type")
        return kind is None or kind == "null" or (is_list(kind) and "null" in kind)


def _is_null(branch: Any) -> bool:
    return is_object(branch) and (branch.get("type") == "null" or branch.get("enum") == [None])
