"""Converts messages between the superset of all types and one revision: drops, rewrites, renames or moves fields.

`project_result` and `project_params` take a value of the superset types (a struct, or JSON with the same shape) and
return the one that the revision can read. `read_result` and `read_params` go the other way for JSON that a peer of
the revision sent: fields with another name or place there get those of the superset. Arguments are never changed, and
the same object is returned if there is nothing to do, which is the usual case: a plan for each revision and type is
made on first use, and for most types of the modern revisions it is empty.

Values that are rewritten and not dropped are in ``rewrites.py``. Kinds of content that no revision has stay unchanged:
they belong to an extension that both sides have agreed on.
"""

import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any, Protocol, TypeGuard, Union, cast, get_args, get_origin

from msgspec import NODEFAULT, UNSET, Struct, defstruct, field, structs

from ferrule.wire.codec import to_builtins
from ferrule.wire.revisions.base import Reshape, Revision, Shape
from ferrule.wire.revisions.rewrites import Step, rewrite_for
from ferrule.wire.struct import OpenBundle, WireStruct
from ferrule.wire.types.content import UnknownContentBlock
from ferrule.wire.types.rounds import InputRequiredResult
from ferrule.wire.types.tasks import CreateTaskResult, DetailedTask, Task

__all__ = [
    "project_params",
    "project_result",
    "project_value",
    "projection_of",
    "read_params",
    "read_result",
    "read_value",
]


def project_result(revision: Revision, method: str, result: Any) -> Any:
    """Return the ``result`` of ``method`` in the form of ``revision``.

    Args:
        revision: the peer's revision.
        method: the method of the request, in either direction; it determines the type of a mapping.
        result: a struct of the superset, or a mapping with its wire names. Anything else (encoded bytes) is
            returned unchanged.

    Raises:
        NotExpressible: questions (`InputRequiredResult`) for a revision without rounds, or a task for one without
            tasks.
    """
    step: Step | None = None
    if isinstance(result, WireStruct):
        step = _plan_for(revision, type(result))
    elif isinstance(result, Mapping):
        step = _plan_for(revision, _type_of_mapping(revision, method, cast("Mapping[str, Any]", result)))
    return result if step is None else step(result)  # pyright: ignore[reportUnknownVariableType]


def project_params(revision: Revision, method: str, params: Any) -> Any:
    """Return the params of a request or notification, in either direction, in the form of ``revision``.

    ``params`` may be ``None``. As for results, the same object is returned if there is nothing to do.

    Raises:
        NotExpressible: the revision has no such question: a page to visit, a form with multiple choice, or sampling
            with tools.
    """
    step: Step | None = None
    if isinstance(params, WireStruct):
        step = _plan_for(revision, type(params))
    elif isinstance(params, Mapping):
        step = _plan_for(revision, _type_of_params(revision, method))
    return cast("Any", params) if step is None else step(params)


def read_result(revision: Revision, method: str, result: Any) -> Any:
    """Return a result that a peer of ``revision`` sent, with the names of the superset.

    Args:
        revision: the connection's revision.
        method: the method of the request, in either direction.
        result: JSON; a value that is not an object is returned unchanged.
    """
    if not revision.has_own_forms or not isinstance(result, Mapping):
        return result
    raw = cast("Mapping[str, Any]", result)
    step = _plan_for(_reading(revision), _type_of_mapping(revision, method, raw))
    return raw if step is None else step(raw)


def read_params(revision: Revision, method: str, params: Any) -> Any:
    """Return the params that a peer of ``revision`` sent, with the names of the superset; see `read_result`."""
    if not revision.has_own_forms or not isinstance(params, Mapping):
        return params
    raw = cast("Mapping[str, Any]", params)
    step = _plan_for(_reading(revision), _type_of_params(revision, method))
    return raw if step is None else step(raw)


def project_value(revision: Revision, type_: Any, value: Any) -> Any:
    """Return a part of a message, which is not reached from its params or result, in the form of ``revision``.

    Args:
        revision: the connection's revision.
        type_: the type of the part, for example `ClientCapabilities` in the ``_meta`` of a request.
        value: the value of that type, or JSON with its shape.
    """
    step = _plan_for(revision, type_)
    return value if step is None else step(value)


def read_value(revision: Revision, type_: Any, value: Any) -> Any:
    """Return a part of a message from a peer of ``revision``, with the names of the superset; see `project_value`."""
    step = _plan_for(_reading(revision), type_) if revision.has_own_forms else None
    return value if step is None else step(value)


def projection_of(revision: Revision, type_: Any) -> Step | None:
    """Return the function that `project_result` applies to values of ``type_``; ``None`` if they stay unchanged."""
    return _plan_for(revision, type_)


# --- plans ------------------------------------------------------------------------------------------------------------


class _Rules(Protocol):
    """The differences of one type: a `Revision` for writing, a `_Reading` for reading."""

    def lacks(self, type_: Shape, /) -> frozenset[str]:
        """Return the Python names of the fields to drop."""
        ...

    def renames(self, type_: Shape, /) -> dict[str, str]:
        """Return the fields with another name in the revision: Python name to wire name."""
        ...

    def reshapes(self, type_: Shape, /) -> Reshape | None:
        """Return the form of the type in the revision; ``None`` if it is that of the superset."""
        ...


class _Reading:
    """The rules for JSON from a peer: only names are changed, and nothing is dropped or refused."""

    def __init__(self, revision: Revision) -> None:
        self.renames = revision.renames
        self.reshapes = revision.reshapes

    def lacks(self, type_: Shape, /) -> frozenset[str]:
        return frozenset()


_plans: dict[tuple[_Rules, Any], Step | None] = {}

_readings: dict[Revision, _Reading] = {}


def _reading(revision: Revision) -> _Reading:
    found = _readings.get(revision)
    if found is None:
        found = _readings[revision] = _Reading(revision)
    return found


def _rewrite(rules: _Rules, type_: Shape) -> Step | None:
    if not isinstance(rules, Revision) or not issubclass(type_, WireStruct):
        return None  # nothing in a bundle is rewritten
    return rewrite_for(rules, type_)


class _Field(Struct, frozen=True):
    """One field of a struct, or one known key of a bundle.

    Attributes:
        name: its name in Python.
        encode_name: its name on the wire, in the superset.
        type: its declared type.
        default: the default of the struct's field, `NODEFAULT` without one; a bundle lacks the key instead.
    """

    name: str
    encode_name: str
    type: Any
    default: Any


def _is_shape(type_: Any) -> TypeGuard[Shape]:
    return isinstance(type_, type) and issubclass(type_, WireStruct | OpenBundle)


def _fields(type_: Shape) -> list[_Field]:
    if issubclass(type_, OpenBundle):
        keys = type_.__known_keys__.values()
        return [_Field(key.name, key.wire, key.type, NODEFAULT) for key in keys]
    return [_Field(info.name, info.encode_name, info.type, info.default) for info in structs.fields(type_)]


def _plan_for(rules: _Rules, type_: Any) -> Step | None:
    """Return the function that converts values of ``type_``, made once; ``None`` if they stay unchanged."""
    key = (rules, type_)
    try:
        return _plans[key]
    except KeyError:
        step = _plans[key] = _make_plan(rules, type_)
        return step


def _make_plan(rules: _Rules, type_: Any) -> Step | None:
    origin = get_origin(type_)
    if origin is typing.Annotated:
        return _plan_for(rules, get_args(type_)[0])
    if origin is list:
        item = _plan_for(rules, get_args(type_)[0])
        return None if item is None else _each_item(item)
    if origin is dict:
        value = _plan_for(rules, get_args(type_)[1])
        return None if value is None else _each_value(value)
    if origin is Union or origin is UnionType:
        return _alternatives(rules, get_args(type_))
    return _object_plan(rules, type_) if _is_shape(type_) else None


def _object_plan(rules: _Rules, type_: Shape) -> Step | None:
    # Asked first: the plan made below for a type that holds itself is never `None`, and a type that contains it
    # would keep that plan.
    if not _reaches_change(rules, type_, set()):
        return None
    key = (rules, type_)
    # A block may hold blocks: while its own plan is being made, the plan inside is looked up when it runs.
    _plans[key] = lambda value: _run(_plans[key], value)
    lacks = rules.lacks(type_)
    renames = rules.renames(type_)
    moves: list[tuple[str, str]] = []
    drops: list[tuple[str, str, Any]] = []
    children: list[tuple[str, str, Step]] = []
    recursive: list[tuple[str, str, Step]] = []
    for info in _fields(type_):
        if info.name in lacks:
            default = None if info.default is NODEFAULT else info.default
            drops.append((info.name, info.encode_name, default))
            continue
        if info.name in renames:
            moves.append((info.encode_name, renames[info.name]))
        step = _plan_for(rules, info.type)
        if step is not None:
            (recursive if _mentions(info.type, type_) else children).append((info.name, info.encode_name, step))
    rewrite = _rewrite(rules, type_)
    reshape = rules.reshapes(type_)
    # What a type holds of itself changes only if something else of it does.
    has_changes = bool(drops or children or rewrite or moves or (reshape and recursive))
    made: Step | None = None
    if has_changes and not moves:
        made = _StructPlan(rewrite, drops, children + recursive).run
    elif has_changes and isinstance(rules, _Reading):
        made = _ReadingPlan(children + recursive, moves).run
    elif has_changes:
        written = None if issubclass(type_, OpenBundle) else _renamed_type(type_, renames)
        made = _RenamingPlan(rewrite, drops, children + recursive, moves, written).run
    if reshape is None:
        return made
    return _read_form(reshape, made) if isinstance(rules, _Reading) else _written_form(reshape, made)


def _written_form(reshape: Reshape, step: Step | None) -> Step:
    """Return the function that converts an object of the superset by ``step``, and then to its form in a revision."""

    def run(value: Any) -> Any:
        value = _run(step, value)
        return reshape.write(to_builtins(value)) if isinstance(value, Struct | Mapping) else value

    return run


def _read_form(reshape: Reshape, step: Step | None) -> Step:
    """Return the function that converts JSON of a peer to the form of the superset, and then by ``step``."""

    def run(value: Any) -> Any:
        return _run(step, reshape.read(dict(cast("Any", value))) if isinstance(value, Mapping) else value)

    return run


def _reaches_change(rules: _Rules, type_: Any, seen: set[Any]) -> bool:
    """Return whether the rules change anything in ``type_`` or in what it can hold."""
    if _is_shape(type_):
        if type_ in seen:
            return False
        seen.add(type_)
        changed = {*rules.lacks(type_), *rules.renames(type_)}
        fields = _fields(type_)
        if any(info.name in changed for info in fields) or _rewrite(rules, type_) is not None:
            return True
        if rules.reshapes(type_) is not None:
            return True
        return any(_reaches_change(rules, info.type, seen) for info in fields)
    return any(_reaches_change(rules, argument, seen) for argument in get_args(type_))


def _run(step: Step | None, value: Any) -> Any:
    return value if step is None else step(value)


def _mentions(annotation: Any, type_: type) -> bool:
    return annotation is type_ or any(_mentions(arg, type_) for arg in get_args(annotation))


class _StructPlan:
    """The steps for one type, for structs and for mappings with its wire names (a bundle is such a mapping)."""

    def __init__(
        self,
        rewrite: Step | None,
        drops: list[tuple[str, str, Any]],
        children: list[tuple[str, str, Step]],
    ) -> None:
        self.rewrite = rewrite
        self.drops = drops
        self.children = children

    def run(self, value: Any) -> Any:
        if self.rewrite is not None:
            value = self.rewrite(value)
        if isinstance(value, Struct):
            return self._run_struct(value)
        if isinstance(value, Mapping) and not isinstance(value, UnknownContentBlock):
            return self._run_mapping(cast("Mapping[str, Any]", value))
        return cast("Any", value)

    def _run_struct(self, value: Struct) -> Any:
        changes = {name: default for name, _, default in self.drops if getattr(value, name, default) is not default}
        for name, _, step in self.children:
            old = getattr(value, name, None)
            if old is not None and old is not UNSET:
                new = step(old)
                if new is not old:
                    changes[name] = new
        return structs.replace(value, **changes) if changes else value

    def _run_mapping(self, value: Mapping[str, Any]) -> Any:
        changed: dict[str, Any] | None = None
        for _, wire, _ in self.drops:
            if wire in value:
                changed = dict(value) if changed is None else changed
                del changed[wire]
        for _, wire, step in self.children:
            old = value.get(wire)
            if old is not None:
                new = step(old)
                if new is not old:
                    changed = dict(value) if changed is None else changed
                    changed[wire] = new
        return value if changed is None else changed


class _RenamingPlan(_StructPlan):
    """As `_StructPlan` for a type of which the revision writes some fields under another name."""

    def __init__(
        self,
        rewrite: Step | None,
        drops: list[tuple[str, str, Any]],
        children: list[tuple[str, str, Step]],
        moves: list[tuple[str, str]],
        written: type[Struct] | None = None,
    ) -> None:
        super().__init__(rewrite, drops, children)
        self.moves = moves
        self.written = written

    def _run_struct(self, value: Struct) -> Any:
        value = super()._run_struct(value)
        assert self.written is not None  # only the plan of a struct gets structs
        return self.written(**{name: getattr(value, name) for name in self.written.__struct_fields__})

    def _run_mapping(self, value: Mapping[str, Any]) -> Any:
        return _move_keys(super()._run_mapping(value), self.moves)


class _ReadingPlan(_StructPlan):
    """The names of the superset for JSON with the names of the revision."""

    def __init__(self, children: list[tuple[str, str, Step]], moves: list[tuple[str, str]]) -> None:
        super().__init__(None, [], children)
        self.moves = [(here, superset) for superset, here in moves]

    def _run_mapping(self, value: Mapping[str, Any]) -> Any:
        here = {name for name, _ in self.moves}
        # The revision has no field of the superset's name, so a value under that name is an unknown key.
        unknown = {name for _, name in self.moves if name not in here and name in value}
        if unknown:
            value = {name: item for name, item in value.items() if name not in unknown}
        return super()._run_mapping(_move_keys(value, self.moves))


def _move_keys(value: Mapping[str, Any], moves: list[tuple[str, str]]) -> Mapping[str, Any]:
    """Return ``value`` with other names for some keys: pairs of the old and the new name."""
    moved = {new: value[old] for old, new in moves if old in value}
    if not moved:
        return value
    olds = {old for old, _ in moves}
    return {**{name: item for name, item in value.items() if name not in olds}, **moved}


def _renamed_type(type_: type[Struct], renames: Mapping[str, str]) -> type[Struct]:
    """Return a subclass of ``type_`` that is encoded with other names; it is read as ``type_`` is."""
    fields: list[tuple[str, Any, Any]] = []
    for info in structs.fields(type_):
        if info.name in renames:
            options: dict[str, Any] = {"default": info.default, "default_factory": info.default_factory}
            fields.append((info.name, info.type, field(name=renames[info.name], **options)))
    return defstruct(type_.__name__, fields, bases=(type_,), kw_only=True)


def _each_item(step: Step) -> Step:
    def run(items: Any) -> Any:
        changed: list[Any] | None = None
        for index, old in enumerate(items):
            new = step(old)
            if new is not old:
                changed = list(items) if changed is None else changed
                changed[index] = new
        return items if changed is None else changed

    return run


def _each_value(step: Step) -> Step:
    def run(entries: Any) -> Any:
        changed: dict[str, Any] | None = None
        for key, old in entries.items():
            new = step(old)
            if new is not old:
                changed = dict(entries) if changed is None else changed
                changed[key] = new
        return entries if changed is None else changed

    return run


def _alternatives(rules: _Rules, members: tuple[Any, ...]) -> Step | None:
    """A union: structs by their class, JSON objects by their tag (or the only kind there is), arrays as the list."""
    by_class: dict[type, Step] = {}
    by_tag: dict[Any, Step] = {}
    tag_field: str | None = None
    for_list: Step | None = None
    for_dict: Step | None = None
    for member in members:
        step = _plan_for(rules, member)
        if step is None:
            continue
        if get_origin(member) is list:
            for_list = step
        elif get_origin(member) is dict:
            for_dict = step
        elif isinstance(member, type):
            if issubclass(member, OpenBundle):
                for_dict = step
                continue
            by_class[member] = step
            config = cast("type[Struct]", member).__struct_config__
            tag_field = config.tag_field or tag_field
            by_tag[config.tag] = step
    if not by_class and for_list is None and for_dict is None:
        return None

    def run(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            step = for_list
        elif isinstance(value, Struct):
            step = by_class.get(type(value))
        elif isinstance(value, Mapping):
            tag = cast("Mapping[str, Any]", value).get(tag_field) if tag_field else None
            step = for_dict or by_tag.get(tag)
        else:
            step = None
        return cast("Any", value if step is None else step(value))

    return run


def _type_of_params(revision: Revision, method: str) -> Any:
    return (
        revision.server_notifications.get(method)
        or revision.notifications.get(method)
        or (revision.requests.get(method) or revision.server_requests.get(method) or (None,))[0]
    )


def _type_of_mapping(revision: Revision, method: str, result: Mapping[str, Any]) -> Any:
    kind = result.get("resultType")
    if kind == "input_required":
        return InputRequiredResult
    if isinstance(result.get("task"), (Mapping, Task)) and method in _TASKABLE:
        return CreateTaskResult
    if kind == "task":
        return DetailedTask
    return (revision.requests.get(method) or revision.server_requests.get(method) or (None, None))[1]


_TASKABLE = frozenset({"tools/call", "sampling/createMessage", "elicitation/create"})
