"""Forty functions whose schemas are stored: every way of saying a type that an author may think of."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, TypedDict, TypeVar

import attrs
import msgspec
import pydantic
from annotated_types import Gt, Len

from ferrule import Context, Field, Header

T = TypeVar("T")
UserId = NewType("UserId", str)


class Metal(enum.Enum):
    BRASS = "brass"
    STEEL = "steel"


class Grade(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(enum.Enum):
    WORD = "word"
    NUMBER = 7


@dataclass
class Point:
    x: float
    y: float = 0.0


@dataclass
class Shape:
    """A named outline."""

    name: Annotated[str, Field("what it is called", min_length=1)]
    points: list[Point]
    centre: Point | None = None
    tags: set[str] = field(default_factory=set)


@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)


@dataclass
class Left:
    down: Right | None = None


@dataclass
class Right:
    up: Left | None = None


@dataclass
class Circle:
    radius: float


@dataclass
class Square:
    side: float


@dataclass
class Page(Generic[T]):
    items: list[T]
    next_cursor: str | None = None


class Options(TypedDict):
    depth: int
    verbose: NotRequired[bool]


class Span(NamedTuple):
    start: int
    end: int


class Order(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    order_id: int
    line_items: list[str] = []


class Cat(msgspec.Struct, tag="cat"):
    lives: int


class Dog(msgspec.Struct, tag="dog"):
    tricks: list[str]


@attrs.define
class Rule:
    pattern: str
    limit: int = attrs.field(default=3, validator=attrs.validators.gt(0))


class Address(pydantic.BaseModel):
    street: str
    zip_code: str = pydantic.Field(alias="zip", description="five digits")


class Person(pydantic.BaseModel):
    """Someone."""

    name: str = pydantic.Field(min_length=1, title="Full name")
    home: Address
    work: Address | None = None
    level: Literal["junior", "senior"] = "junior"
    extra: dict[str, Any] = {}


class Tree(pydantic.BaseModel):
    value: int
    branches: list[Tree] = []


def f01_nothing(): ...
def f02_scalars(a: str, b: int, c: float, d: bool): ...
def f03_defaults(a: str = "x", b: int = 3, c: float = 0.5, d: bool = False): ...
def f04_untyped(a, b=2): ...
def f05_optional(a: str | None = None, b: int | None = 3): ...
def f06_required_nullable(a: str | None): ...
def f07_union(a: int | str, b: int | list[str] | None = None): ...
def f08_lists(a: list, b: list[str], c: Sequence[int], d: list[list[float]]): ...
def f09_tuples(a: tuple[int, str], b: tuple[float, ...], c: tuple[int, int] = (1, 2)): ...
def f10_sets(a: set[int], b: frozenset[str] = frozenset()): ...
def f11_dicts(a: dict, b: dict[str, int], c: Mapping[str, list[str]], d: dict[int, bool]): ...
def f12_any(a: Any, b: list[Any], c: dict[str, Any]): ...
def f13_literal(a: Literal["x", "y"], b: Literal[1, 2] = 1, c: Literal["only"] = "only"): ...
def f14_mixed_literal(a: Literal["x", 1, True, None] = None): ...
def f15_enums(a: Metal, b: Grade = Grade.LOW, c: Mixed | None = None): ...
def f16_times(a: dt.datetime, b: dt.date, c: dt.time, d: dt.timedelta): ...
def f17_others(a: uuid.UUID, b: decimal.Decimal, c: Path, d: bytes): ...
def f18_keyword_only(a: int, *, b: int, c: int = 3): ...
def f19_positional_only(a: int, b: int = 2, /, c: int = 3): ...
def f20_mutable_defaults(a: list[int] = [1, 2], b: dict[str, int] = {"k": 1}): ...  # noqa: B006
def f21_described(a: Annotated[int, Field("how many", ge=1, le=10)], b: Annotated[str, "a plain note"] = "x"): ...
def f22_annotated_types(a: Annotated[int, Gt(3)], b: Annotated[list[str], Len(1, 4)]): ...
def f23_bounded_optional(a: Annotated[str | None, Field(max_length=5)] = None): ...
def f24_pydantic_field(a: Annotated[int, pydantic.Field(description="a size", multiple_of=5)]): ...
def f25_headers(region: Annotated[str, Header("Region")], n: Annotated[int, Field("d", header="Count")] = 1): ...
def f26_context(a: int, ctx: Context) -> str: ...
def f27_dataclass(shape: Shape): ...
def f28_dataclass_twice(a: Point, b: Point, c: list[Point] | None = None): ...
def f29_recursive(root: Node): ...
def f30_mutual(left: Left | None = None): ...
def f31_union_of_dataclasses(shape: Circle | Square, more: list[Circle | Square] = []): ...  # noqa: B006
def f32_generic(page: Page[Point], words: Page[str] | None = None): ...
def f33_typed_dict(options: Options): ...
def f34_named_tuple(span: Span): ...
def f35_struct(order: Order): ...
def f36_tagged(animal: Cat | Dog): ...
def f37_attrs(rule: Rule): ...
def f38_pydantic(person: Person, others: list[Person] | None = None): ...
def f39_pydantic_recursive(tree: Tree, user: UserId): ...


def f40_docstring(city: str, days: int = 3, options: Options | None = None):
    """Forecast the weather.

    Over several days.

    Args:
        city: where, as people
            say it.
        days (int): how many.
        options: how to do it.
    """


FUNCTIONS = [value for name, value in sorted(globals().items()) if name[0] == "f" and name[1:3].isdigit()]
