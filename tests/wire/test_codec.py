"""The one maker of encoders and decoders: every input of a peer has a stated outcome."""

from __future__ import annotations

import enum
import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.codec import (
    Encoded,
    canonical,
    convert,
    decode,
    decoder,
    encode,
    encode_str,
    number_decoder,
    to_builtins,
)
from ferrule.wire.faults import ConvertError, DecodeError, EncodeError
from ferrule.wire.nesting import MAX_DEPTH
from ferrule.wire.struct import WireStruct

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)

ANY_TEXT = st.text(st.characters(codec=None))  # lone surrogates included
"""Text as Python allows it, which is more than UTF-8 can carry."""


class Point(WireStruct):
    x_axis: int
    y_axis: int = 0


# -- reading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"{",
        b"NOT JSON",
        b'{"a":1}x',
        b"{'a':1}",
        b"01",
        b"1.",
        b"+1",
        b'"a\nb"',
        b'"\x00"',
        b"\x00",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"\xef\xbb\xbf{}",
        b'["\\ud800", NaN]',
        b'["\\ud800"',
    ],
)
def test_what_is_no_json_is_a_decode_error(data: bytes) -> None:
    """Peers send anything; the reader must tell it apart from every other fault, on the slow path too."""
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize("data", [b'"\xff\xfe"', b'{"\xff":1}', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'["\xf0\x9f"]'])
def test_invalid_utf8_is_refused(data: bytes) -> None:
    """Guessing an encoding would change text; surrogates and overlong forms are not UTF-8 either."""
    with pytest.raises(DecodeError, match="UTF-8"):
        decode(data)


def test_a_duplicate_key_takes_its_last_value() -> None:
    """The commonest choice (RFC 8259, section 4), and the same on the slow path."""
    assert decode(b'{"a":1,"a":2}') == {"a": 2}
    assert decode(b'{"a":1,"a":"\\ud800"}') == {"a": "\ufffd"}


@pytest.mark.parametrize("digits", [20, 100, 4300])
def test_integers_are_exact_far_beyond_64_bits(digits: int) -> None:
    """Ids and amounts must not pass through a double."""
    value = int("9" * digits)
    assert decode(str(value).encode()) == value
    assert encode(value) == str(value).encode()


@pytest.mark.parametrize("data", [b"9" * 4301, b"-" + b"9" * 100_000, b'["\\ud800",' + b"9" * 4301 + b"]"])
def test_integers_beyond_the_interpreters_bound_are_refused(data: bytes) -> None:
    """Converting them costs quadratic time, which is why the interpreter has the bound."""
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize("data", [b"1e999", b"[-1e999]", b"1" * 400 + b".0", b'["\\ud800", 1e999]'])
def test_a_number_beyond_a_double_is_refused(data: bytes) -> None:
    """It would become infinity, which JSON does not have."""
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b'"\\ud800"', "\ufffd"),
        (b'"\\uDFFF"', "\ufffd"),
        (b'"a\\ud83d"', "a\ufffd"),
        (b'"\\ud83dx"', "\ufffdx"),
        (b'"\\ud83d\\ud83d\\ude00"', "\ufffd\U0001f600"),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\ude00\\ud83d"', "\ufffd\ufffd"),
    ],
)
def test_a_lone_surrogate_escape_reads_as_the_replacement_character(data: bytes, text: str) -> None:
    """Text cut in the middle of a pair by a JavaScript peer must not cost the message; pairs stay whole."""
    assert decode(data) == text
    assert decode(data.decode()) == text
    assert decoder(str)(data) == text
    assert decode(b'{"k":[' + data + b"]," + data + b":1}") == {"k": [text], text: 1}


@pytest.mark.parametrize("depth", [10_000, 100_000])
@pytest.mark.parametrize(
    ("head", "tail"), [(b"[", b"]"), (b'{"a":', b"}"), (b"[", b""), (b'["\\ud800",[', b"]]"), (b'[{"a":', b"}]")]
)
def test_deep_nesting_is_refused_not_crashed_on(depth: int, head: bytes, tail: bytes) -> None:
    """A few kilobytes of brackets must not take the process down."""
    data = head * depth + b"1" + tail * depth
    with pytest.raises(DecodeError):
        decode(data)


@pytest.mark.parametrize(("head", "tail"), [(b"[", b"]"), (b'{"a":', b"}"), (b'{"\\ud800":', b"}")])
def test_the_limit_of_nesting_is_a_number_of_ours(head: bytes, tail: bytes) -> None:
    """The same on every version of Python, for text and bytes, typed and not, and for what is written."""

    def of(depth: int) -> bytes:
        return head * depth + b"1" + tail * depth

    def forms(data: bytes) -> list[Any]:
        return [data, bytearray(data), memoryview(data), data.decode()]

    typed = decoder(cast("type[Any]", Any))
    for data in forms(of(MAX_DEPTH)):
        value = decode(data)
        assert typed(data) == value
        assert len(canonical(value)) >= MAX_DEPTH
        assert decode(encode(value)) == value
    for data in forms(of(MAX_DEPTH + 1)):
        for read in (decode, typed):
            with pytest.raises(DecodeError, match="nested more than 512 levels deep"):
                read(data)
    with pytest.raises(EncodeError, match="more than 512 levels"):
        encode([value])


def test_reasonable_nesting_is_read() -> None:
    """The limit is far above what people nest."""
    assert decode(b"[" * 500 + b"]" * 500)
    assert encode(decode(b"[" * 500 + b"]" * 500)) == b"[" * 500 + b"]" * 500


def test_a_refusal_does_not_quote_the_input() -> None:
    """The message may reach logs and peers; the input may hold secrets."""
    with pytest.raises(DecodeError) as caught:
        decode(b'{"password": hunter2}')
    assert "hunter2" not in str(caught.value)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    """Callers catch one class for all input of a peer."""
    try:
        decode(data)
    except DecodeError:
        pass


@given(JSON)
def test_what_was_written_reads_back(value: Any) -> None:
    """decode ∘ encode is the identity on JSON."""
    assert decode(encode(value)) == value
    assert decode(encode(value)) == json.loads(encode(value))


@given(st.recursive(ANY_TEXT, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner), max_leaves=10))
def test_any_python_text_can_be_written_and_escapes_of_it_read(value: Any) -> None:
    """Both directions of the surrogate policy agree, wherever the text stands."""
    assert decode(json.dumps(value).encode()) == decode(encode(value))


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: data.decode()])
def test_every_kind_of_buffer_is_read(kind: Any) -> None:
    """Transports hand over what they have, without a copy."""
    assert decode(kind(b'{"a":[1]}')) == {"a": [1]}


def test_a_typed_decoder_distinguishes_bad_json_from_a_bad_shape() -> None:
    """-32700 and -32602 are different answers."""
    read = decoder(Point)
    assert read(b'{"xAxis":1}') == Point(1)
    with pytest.raises(DecodeError):
        read(b"{")
    with pytest.raises(ConvertError) as caught:
        read(b'{"xAxis":"1"}')
    assert caught.value.path == "$.xAxis"


# -- writing ----------------------------------------------------------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Text(str):
    __slots__ = ()


class Count(int):
    pass


class Share(float):
    pass


@dataclass
class Pair:
    left: int
    right: Any


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (math.nan, b"null"),
        ([math.inf, -math.inf, Share("nan")], b"[null,null,null]"),
        (Text("a"), b'"a"'),
        ({Text("k"): Text("v")}, b'{"k":"v"}'),
        (Count(3), b"3"),
        (Count(2**70), str(2**70).encode()),
        (Share(0.5), b"0.5"),
        (Colour.RED, b'"red"'),
        (PurePosixPath("/a/b"), b'"/a/b"'),
        (Pair(1, [Point(2)]), b'{"left":1,"right":[{"xAxis":2}]}'),
        ((1, (2,)), b"[1,[2]]"),
        (b"\x00\x01", b'"AAE="'),
        ({1: "a"}, b'{"1":"a"}'),
        (True, b"true"),
        ("é😀", '"é😀"'.encode()),
        ("\ud83d\ude00", '"😀"'.encode()),
        (["\ud800", math.nan], '["\ufffd",null]'.encode()),
        (Pair(1, "\ud800"), '{"left":1,"right":"\ufffd"}'.encode()),
    ],
)
def test_values_have_one_json_form(value: Any, written: bytes) -> None:
    """What handlers return is written by one policy: NaN is null, subclasses are what they extend."""
    assert encode(value) == written
    assert encode_str(value) == written.decode()


def test_a_ready_made_value_stands_anywhere() -> None:
    """Cached lists are encoded once and spliced into each answer."""
    ready = Encoded(b'{"tools":[]}')
    assert encode({"id": 1, "result": ready}) == b'{"id":1,"result":{"tools":[]}}'
    assert encode([ready, "\ud800"]) == '[{"tools":[]},"\ufffd"]'.encode()
    assert to_builtins({"a": [ready]}) == {"a": [{"tools": []}]}


def _nested(depth: int, core: Any) -> Any:
    for _ in range(depth):
        core = [core]
    return core


def _cycle() -> list[Any]:
    cycle: list[Any] = []
    cycle.append(cycle)
    return cycle


@pytest.mark.parametrize(
    "value",
    [
        object(),
        len,
        {None: 1},
        {(1,): 1},
        msgspec.UNSET,
        iter([1]),
        _cycle(),
        _nested(200_000, 1),
        [_nested(600, "\ud800"), _nested(100_000, 1)],
        10**5000,
    ],
    ids=["object", "function", "null key", "tuple key", "UNSET", "iterator", "cycle", "deep", "deep surrogate", "huge"],
)
def test_what_has_no_json_form_is_an_encode_error(value: Any) -> None:
    """The answer to a peer depends on catching exactly this."""
    with pytest.raises(EncodeError):
        encode(value)


def test_a_surrogate_deep_inside_is_written_or_refused() -> None:
    """The slow path recurses in Python, and must not end in the interpreter's own error."""
    try:
        assert "\ufffd" in encode(_nested(600, "\ud800")).decode()
    except EncodeError:
        pass


def test_builtins_carry_wire_names_and_text_keys() -> None:
    """`on_request` promises a dict in JSON's shape."""
    assert to_builtins(Point(1, 2)) == {"xAxis": 1, "yAxis": 2}
    assert to_builtins({1: Colour.RED, "p": Pair(1, Point(2))}) == {"1": "red", "p": {"left": 1, "right": {"xAxis": 2}}}
    with pytest.raises(EncodeError):
        to_builtins({"a": object()})
    with pytest.raises(EncodeError):
        to_builtins(_cycle())


def test_builtins_are_a_copy() -> None:
    """What one side of a direct pair gets must not change the other side's objects."""
    inner = [1]
    given_value = {"a": inner}
    made = to_builtins(given_value)
    made["a"].append(2)
    assert inner == [1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 3, "c": 2}, "a": 1}),
        ([1.0, 2], [1, 2.0]),
        ((1, 2), [1, 2]),
        ("\ud83d\ude00", "\U0001f600"),
        (Pair(1, 2), {"right": 2, "left": 1}),
    ],
)
def test_equal_values_have_one_canonical_form(one: Any, other: Any) -> None:
    """Digests bind a request to its state: the same request in another order of keys is the same request."""
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical([one])


def test_different_values_have_different_canonical_forms() -> None:
    """A digest that ignores a difference would let one request use another's state."""
    forms = [canonical(value) for value in (1, "1", 1.5, True, None, [], {}, [1], {"1": 1}, {"a": None})]
    assert len(set(forms)) == len(forms)
    with pytest.raises(EncodeError):
        canonical(_nested(100_000, 1))


# -- converting -------------------------------------------------------------------------------------------------------


def test_a_wrong_shape_names_its_path() -> None:
    """An author can find the value; the reason does not repeat the path."""
    with pytest.raises(ConvertError) as caught:
        convert({"a": [{"xAxis": 1}, {"xAxis": "2"}]}, dict[str, list[Point]])
    assert caught.value.path == "$[...][1].xAxis"
    assert "$" not in caught.value.reason
    assert "int" in caught.value.reason
    assert isinstance(caught.value, ValueError)


def test_a_wrong_root_has_the_root_path() -> None:
    """The path is always there."""
    with pytest.raises(ConvertError) as caught:
        convert([], Point)
    assert caught.value.path == "$"


def test_strict_conversion_reads_no_numbers_from_text() -> None:
    """`"1"` is text, and `true` is not an integer; the lax mode is the caller's choice."""
    for bad in ("1", True, 1.5, None):
        with pytest.raises(ConvertError):
            convert({"xAxis": bad}, Point)
    assert convert({"xAxis": "1"}, Point, strict=False) == Point(1)


def test_conversion_leaves_its_input_alone() -> None:
    """Middleware may still hold the raw params."""
    raw = {"xAxis": 1, "extra": {"a": 1}}
    convert(raw, Point)
    assert raw == {"xAxis": 1, "extra": {"a": 1}}


def test_a_deep_value_cannot_crash_conversion() -> None:
    """Values need not come from `decode`."""
    deep: Any = []
    for _ in range(100_000):
        deep = {"a": deep}
    assert convert({"xAxis": 1, "extra": deep}, Point) == Point(1)
    with pytest.raises(ConvertError):
        convert(deep, Point)


def test_the_canonical_form_of_a_set_is_sorted() -> None:
    """A set of text is in another order in each process; digests that are compared across processes must not be."""
    program = (
        "from ferrule.wire.codec import canonical; print(canonical([{'a', 'b', 'c', 'dd'}, {'k': frozenset('xyz')}]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert found == {b'b\'[["a","b","c","dd"],{"k":["x","y","z"]}]\'\n'}
    with pytest.raises(EncodeError):
        canonical({1, "a"})


def test_a_decoder_of_numbers_gets_their_text() -> None:
    """Of numbers with a fraction or an exponent, in any range; everything else is as `decode` has it."""
    read = number_decoder(lambda text: f"<{text}>")
    assert read(b'[1.50, 1e400, -0.0, 7, "1.5", {"a": 2E1}]') == [
        "<1.50>",
        "<1e400>",
        "<-0.0>",
        7,
        "1.5",
        {"a": "<2E1>"},
    ]
    assert read(rb'"\ud800"') == "\ufffd"
    for text in (b"{", b"NaN", b"\xff", b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1)):
        with pytest.raises(DecodeError):
            read(text)


def test_the_text_of_a_number_is_written_again() -> None:
    """With `Encoded`, nothing of it is lost."""
    text = b'{"a":[0.10,1e400,0.10000000000000000555]}'
    assert encode(number_decoder(lambda number: Encoded(number.encode()))(text)) == text
