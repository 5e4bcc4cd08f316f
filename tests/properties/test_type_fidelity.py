"""Published schemas and conversions say the same, for generated types and values.

- What the exact input schema accepts, formats included, the conversion accepts.
- What the conversion accepts is, as the function gets it, a value of the published schema in either mode.
- What a tool returns fits the output schema that is published to each revision, by jsonschema-rs and by Ajv with the
  options of the TypeScript SDK, and a right value is never refused.

``FERRULE_TYPE_EXAMPLES`` is the number of examples of each property (120 without it).
"""

from __future__ import annotations

import datetime as dt
import enum
import ipaddress
import json
import os
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypedDict, TypeVar, Union, get_args

import annotated_types
import attrs
import jsonschema_rs
import msgspec
import pydantic
import pydantic.dataclasses
import pytest
import typing_extensions as te
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule import Field, MCPServer
from ferrule.app.errors import ResultError, SignatureError
from ferrule.app.results.result_plan import to_json_value
from ferrule.app.signatures import adapters
from ferrule.app.signatures.coercion import InvalidArguments
from ferrule.wire.revisions import REVISIONS
from tests.properties import typed_dicts_plain, typed_dicts_postponed

EXAMPLES = int(os.environ.get("FERRULE_TYPE_EXAMPLES", "120"))
MANY = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


# --- types ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A type, its right values, and whether pydantic can hold it and a set can hold its values."""

    hint: Any
    values: st.SearchStrategy[Any]
    for_pydantic: bool = True
    hashable: bool = False

    def __repr__(self) -> str:
        return f"Case({self.hint})"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 7


class Mixed(enum.Enum):
    TEXT = "t"
    NUMBER = 3
    HALF = 0.5
    YES = True
    NOTHING = None


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2


class Rights(enum.Flag):
    A = 1
    B = 4


Json = te.TypeAliasType("Json", "int | str | list[Json]")


class Text(enum.StrEnum):
    A = "a"


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Celsius(float):
    pass


class Stamp(dt.datetime):
    pass


class Day(dt.date):
    pass


class Money(Decimal):
    pass


UserId = NewType("UserId", int)
Plain = typed_dicts_plain
Postponed = typed_dicts_postponed

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
whole = st.integers(-(2**53), 2**53)
numbers = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**6), 10**6).map(float)
offsets = st.integers(-23, 23).map(lambda hours: dt.timezone(dt.timedelta(hours=hours)))
stamps = st.datetimes(dt.datetime(1000, 1, 1)) | st.datetimes(dt.datetime(1000, 1, 1), timezones=offsets)
days = st.dates(dt.date(1000, 1, 1))
decimals = st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9)
spans = st.timedeltas(dt.timedelta(days=-1000), dt.timedelta(days=1000))

LEAVES: list[Case] = [
    Case(str, texts, hashable=True),
    Case(int, whole, hashable=True),
    Case(float, numbers),
    Case(bool, st.booleans(), hashable=True),
    Case(type(None), st.none()),
    Case(Any, texts | whole | st.none()),
    Case(dt.datetime, stamps),
    Case(dt.date, days, hashable=True),
    Case(dt.time, st.times() | st.times(timezones=offsets)),
    Case(dt.timedelta, spans, hashable=True),
    Case(Decimal, decimals),
    Case(uuid.UUID, st.uuids(), hashable=True),
    Case(bytes, st.binary(max_size=5), for_pydantic=False, hashable=True),
    Case(Path, texts.filter(lambda text: "\0" not in text).map(Path), hashable=True),
    Case(PurePosixPath, st.just(PurePosixPath("a/b")), hashable=True),
    Case(Colour, st.sampled_from(Colour), hashable=True),
    Case(Level, st.sampled_from(Level), hashable=True),
    Case(Mixed, st.sampled_from(Mixed), for_pydantic=False),
    Case(Text, st.sampled_from(Text), hashable=True),
    Case(Literal["a", "b"], st.sampled_from(["a", "b"]), hashable=True),
    Case(Literal[1, "x", None], st.sampled_from([1, "x", None])),
    Case(Literal[True, 2], st.sampled_from([True, 2]), for_pydantic=False),
    Case(Name, texts.map(Name), for_pydantic=False, hashable=True),
    Case(Count, whole.map(Count), for_pydantic=False, hashable=True),
    Case(Celsius, numbers.map(Celsius), for_pydantic=False),
    Case(Stamp, st.just(Stamp(2026, 1, 2, 3, 4, 5)), for_pydantic=False),
    Case(Day, st.just(Day(2026, 1, 2)), for_pydantic=False),
    Case(Money, decimals.map(Money), for_pydantic=False),
    Case(UserId, whole, hashable=True),
    Case(Annotated[int, Field("n", ge=1, le=9)], st.integers(1, 9), for_pydantic=False, hashable=True),
    Case(Annotated[int, Field(gt=1, lt=9, multiple_of=2)], st.sampled_from([2, 4, 6, 8]), for_pydantic=False),
    Case(Annotated[float, Field(gt=0.5)], st.floats(1, 5), for_pydantic=False),
    Case(Annotated[str, Field(min_length=2, pattern="^a")], st.just("ab"), for_pydantic=False, hashable=True),
    Case(Annotated[int, annotated_types.Gt(3)], st.integers(4, 9), hashable=True),
    Case(Annotated[str, annotated_types.MaxLen(3)], st.just("abc"), hashable=True),
    Case(Annotated[int, pydantic.Field(ge=1, description="d")], st.integers(1, 9), hashable=True),
    Case(Annotated[dt.datetime, msgspec.Meta(tz=True)], st.datetimes(timezones=offsets), for_pydantic=False),
    Case(Annotated[int, Field(ge=0)] | float, numbers, for_pydantic=False),
    Case(Level | float, numbers | st.sampled_from(Level), for_pydantic=False),
    Case(Access, st.sampled_from([Access(0), *Access, Access.READ | Access.WRITE]), for_pydantic=False),
    Case(Rights, st.sampled_from([Rights(0), *Rights, Rights.A | Rights.B]), for_pydantic=False),
    Case(Literal[Colour.RED, 5], st.sampled_from([Colour.RED, 5]), for_pydantic=False),
    Case(Literal["1", 1], st.sampled_from(["1", 1]), for_pydantic=False),
    Case(Annotated[list[int], Field(min_length=1, max_length=2)], st.just([1, 2]), for_pydantic=False),
    Case(Annotated[dict[str, int], Field(min_length=1)], st.just({"a": 1}), for_pydantic=False),
    Case(Annotated[bytes, Field(max_length=3)], st.binary(max_size=3), for_pydantic=False),
    Case(Annotated[Decimal, pydantic.Field(ge=0)], st.just(Decimal("1.5"))),
    Case(ipaddress.IPv4Address, st.ip_addresses(v=4), hashable=True),
    Case(ipaddress.IPv6Address, st.just(ipaddress.IPv6Address("fe80::1%eth0")), hashable=True),
    Case(Fraction, st.fractions(0, 5, max_denominator=9), for_pydantic=False),
    Case(pydantic.AnyUrl, st.just(pydantic.AnyUrl("https://exämple.org/a b"))),
    Case(pydantic.PositiveInt, st.integers(1, 9)),
    Case(pydantic.StrictInt, whole),
    Case(pydantic.AwareDatetime, st.datetimes(dt.datetime(1000, 1, 1), timezones=offsets)),
    Case(Json, st.recursive(whole | texts, lambda inner: st.lists(inner, max_size=2)), for_pydantic=False),
]

T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    """Holds one thing."""

    it: T
    more: list[T] = field(default_factory=list)


@dataclass
class Node:
    v: int
    kids: list[Node] = field(default_factory=list)


@dataclass
class Base:
    a: int
    b: str = "b"


@dataclass
class Derived(Base):
    c: list[int] = field(default_factory=list)


class Circle(msgspec.Struct, tag="circle"):
    r: float


class Square(msgspec.Struct, tag="square", rename="camel"):
    side_length: int


class Cat(pydantic.BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(pydantic.BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    day: dt.date
    stamp: dt.datetime
    colour: Colour = Colour.RED
    pair: tuple[int, str] = (1, "a")
    unique: frozenset[int] = frozenset()
    key: uuid.UUID | None = None


class Aliased(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    some_n: int = pydantic.Field(alias="someN")
    span: dt.timedelta = dt.timedelta(0)


class Root(pydantic.RootModel[list[int]]):
    pass


class Generic1(pydantic.BaseModel, Generic[T]):
    it: T
    more: dict[str, T] = {}


class Sent(pydantic.BaseModel):
    """Sent otherwise than it is taken."""

    n: int = pydantic.Field(serialization_alias="outN")
    hidden: int = pydantic.Field(default=1, exclude=True)

    @pydantic.computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return self.n * 2

    @pydantic.field_serializer("n")
    def _as_text(self, value: int) -> str:
        return str(value)


@pydantic.dataclasses.dataclass
class Checked:
    a: pydantic.PositiveInt
    b: dt.date = dt.date(2026, 1, 2)


@dataclass(kw_only=True)
class Particular:
    shared: ClassVar[int] = 1
    a: int
    made: int = field(init=False, default=5)
    b: str = "b"


@attrs.define
class Converted:
    _hidden: int
    n: int = attrs.field(converter=int, default=3)
    at: dt.datetime | None = None


class Closed(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    a: int
    b: int | msgspec.UnsetType = msgspec.UNSET
    c: list[int] = []


class Row(msgspec.Struct, array_like=True):
    a: int
    b: Row | None = None


nodes = st.recursive(
    st.builds(Node, whole), lambda inner: st.builds(Node, whole, st.lists(inner, max_size=2)), max_leaves=4
)
strict = st.builds(
    Strict,
    day=days,
    stamp=stamps,
    colour=st.sampled_from(Colour),
    pair=st.tuples(whole, texts),
    unique=st.frozensets(whole, max_size=3),
    key=st.none() | st.uuids(),
)
partials = st.fixed_dictionaries({"a": whole, "b": texts}, optional={"c": st.none() | whole})
totals = st.fixed_dictionaries(
    {"a": whole}, optional={"b": texts, "c": st.lists(whole, max_size=2), "d": numbers, "e": st.booleans()}
)
inherited = st.fixed_dictionaries({"a": whole, "b": texts, "d": texts}, optional={"c": st.none() | whole, "e": totals})

CLASSES: list[Case] = [
    Case(Box[int], st.builds(Box, whole, st.lists(whole, max_size=2)), for_pydantic=False),
    Case(Box[Colour], st.builds(Box, st.sampled_from(Colour)), for_pydantic=False),
    Case(Node, nodes, for_pydantic=False),
    Case(Base, st.builds(Base, whole, texts) | st.builds(Derived, whole, texts, st.lists(whole, max_size=2))),
    Case(Base | None, st.none() | st.builds(Derived, whole)),
    Case(Circle | Square, st.builds(Circle, numbers) | st.builds(Square, whole), for_pydantic=False),
    Case(Annotated[Cat | Dog, pydantic.Field(discriminator="kind")], st.builds(Cat) | st.builds(Dog, name=texts)),
    Case(Cat | Dog, st.builds(Cat) | st.builds(Dog, name=texts)),
    Case(Strict, strict),
    Case(Aliased, st.builds(Aliased, some_n=whole, span=spans)),
    Case(Root, st.lists(whole, max_size=2).map(Root)),
    Case(Generic1[int], st.builds(Generic1[int], it=whole)),
    Case(Sent, st.builds(Sent, n=whole)),
    Case(Checked, st.builds(Checked, a=st.integers(1, 9), b=days)),
    Case(Particular, st.builds(Particular, a=whole, b=texts), for_pydantic=False),
    Case(Converted, st.builds(Converted, hidden=whole, n=whole, at=st.none() | stamps), for_pydantic=False),
    Case(Closed, st.builds(Closed, whole, whole, st.lists(whole, max_size=2)), for_pydantic=False),
    Case(Row, st.recursive(st.builds(Row, whole), lambda inner: st.builds(Row, whole, inner)), for_pydantic=False),
    *(
        Case(module, values, for_pydantic=False)
        for kind in (Plain, Postponed)
        for module, values in zip(kind.ALL, (totals, partials, inherited), strict=True)
    ),
]


# Made of what was drawn, which no type checker can follow.
MAKE_MODEL: Any = pydantic.create_model
MAKE_NAMED: Any = NamedTuple
MAKE_TYPED: Any = TypedDict


@st.composite
def classes(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    """A new class of one of the libraries, with up to three fields, some with defaults."""
    kind = draw(st.sampled_from(["dataclass", "attrs", "msgspec", "array", "pydantic", "named", "typed"]))
    parts = draw(st.lists(inner, min_size=1, max_size=3))
    if kind == "pydantic":
        parts = [part for part in parts if part.for_pydantic] or [LEAVES[0]]
    names = [f"f{at}" for at in range(len(parts))]
    optional = draw(st.integers(0, len(parts)))
    first_default = len(parts) - optional
    values = {name: part.values for name, part in zip(names, parts, strict=True)}
    # Only constants may be defaults; where the type has none that is one, the field allows null.
    hints: list[Any] = []
    for at, part in enumerate(parts):
        hints.append(part.hint if at < first_default else Union[part.hint, None])
    fields = list(zip(names, hints, range(len(parts)), strict=True))
    made: Any
    if kind == "dataclass":
        made = make_dataclass(
            "Made", [(n, h) if at < first_default else (n, h, field(default=None)) for n, h, at in fields]
        )
    elif kind == "attrs":
        made = attrs.make_class(
            "Made",
            {n: attrs.field(type=h, default=attrs.NOTHING if at < first_default else None) for n, h, at in fields},
        )
    elif kind in ("msgspec", "array"):
        made = msgspec.defstruct(
            "Made",
            [(n, h) if at < first_default else (n, h, None) for n, h, at in fields],
            array_like=kind == "array",
            forbid_unknown_fields=draw(st.booleans()),
            tag=draw(st.sampled_from([None, "t"])),
            module=__name__,
        )
    elif kind == "pydantic":
        made = MAKE_MODEL(
            "Made",
            __config__=pydantic.ConfigDict(
                strict=draw(st.booleans()), extra=draw(st.sampled_from(["ignore", "forbid"]))
            ),
            **{n: (h, ... if at < first_default else None) for n, h, at in fields},
        )
    elif kind == "named":
        made = MAKE_NAMED("Made", [(n, h) for n, h, _ in fields])
        made.__new__.__defaults__ = (None,) * optional
        made._field_defaults = dict.fromkeys(names[first_default:])
    else:
        made = MAKE_TYPED("Made", {n: h for n, h, _ in fields}, total=draw(st.booleans()))
        required = names if made.__total__ else []
        whole_dicts = st.fixed_dictionaries(
            {n: values[n] for n in required}, optional={n: values[n] for n in names if n not in required}
        )
        return Case(made, whole_dicts, for_pydantic=False)
    needed = {n: values[n] for n in names[:first_default]}
    extra = {n: values[n] for n in names[first_default:]}
    return Case(
        made,
        st.fixed_dictionaries(needed, optional=extra).map(lambda given: made(**given)),
        for_pydantic=kind == "pydantic" or (kind == "dataclass" and all(part.for_pydantic for part in parts)),
    )


@st.composite
def containers(draw: st.DrawFn, inner: st.SearchStrategy[Case]) -> Case:
    """A list, dict, tuple, set or union of generated types."""
    kind = draw(st.sampled_from(["list", "sequence", "dict", "mapping", "keys", "tuple", "pair", "set", "none", "or"]))
    one = draw(inner)
    if kind == "list":
        return Case(list[one.hint], st.lists(one.values, max_size=3), one.for_pydantic)
    if kind == "sequence":
        return Case(Sequence[one.hint], st.lists(one.values, max_size=3), False)
    if kind in ("dict", "mapping"):
        hint = dict[str, one.hint] if kind == "dict" else Mapping[str, one.hint]
        return Case(hint, st.dictionaries(texts, one.values, max_size=3), one.for_pydantic and kind == "dict")
    if kind == "keys":
        return Case(dict[int, one.hint], st.dictionaries(whole, one.values, max_size=3), False)
    if kind == "tuple":
        return Case(tuple[one.hint, ...], st.lists(one.values, max_size=3).map(tuple), one.for_pydantic)
    two = draw(inner)
    both = one.for_pydantic and two.for_pydantic
    if kind == "pair":
        return Case(tuple[one.hint, two.hint], st.tuples(one.values, two.values), both)
    if kind == "set":
        part = one if one.hashable else LEAVES[1]
        return Case(set[part.hint], st.sets(part.values, max_size=3), part.for_pydantic)
    if kind == "none":
        return Case(Union[one.hint, None], st.none() | one.values, one.for_pydantic)
    if not both and (is_of_pydantic(one) or is_of_pydantic(two)):
        return one  # pydantic reads such a union whole, and would have to know both
    return Case(Union[one.hint, two.hint], one.values | two.values, both)


def is_of_pydantic(case: Case) -> bool:
    return any(hasattr(part, "__pydantic_core_schema__") for part in (case.hint, *get_args(case.hint)))


known = st.sampled_from(LEAVES) | st.sampled_from(CLASSES)
cases = st.recursive(known, lambda inner: classes(inner) | containers(inner), max_leaves=5)


# --- values -----------------------------------------------------------------------------------------------------------

JUNK: list[Any] = [
    *(None, True, False, 0, 1, -1, 3, 3.0, 2.5, 1e300, 2**60, "", "a", "5", "true", "null", "[1]", "{}", "2026-01-02"),
    *("2026-01-02T03:04:05", "2026-01-02T03:04:05Z", "03:04:05", "P1D", "P1Y", "aGk=", "red", "cat", "1.5"),
    *([], [1], ["a"], [[]], {}, {"a": 1}, {"kind": "cat"}, {"it": 1}, {"type": "circle", "r": 1}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every part."""
    yield path
    if isinstance(value, dict):
        for key, part in value.items():
            yield from places(part, (*path, key))
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from places(part, (*path, at))


def replaced(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    made = dict(value) if isinstance(value, dict) else list(value)
    made[path[0]] = replaced(value[path[0]], path[1:], new)
    return made


@st.composite
def json_near(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> Any:
    """JSON that is a right value, or one with a part exchanged, left out or added."""
    try:
        value = msgspec.json.decode(msgspec.json.encode(to_json_value(draw(values))))
    except ResultError:
        return draw(st.sampled_from(JUNK))
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(list(places(value))))
        value = replaced(value, path, draw(st.sampled_from(JUNK)))
    if isinstance(value, dict) and value and draw(st.integers(0, 4)) == 0:
        value = {key: part for key, part in value.items() if key != draw(st.sampled_from(list(value)))}
    if isinstance(value, dict) and draw(st.integers(0, 6)) == 0:
        value = {**value, "unknown": 1}
    return value


# --- judges -----------------------------------------------------------------------------------------------------------


def fits(schema: dict[str, Any], value: Any, *, formats: bool) -> bool:
    return jsonschema_rs.validator_for(schema, validate_formats=formats).is_valid(value)


def fits_model(schema: dict[str, Any], value: Any) -> bool:
    """Model schemas leave out nulls that mean the same as absence."""
    return fits(with_nulls(schema), value, formats=False)


def with_nulls(schema: Any) -> Any:
    if isinstance(schema, list):
        return [with_nulls(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: part if key == "default" else with_nulls(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made["properties"] = {
            name: part if name in schema.get("required", ()) else {"anyOf": [part, {"type": "null"}]}
            for name, part in made["properties"].items()
        }
    return made


class Ajv:
    """One long-running process that is asked by lines."""

    def __init__(self, node: str, folder: Path) -> None:
        script = Path(__file__).parent.parent / "peers" / "ajv_lines.cjs"
        self._process = subprocess.Popen(
            [node, str(script)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "NODE_PATH": str(folder / "node_modules")},
        )

    def problems(self, schema: Any, values: list[Any]) -> list[str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"schema": schema, "values": values}) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            return [answer["error"]]
        return [f"{draft}: {found}" for draft, told in answer.items() for found in told if found is not None]

    def aclose(self) -> None:
        self._process.communicate(timeout=30)


@pytest.fixture(scope="module")
def ajv(peer_node: tuple[str, Path]) -> Iterator[Ajv]:
    node, folder = peer_node
    if not (folder / "node_modules" / "ajv-formats").is_dir():
        pytest.skip("no ajv among the npm peers (scripts/test installs it)")
    judge = Ajv(node, folder)
    yield judge
    judge.aclose()


def served(hint: Any, *, returns: bool, schema: Literal["model", "exact"]) -> Any:
    """Return the tool, or ``None`` if its registration is refused because a type cannot be served."""

    def function(p: Any = None) -> Any: ...

    function.__annotations__ = {"return": hint} if returns else {"p": hint}
    function.__defaults__ = (None,) if returns else None
    try:
        return MCPServer("x").add_tool(function, schema=schema)
    except SignatureError:
        return None


# --- properties -------------------------------------------------------------------------------------------------------


@MANY
@given(cases, st.data())
def test_arguments_are_what_the_published_schema_says(case: Case, data: st.DataObject) -> None:
    tool = served(case.hint, returns=False, schema="exact")
    if tool is None:
        return
    exact, model = tool.spec.input_schema("exact"), tool.spec.input_schema("model")
    for _ in range(3):
        arguments = {"p": data.draw(json_near(case.values))}
        is_right = fits(exact, arguments, formats=True)
        try:
            taken = tool.spec.bind(arguments)["p"]
        except InvalidArguments as error:
            if is_right:
                pytest.fail(f"{case.hint}: {arguments} fits {exact} and is refused: {error}")
            continue
        assert not is_right or fits_model(model, arguments), f"{case.hint}: {arguments} does not fit {model}"
        try:
            got = {"p": msgspec.json.decode(msgspec.json.encode(adapters.to_json(taken)))}
        except (TypeError, ValueError):
            continue
        assert fits(exact, got, formats=False), f"{case.hint}: {arguments} became {got}, which breaks {exact}"
        assert fits_model(model, got), f"{case.hint}: {arguments} became {got}, which breaks {model}"


@MANY
@given(cases, st.sampled_from(["model", "exact"]), st.data())
def test_results_fit_what_is_published_to_each_revision(
    ajv: Ajv, case: Case, mode: Literal["model", "exact"], data: st.DataObject
) -> None:
    tool = served(case.hint, returns=True, schema=mode)
    if tool is None:
        return
    value = data.draw(case.values)
    junk = data.draw(json_near(case.values))
    judged: dict[str, tuple[Any, list[Any]]] = {}
    for revision in REVISIONS.values():
        schema = msgspec.to_builtins(tool.definition(revision)).get("outputSchema")
        sent: list[Any] = []
        for made in (value, junk):
            try:
                result = tool.plan.project(made, revision)
            except ResultError as error:
                if made is value:
                    pytest.fail(f"{case.hint}: {made!r} is refused: {error}")
                continue
            if schema is not None and revision.structured_output != "none":
                sent.append(msgspec.json.decode(msgspec.json.encode(result.structured_content)))
        if schema is None:
            continue
        for structured in sent:
            assert fits(schema, structured, formats=True), f"{case.hint}: {structured} breaks {schema}"
        key = json.dumps([schema, sent])
        judged[key] = schema, sent
    for schema, sent in judged.values():
        assert ajv.problems(schema, sent) == [], f"{case.hint}: {sent} breaks {schema}"
