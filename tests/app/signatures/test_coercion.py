"""Arguments: text stays text, JSON text becomes what is declared, and every mistake is explained to a model."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import attrs
import msgspec
import pydantic
import pytest

from ferrule import Field
from ferrule.app.signatures.coercion import InvalidArguments, lenient
from ferrule.app.signatures.function import compile_function


def bind(function, **arguments):
    return compile_function(function).bind(arguments)


@dataclass
class Opts:
    tags: list[str]
    depth: int = 1


class Model(pydantic.BaseModel):
    tags: list[str]
    inner: dict[str, int] = {}


@attrs.define
class Attrs:
    n: int = attrs.field(validator=attrs.validators.gt(0))


@dataclass
class Box:
    n: Annotated[int, annotated_types.Gt(3)]


@dataclass
class Even:
    n: Annotated[int, annotated_types.Predicate(lambda value: value % 2 == 0)]


class Metal(enum.Enum):
    BRASS = "brass"


TEXTS = ["12345", "true", "null", "1e3", '{"a": 1}', "[1]", '"quoted"', "", " 5 ", "NaN"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("hint", [str, str | None, int | str, str | list[str], Any, Annotated[str, Field("d")]])
def test_a_text_parameter_gets_the_very_same_text(text, hint):
    """Digits, booleans and JSON that a user typed as text are text."""

    def function(p): ...

    function.__annotations__["p"] = hint
    assert bind(function, p=text) == {"p": text}


def test_json_text_is_decoded_where_a_list_dict_or_model_is_declared():
    """Some clients send structured arguments as text."""

    def function(
        markets: list[str] | None,
        opts: Opts,
        model: Model,
        table: dict[str, int],
        pair: tuple[int, int],
        unique: set[int],
    ): ...

    made = bind(
        function,
        markets='["us"]',
        opts='{"tags": ["a"], "depth": "2"}',
        model='{"tags": "[\\"b\\"]", "inner": {"k": 1}}',
        table='{"k": "1"}',
        pair="[1, 2]",
        unique="[1, 1]",
    )
    assert made == {
        "markets": ["us"],
        "opts": Opts(["a"], 2),
        "model": Model(tags=["b"], inner={"k": 1}),
        "table": {"k": 1},
        "pair": (1, 2),
        "unique": {1},
    }


def test_numbers_booleans_and_null_are_read_from_text_only_as_whole_json():
    """The lenient forms are those that can mean one thing only."""

    def function(i: int = 0, f: float = 0, b: bool = False, n: int | None = 0): ...

    assert bind(function, i="5", f="1e3", b="true", n="null") == {"i": 5, "f": 1000.0, "b": True, "n": None}
    for bad in ({"i": "5 apples"}, {"i": "5.5"}, {"b": "True"}, {"b": "yes"}, {"b": 1}, {"i": "٥"}, {"f": "NaN"}):
        with pytest.raises(InvalidArguments):
            bind(function, **bad)


def test_a_number_is_never_made_text():
    """One direction only: text is exact, so a number sent for it is a mistake to tell."""

    def function(p: str): ...

    with pytest.raises(InvalidArguments, match="expected string, got integer"):
        bind(function, p=5)


def test_a_whole_float_is_an_integer():
    """3.0 is an integer in JSON Schema; JavaScript does not distinguish the two."""

    def function(i: int, more: list[int]): ...

    assert bind(function, i=3.0, more=[1, 2.0]) == {"i": 3, "more": [1, 2]}
    with pytest.raises(InvalidArguments, match=r"more\[1\].*expected integer"):
        bind(function, i=1, more=[1, 2.5])


def test_null_for_a_parameter_with_a_default_counts_as_left_out():
    """Models that fill in every property send null for those that they do not mean."""

    def function(i: int = 7, s: str | None = "x"): ...

    assert bind(function, i=None, s=None) == {"i": 7, "s": None}


def test_values_keep_their_declared_types():
    """What the schema calls a string is what Python calls a date."""

    def function(when: dt.datetime, key: uuid.UUID, price: Decimal, where: Path, raw: bytes, metal: Metal): ...

    made = bind(
        function,
        when="2026-01-02T03:04:05Z",
        key="12345678123456781234567812345678",
        price="1.10",
        where="a/b",
        raw="aGk=",
        metal="brass",
    )
    assert made["when"] == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert made["key"] == uuid.UUID(int=0x12345678123456781234567812345678)
    assert made["price"] == Decimal("1.10")
    assert made["where"] == Path("a/b")
    assert made["raw"] == b"hi"
    assert made["metal"] is Metal.BRASS


def test_keys_are_converted_too():
    """JSON has text keys only; ``dict[int, …]`` is declared all the same."""

    def function(table: dict[int, bool], days: dict[dt.date, int] | None = None): ...

    made = bind(function, table={"1": True}, days={"2026-01-02": 3})
    assert made == {"table": {1: True}, "days": {dt.date(2026, 1, 2): 3}}
    assert bind(function, table='{"1": "true"}')["table"] == {1: True}
    with pytest.raises(InvalidArguments):
        bind(function, table={"x": True})


def test_values_that_are_python_already_pass():
    """`app.call_tool` in process hands over what the caller has."""

    def function(opts: Opts, model: Model, when: dt.date): ...

    opts, model, when = Opts(["a"]), Model(tags=[]), dt.date(2026, 1, 2)
    assert bind(function, opts=opts, model=model, when=when) == {"opts": opts, "model": model, "when": when}


def test_defaults_are_the_functions_own_objects():
    """A mutable default behaves as in a plain call; nothing is copied or shared anew."""
    default: list[int] = [1]

    def function(a: list[int] = default, b: dict[str, int] | None = None): ...

    assert bind(function)["a"] is default


def test_every_problem_is_named_at_once_with_its_path():
    """With one problem per call, a model would need as many calls as there are problems."""

    def function(city: str, days: int = 3, opts: Opts | None = None, level: Literal["low", "high"] = "low"): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function, days="soon", citty="Oslo", opts={"tags": ["a", 5]}, level="middle")
    text = str(caught.value)
    assert {problem.path for problem in caught.value.problems} == {"city", "days", "citty", "opts.tags[1]", "level"}
    for part in (
        "`city`: required, send string",
        "`days`: expected integer, got string",
        "`opts.tags[1]`: expected string, got integer",
        "did you mean `city`",
        "Parameters: city (string, required), days (integer)",
        'level (one of "low", "high")',
    ):
        assert part in text
    assert "Oslo" not in text
    assert "soon" not in text


def test_unknown_names_are_refused_and_the_valid_ones_named():
    """A misspelt optional parameter would otherwise be ignored in silence."""

    def function(city: str = "x"): ...

    def nothing(): ...

    with pytest.raises(InvalidArguments, match="there is no such parameter"):
        bind(function, **{"x" * 500: 1})
    with pytest.raises(InvalidArguments, match="Parameters: none"):
        bind(nothing, a=1)
    assert bind(nothing) == {}


def test_a_failed_repair_describes_the_sent_value():
    """The repaired value is made by Ferrule; the message describes the value that was sent."""

    def function(rows: list[int]): ...

    with pytest.raises(InvalidArguments, match="`rows`: expected array, got string"):
        bind(function, rows='["a"]')


def test_arguments_are_never_changed():
    """Middleware and logs may still hold them."""

    def function(opts: Opts, rows: list[int]): ...

    arguments: dict[str, Any] = {"opts": {"tags": '["a"]'}, "rows": [1.0]}
    assert compile_function(function).bind(arguments) == {"opts": Opts(["a"]), "rows": [1]}
    assert arguments == {"opts": {"tags": '["a"]'}, "rows": [1.0]}
    assert isinstance(arguments["rows"][0], float)


@pytest.mark.parametrize(
    ("hint", "good", "bad"),
    [
        (Annotated[int, Field(ge=1, le=5)], 5, 6),
        (Annotated[str, Field(pattern="^a")], "ab", "b"),
        (Annotated[list[int], Field(min_length=1)], [1], []),
        (Annotated[int, msgspec.Meta(multiple_of=5)], 10, 11),
        (Annotated[int | None, Field(ge=1)], None, 0),
        (Annotated[int, pydantic.Field(gt=3)], 4, 3),
        (Attrs, {"n": 1}, {"n": 0}),
    ],
)
def test_constraints_are_enforced(hint, good, bad):
    """A published bound that is not kept is worse than none."""

    def function(p): ...

    function.__annotations__["p"] = hint
    bind(function, p=good)
    with pytest.raises(InvalidArguments):
        bind(function, p=bad)


def test_foreign_constraints_hold_inside_a_dataclass_too():
    """msgspec does not know annotated_types; a class that uses it is decoded field by field."""

    def function(box, even=None): ...

    function.__annotations__ |= {"box": Box, "even": Even | None}
    assert bind(function, box={"n": 4}, even={"n": 2}) == {"box": Box(4), "even": Even(2)}
    with pytest.raises(InvalidArguments, match=r"box\.n"):
        bind(function, box={"n": 3})
    with pytest.raises(InvalidArguments, match=r"even\.n"):
        bind(function, box={"n": 4}, even={"n": 3})


def test_deep_arguments_are_refused_not_crashed_on():
    """A recursion error must not become an internal error."""

    def function(rows: list[Any], table: dict[str, Any] | None = None): ...

    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidArguments):
        compile_function(function).bind({"rows": "x", "table": deep})


def test_arguments_that_are_no_object_are_an_error():
    """The kernel lets only objects through; in process anything may come."""

    def function(a: int): ...

    with pytest.raises(InvalidArguments, match="expected object"):
        compile_function(function).bind([1])  # type: ignore[arg-type]


def test_a_flood_of_unknown_names_costs_what_is_shown(monkeypatch):
    """A peer chooses how many names it sends; a suggestion is looked for only where it is shown."""
    asked: list[str] = []

    def counted(name, *_args, **_options):
        asked.append(name)
        return []

    monkeypatch.setattr("difflib.get_close_matches", counted)

    def function(city_name: str, amount: int = 0): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function, **{f"city_nam{number}": 1 for number in range(25_000)})
    assert len(asked) < 20
    assert len(caught.value.problems) == 20
    assert len(str(caught.value)) < 3_000


@pytest.mark.parametrize("count", [1, 30, 31, 32, 33, 500])
def test_every_part_is_repaired(count):
    """What is taken depends on the value and its type, never on how many of them came."""

    def function(numbers: list[int], table: dict[str, int], model: Rows): ...

    texts = [str(number) for number in range(count)]
    made = bind(
        function, numbers=texts, table=dict.fromkeys(texts, "7"), model={"rows": [f"[{text}]" for text in texts]}
    )
    assert made["numbers"] == list(range(count))
    assert set(made["table"].values()) == {7}
    assert made["model"].rows == [[number] for number in range(count)]


class Rows(pydantic.BaseModel):
    rows: list[list[int]]


@dataclass
class Left:
    left: int
    more: int = 0


@dataclass
class Right:
    right: str
    more: int = 0


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (list[str] | list[int], [3.0], [3]),
        (list[int] | list[str], [3.0], [3]),
        (list[str] | list[int | None], [None, 3.0], [None, 3]),
        (list[str] | tuple[str, int], ["a", 3.0], ("a", 3)),
        (list[str] | list[float], [3.0], [3.0]),
        (list[str] | list[list[int]], [[3.0]], [[3]]),
    ],
)
def test_a_union_of_arrays_is_repaired_for_the_one_that_most_items_fit(hint: Any, value: Any, expected: Any) -> None:
    def function(p):
        pass

    function.__annotations__["p"] = hint
    assert bind(function, p=value) == {"p": expected}


class Unset(enum.Enum):
    NOTHING = None
    NO = False
    ONE = 1


@dataclass
class Settings:
    name: str
    mode: Unset | bool | int | None


@pytest.mark.parametrize("mode", [None, False, 1])
def test_a_plain_value_that_several_members_accept_is_no_container(mode: Any) -> None:
    """Beside a mistake elsewhere, which is what the error is about."""

    def function(p: Settings): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function, p={"name": True, "mode": mode})
    assert [each.path for each in caught.value.problems] == ["p.name"]


def test_a_union_of_classes_blames_the_one_that_was_meant():
    """The path of a mistake inside one member is not shown as if another member had it."""

    def function(p: Left | Right): ...

    for value, path in (({"left": "x"}, "p.left"), ({"right": 5}, "p.right")):
        with pytest.raises(InvalidArguments) as caught:
            bind(function, p=value)
        assert [problem.path for problem in caught.value.problems] == [path]
    with pytest.raises(InvalidArguments) as caught:
        bind(function, p={"more": 1})
    assert [problem.path for problem in caught.value.problems] == ["p"]
    assert "`left`" in str(caught.value)
    assert "`right`" in str(caught.value)


class Level(enum.IntEnum):
    LOW = 1


@pytest.mark.parametrize(
    ("hint", "value", "expected"),
    [
        (Level | float, 3, 3.0),
        (Level | float, 1, Level.LOW),
        (Literal[1] | float, 2, 2.0),
        (Annotated[int, Field(ge=0)] | float, -1, -1.0),
        (Annotated[int, Field(ge=0)] | float, 1, 1),
        (Literal[1.5, 2.0], 2, 2.0),
        (Level, 1.0, Level.LOW),
    ],
)
def test_a_number_that_one_member_refuses_is_another_members(hint, value, expected):
    """A schema with ``anyOf`` takes what any member takes, and 2 and 2.0 are one number in JSON."""

    def function(p): ...

    function.__annotations__["p"] = hint
    made = bind(function, p=value)["p"]
    assert made == expected
    assert type(made) is type(expected)


def test_a_truth_value_is_no_number():
    """JSON Schema distinguishes them; pydantic's lax mode does not."""

    class Numbers(pydantic.BaseModel):
        i: int = 0
        f: float = 0
        b: bool = False

    def function(model: Numbers): ...

    function.__annotations__["model"] = Numbers
    for wrong in ({"i": True}, {"f": False}, {"b": 1}, {"b": 0.0}):
        with pytest.raises(InvalidArguments):
            bind(function, model=wrong)
    assert bind(function, model={"i": 3.0, "f": 2, "b": True})["model"] == Numbers(i=3, f=2, b=True)


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)

    day: dt.date
    metal: Metal
    key: uuid.UUID
    pair: tuple[int, str]
    unique: set[int]
    price: Decimal = Decimal(1)


def test_a_strict_model_takes_what_its_schema_takes():
    """JSON has no dates and no tuples; strict means no guessing, not no values."""

    def function(model: Strict, day: Annotated[dt.date, pydantic.Field(strict=True)]): ...

    made = bind(
        function,
        model={
            "day": "2026-01-02",
            "metal": "brass",
            "key": "12345678-1234-5678-1234-567812345678",
            "pair": [1, "a"],
            "unique": [1, 2],
            "price": "1.5",
        },
        day="2026-01-02",
    )
    assert made["model"].day == made["day"] == dt.date(2026, 1, 2)
    assert made["model"].metal is Metal.BRASS
    assert made["model"].pair == (1, "a")
    with pytest.raises(InvalidArguments):
        bind(function, model={"day": "2026-01-02", "metal": "brass", "pair": "1"}, day="2026-01-02")


def test_bytes_of_a_model_are_read_as_in_its_schema():
    """With ``val_json_bytes`` the JSON text is base64, which reading as Python values would take literally."""

    class Blob(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(val_json_bytes="base64")
        data: bytes

    def function(blob): ...

    function.__annotations__["blob"] = Blob
    assert bind(function, blob={"data": "aGk="})["blob"].data == b"hi"


def test_what_is_missing_is_named_by_its_schema():
    """Otherwise a model might send an object for an integer."""

    def function(count: Annotated[int, pydantic.Field(ge=1)], where: Path, model: Rows, level: Level): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function)
    reasons = {problem.path: problem.reason for problem in caught.value.problems}
    assert reasons == {
        "count": "required, send integer",
        "where": "required, send string",
        "model": "required, send object",
        "level": "required, send one of 1",
    }


@dataclass
class Corner:
    x: int
    y: int


class Area(pydantic.BaseModel):
    name: int
    corners: list[Corner]


class Notes(TypedDict):
    count: int


def test_every_wrong_part_of_an_argument_has_its_own_line():
    """A model corrects the parts that are named, and needs one more call for each that is not."""

    def function(
        corner: Corner, corners: list[Corner], area: Area, notes: Notes, sizes: dict[str, int], pair: tuple[int, str]
    ): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(
            function,
            corner={"x": "a"},
            corners=[{"x": 1}, {"x": "b", "y": 1}, {"x": 1, "y": 1}],
            area={"name": "x", "corners": [{"x": 1}]},
            notes={"count": "many"},
            sizes={"a": "x", "b": 1, "c": []},
            pair=["a", 1],
        )
    assert [problem.path for problem in caught.value.problems] == [
        *("corner.x", "corner.y", "corners[0].y", "corners[1].x"),
        *("area.name", "area.corners[0].y", "notes.count", "sizes['a']", "sizes['c']", "pair[0]", "pair[1]"),
    ]
    assert len(str(caught.value).splitlines()) == 12


def test_the_search_for_wrong_parts_is_bounded():
    """A peer chooses how many parts there are; the first problem is shown however far behind it lies."""

    def function(rows: list[Corner]): ...

    good: Any = {"x": 1, "y": 1}
    with pytest.raises(InvalidArguments) as caught:
        bind(function, rows=[good] * 50_000 + [{"x": "late", "y": 1}])
    assert [problem.path for problem in caught.value.problems] == ["rows[50000].x"]
    with pytest.raises(InvalidArguments) as caught:
        bind(function, rows=[{"x": "a", "y": "b"}] * 1_000)
    assert len(caught.value.problems) == 20


class Tree(msgspec.Struct):
    name: int
    branches: list[Tree] = []


@pytest.mark.parametrize("leaf", [[{"name": 1}] * 2_000, '[{"name": 1}, ' + " " * 100_000 + '{"name": 2}]'])
def test_the_search_for_wrong_parts_of_a_deep_value_is_bounded(leaf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part holds all those inside it, so converting each of them once would cost depth times size."""
    converted = 0

    def counted(value: Any, shape: Any) -> Any:
        nonlocal converted
        converted += 1
        return lenient(value, shape)

    monkeypatch.setattr("ferrule.app.signatures.coercion.lenient", counted)
    tree: Any = {"name": "x", "branches": leaf}
    for _ in range(100):
        tree = {"name": 1, "branches": [tree]}

    def function(tree: Tree): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function, tree=tree)
    assert [problem.path for problem in caught.value.problems] == ["tree" + ".branches[0]" * 100 + ".name"]
    assert converted < 200
    # What is small is searched to its end.
    with pytest.raises(InvalidArguments) as caught:
        bind(function, tree={"name": "x", "branches": [{"name": "y"}, {"name": 1, "branches": 5}]})
    assert [problem.path for problem in caught.value.problems] == [
        *("tree.name", "tree.branches[0].name", "tree.branches[1].branches")
    ]


def test_a_search_that_is_too_deep_leaves_the_first_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """It needs more calls than the conversion for each level."""

    def too_deep(*_: Any) -> None:
        raise RecursionError

    monkeypatch.setattr("ferrule.app.signatures.coercion._Search._try", too_deep)

    def function(tree: Tree): ...

    with pytest.raises(InvalidArguments) as caught:
        bind(function, tree={"name": "x"})
    assert [problem.path for problem in caught.value.problems] == ["tree.name"]


@pytest.mark.parametrize(
    ("hint", "example"),
    [
        (dt.datetime, "2026-07-28T09:30:00Z"),
        (dt.date, "2026-07-28"),
        (dt.time, "09:30:00Z"),
        (dt.timedelta, "PT1H30M"),
        (uuid.UUID, "123e4567-e89b-12d3-a456-426614174000"),
    ],
)
def test_a_text_of_a_certain_form_is_explained_by_an_example_that_is_taken(hint, example):
    """“RFC3339 encoded datetime” does not explain to a model that a date alone is not enough."""

    def function(p): ...

    function.__annotations__["p"] = hint
    with pytest.raises(InvalidArguments, match=f"such as `{example}`"):
        bind(function, p="2026-1-1")
    assert isinstance(bind(function, p=example)["p"], hint)


def test_a_flood_of_problems_in_a_model_is_counted_and_not_listed():
    """Listing what pydantic found takes time for each; a peer chooses how many there are."""

    class Closed(pydantic.BaseModel, extra="forbid"):
        rows: list[int] = []

    def function(p): ...

    function.__annotations__["p"] = Closed
    for value in ({"rows": ["x"] * 10_001}, {f"k{number}": 1 for number in range(10_001)}):
        with pytest.raises(InvalidArguments, match="there are 10,001 problems"):
            bind(function, p=value)
    assert bind(function, p={"rows": ["5"] * 9_000})["p"].rows == [5] * 9_000
