"""The two bases of wire values."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.codec import convert, decode, encode
from ferrule.wire.faults import ConvertError
from ferrule.wire.struct import (
    UNSET,
    OpenBundle,
    Value,
    WireStruct,
    convert_unknown_kinds,
    decode_hook,
    refuses_as_a_dataclass,
)


class Inner(OpenBundle):
    list_changed: bool | None


class Bundle(OpenBundle, names={"special": "x-y/Special"}):
    note: ClassVar[str] = "not a key"
    roots: Inner | None
    limits: list[int] | None
    special: str | None


class Leaf(WireStruct):
    two_words: int
    maybe: str | None = None
    value: Any = UNSET
    tags: list[str] = msgspec.field(default_factory=list)


class Holder(WireStruct, kw_only=True):
    caps: Bundle | None = None
    leaf: Leaf | None = None


class UnknownShape(OpenBundle):
    type: str | None


class Shape(WireStruct):
    type: Literal["dot", "box"]
    size: int = 0
    parts: list[Shape] | None = None

    __unknown_kind__ = UnknownShape


class Drawing(WireStruct):
    shapes: list[Shape]
    named: dict[str, Shape] | None = None
    title: Shape | list[Shape] | None = None


# --- structs ----------------------------------------------------------------------------------------------------------


def test_names_are_camel_case_on_the_wire_and_defaults_are_not_written() -> None:
    """The protocol's spelling, without null for what was never said."""
    assert decode(encode(Leaf(1))) == {"twoWords": 1}


def test_absent_and_null_differ_where_the_default_is_unset() -> None:
    """Structured content may be null, which is an answer."""
    assert convert({"twoWords": 1}, Leaf).value is UNSET
    assert convert({"twoWords": 1, "value": None}, Leaf).value is None
    assert decode(encode(Leaf(1, value=None))) == {"twoWords": 1, "value": None}


def test_dataclass_functions_work_on_a_struct() -> None:
    """The founding text calls the types dataclasses; code written against that must run."""
    leaf = Leaf(1, "a")
    assert dataclasses.is_dataclass(leaf)
    assert [f.name for f in dataclasses.fields(Leaf)] == ["two_words", "maybe", "value", "tags"]
    assert dataclasses.fields(leaf)[0].default is dataclasses.MISSING
    assert dataclasses.fields(leaf)[1].default is None
    assert dataclasses.fields(leaf)[3].default_factory is list
    assert dataclasses.replace(leaf, maybe="b") == Leaf(1, "b")
    assert dataclasses.asdict(Holder(leaf=leaf)) == {
        "caps": None,
        "leaf": {"two_words": 1, "maybe": "a", "value": UNSET, "tags": []},
    }


def test_the_field_table_marks_keyword_only_fields() -> None:
    """`replace` and code generators read it."""
    assert dataclasses.fields(Holder)[0].kw_only
    assert not dataclasses.fields(Leaf)[0].kw_only


def test_structs_are_frozen() -> None:
    """A result that a handler keeps must not change while it is sent."""
    with pytest.raises(AttributeError):
        Leaf(1).two_words = 2  # type: ignore[misc]


def test_a_malformed_struct_names_the_path() -> None:
    """Without a path the error would be of no use in a message with a thousand tools."""
    with pytest.raises(ConvertError) as caught:
        convert({"leaf": {"twoWords": "x"}}, Holder)
    assert caught.value.path == "$.leaf.twoWords"


# --- bundles ----------------------------------------------------------------------------------------------------------

WIRE = {"roots": {"listChanged": True, "zz": [1, {"a": None}]}, "x-y/Special": "s", "other": {"k": 1}, "null": None}


def test_a_bundle_is_the_json_object() -> None:
    """Equality, length and items are those of the JSON: nothing is translated, so nothing is lost."""
    bundle = convert(WIRE, Bundle)
    assert bundle == WIRE
    assert isinstance(bundle, dict)
    assert encode(bundle) == encode(WIRE)


def test_known_keys_are_attributes_and_nested_objects_are_bundles() -> None:
    """Typed reading without a copy of the JSON."""
    bundle = convert(WIRE, Bundle)
    assert bundle.special == "s"
    assert bundle.limits is None
    assert isinstance(bundle.roots, Inner)
    assert bundle.roots.list_changed is True
    assert bundle.roots["zz"] == [1, {"a": None}]


def test_writing_through_an_attribute_reaches_the_json() -> None:
    """A view that is not connected would lose the change silently."""
    bundle = Bundle(WIRE)
    assert bundle.roots is not None
    bundle.roots.list_changed = None
    bundle.limits = [1]
    assert bundle["roots"] == {"zz": [1, {"a": None}]}
    assert bundle["limits"] == [1]


def test_a_bundle_is_made_from_python_names_and_other_keys() -> None:
    """Keyword arguments by Python name; whatever is not known is a wire key."""
    assert Bundle(roots=Inner(list_changed=False), limits=None, extra=1) == {
        "roots": {"listChanged": False},
        "extra": 1,
    }
    assert Bundle({"a": 1}, special="s") == {"a": 1, "x-y/Special": "s"}


def test_the_mapping_given_is_not_changed() -> None:
    """The constructor copies: two bundles made from one dict are independent."""
    given_: dict[str, Any] = {"limits": [1]}
    Bundle(given_).special = "s"
    assert given_ == {"limits": [1]}


def test_a_misspelt_attribute_is_an_error_in_both_directions() -> None:
    """`caps.smapling = …` must not vanish in an instance dict."""
    with pytest.raises(AttributeError, match="rots"):
        Bundle().rots  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(AttributeError, match="rots"):
        Bundle().rots = 1  # pyright: ignore[reportAttributeAccessIssue]


def test_patterns_match_by_attribute() -> None:
    """`match` on capabilities reads like the specification."""
    match Bundle(roots=Inner(list_changed=True)):
        case Bundle(roots=Inner(list_changed=True)):
            matched = True
        case _:
            matched = False
    assert matched


def test_the_repr_shows_names_and_extras() -> None:
    """What a log shows can be pasted back."""
    bundle = Bundle(roots=Inner(list_changed=True), other=1)
    assert repr(bundle) == "Bundle(roots=Inner(list_changed=True), **{'other': 1})"
    assert eval(repr(bundle)) == bundle


def test_dataclass_functions_keep_the_extras() -> None:
    """`replace` on capabilities must not drop what a newer peer declared."""
    bundle = Bundle(WIRE)
    assert [f.name for f in dataclasses.fields(Bundle)] == ["roots", "limits", "special"]
    assert dataclasses.replace(bundle, special="t") == {**WIRE, "x-y/Special": "t"}
    assert type(dataclasses.replace(bundle)) is Bundle
    assert dataclasses.asdict(bundle) == {
        "roots": {"list_changed": True, "zz": [1, {"a": None}]},
        "limits": None,
        "special": "s",
        "other": {"k": 1},
        "null": None,
    }


@given(
    st.dictionaries(
        st.sampled_from(["roots2", "items", "keys", "=", "=a", "special", "limits2", "", "é"]), st.integers()
    )
)
def test_replace_keeps_any_extra_key(extras: dict[str, int]) -> None:
    """Keys that look like methods, like Python names of known keys or like our own escape are keys all the same."""
    bundle = Bundle({"limits": [1], **extras})
    assert dataclasses.replace(bundle) == {"limits": [1], **extras}
    assert dataclasses.replace(bundle, limits=[2]) == {"limits": [2], **extras}


def test_a_bundle_survives_copy_and_pickle() -> None:
    """Sessions are stored, contexts are copied."""
    bundle = Bundle(WIRE)
    for other in (copy.copy(bundle), copy.deepcopy(bundle), pickle.loads(pickle.dumps(bundle))):
        assert type(other) is Bundle
        assert other == WIRE


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        ({"roots": 1}, "roots"),
        ({"roots": {"listChanged": "yes"}}, "roots.listChanged"),
        ({"limits": ["a"]}, "limits[0]"),
        ({"x-y/Special": 3}, "x-y/Special"),
        (5, "Expected `object`, got `int`"),
        ([], "Expected `object`, got `array`"),
        ("text", "Expected `object`, got `str`"),
        (True, "Expected `object`, got `bool`"),
        (1.5, "Expected `object`, got `float`"),
    ],
)
def test_a_malformed_known_key_is_refused_with_its_place(wrong: Any, where: str) -> None:
    """Open means unknown keys, not wrong values."""
    with pytest.raises(ConvertError, match=r"caps") as caught:
        convert({"caps": wrong}, Holder)
    assert where in str(caught.value)


def test_null_for_a_known_key_counts_as_absent() -> None:
    """Peers that write every optional field as null are many."""
    assert convert({"roots": None}, Bundle).roots is None


def test_msgspec_does_not_take_a_bundle_for_a_dataclass() -> None:
    """It would fill known keys only and lose the others without an error."""
    assert not hasattr(Bundle, "__dataclass_fields__")
    assert msgspec.convert([{"unknown": 1}], list[Bundle], dec_hook=decode_hook) == [{"unknown": 1}]
    assert msgspec.json.decode(b'{"unknown":1}', type=Bundle, dec_hook=decode_hook) == {"unknown": 1}


def test_the_hook_refuses_types_that_are_not_ours() -> None:
    """A type that msgspec cannot decode is a mistake of the program, not of the peer."""
    with pytest.raises(NotImplementedError):
        decode_hook(complex, {})


# --- unknown kinds ----------------------------------------------------------------------------------------------------

NEWER = {"type": "ray", "length": 3, "parts": [{"type": "dot"}]}


def test_unknown_kinds_are_kept_verbatim_wherever_they_stand() -> None:
    """A newer peer's kinds pass through an older library, as a proxy needs."""
    wire = {
        "shapes": [{"type": "dot", "size": 1}, NEWER, {"type": "box", "parts": [NEWER]}],
        "named": {"a": NEWER},
        "title": [NEWER],
    }
    drawing = convert(wire, Drawing)
    assert type(drawing.shapes[0]) is Shape
    assert type(drawing.shapes[1]) is UnknownShape
    assert drawing.shapes[1].type == "ray"
    assert decode(encode(drawing)) == wire
    assert decode(encode(convert({"shapes": [], "title": NEWER}, Drawing))) == {"shapes": [], "title": NEWER}


def test_the_fields_of_a_struct_are_read_once_however_many_values_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """msgspec reads the annotations of the class each time: 0.2 ms for each block, of which a message has 80,000."""
    read: list[Any] = []
    fields = msgspec.structs.fields

    def counted(type_: Any) -> Any:
        read.append(type_)
        return fields(type_)

    monkeypatch.setattr(msgspec.structs, "fields", counted)
    made = convert_unknown_kinds({"shapes": [{"type": "star"}, {"type": "dot", "size": 2.0}] * 500}, Drawing)
    assert (len(made.shapes), *made.shapes[:2]) == (1000, {"type": "star"}, Shape("dot", 2))
    assert len(read) <= 10


def test_a_malformed_value_beside_an_unknown_kind_is_still_refused() -> None:
    """Tolerance for what is new must not hide what is wrong."""
    for wrong in ({"shapes": [NEWER, {"type": "dot", "size": "x"}]}, {"shapes": [{"type": 3}]}, {"shapes": [{}]}):
        with pytest.raises(msgspec.ValidationError):
            convert_unknown_kinds(wrong, Drawing)
        with pytest.raises(ConvertError):
            convert(wrong, Drawing)


def test_the_value_given_is_not_changed_by_the_second_attempt() -> None:
    """Middleware still holds the raw message."""
    wire = {"shapes": [dict(NEWER)]}
    convert(wire, Drawing)
    assert wire == {"shapes": [NEWER]}


def test_a_subclass_adds_keys_and_keeps_the_names_of_its_base() -> None:
    """An extension describes more keys of a core bundle without repeating the others."""

    class Wider(Bundle):
        more_keys: int | None

    class Same(Wider):
        pass

    assert Same(special="s", more_keys=1) == {"x-y/Special": "s", "moreKeys": 1}
    assert Same.__match_args__ == ("roots", "limits", "special", "more_keys")


def test_a_deep_value_is_refused_and_not_crashed_on() -> None:
    """The second attempt walks in Python, whose stack is shorter than the decoder's."""
    deep: Any = {"type": "ray"}
    for _ in range(900):
        deep = {"type": "box", "parts": [deep]}
    with pytest.raises(ConvertError, match="deep"):
        convert({"shapes": [deep]}, Drawing)


if TYPE_CHECKING:
    Unknown = str


class Point(Value, frozen=True):
    x: int
    y: int = 2
    names: list[Unknown] = msgspec.field(default_factory=list)


class Named(Point, frozen=True, kw_only=True):
    name: str = ""


@refuses_as_a_dataclass
class Refusing(Value, frozen=True):
    x: int


def test_a_value_behaves_like_a_frozen_dataclass() -> None:
    """Which it replaces; types that only checkers know stay as they are written."""
    fields = {field.name: field for field in dataclasses.fields(Named)}
    assert [(name, field.type, field.kw_only) for name, field in fields.items()] == [
        ("x", "int", False),
        ("y", "int", False),
        ("names", "list[Unknown]", False),
        ("name", "str", True),
    ]
    assert fields["x"].default is dataclasses.MISSING
    assert fields["y"].default == 2
    assert fields["names"].default_factory is list
    assert dataclasses.replace(Named(1, name="a"), y=3) == Named(1, 3, name="a")
    assert dataclasses.asdict(Point(1)) == {"x": 1, "y": 2, "names": []}
    assert dataclasses.is_dataclass(Point)
    assert repr(Point(1)) == "Point(x=1, y=2, names=[])"
    with pytest.raises(AttributeError):
        Point(1).x = 2  # pyright: ignore[reportAttributeAccessIssue]


def test_assigning_to_a_value_can_raise_what_a_dataclass_raises() -> None:
    """Where that was promised."""
    value = Refusing(1)
    for change in (lambda: setattr(value, "x", 2), lambda: delattr(value, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert dataclasses.replace(value, x=2) == Refusing(2)
