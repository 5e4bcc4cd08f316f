"""Properties of the wire's outer forms: any chunking reads alike, reading inverts writing, nothing else is raised."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.faults import DecodeError, EncodeError
from ferrule.wire.headers import (
    InvalidHeaderAnnotation,
    check_params,
    compile_param_plan,
    decode_header_value,
    encode_header_value,
    mirror_params,
)
from ferrule.wire.ndjson import Frame, FrameTooLong, LineFramer
from ferrule.wire.sse import COMMENT, EventReader, EventTooLong, ServerSentEvent, encode_event
from ferrule.wire.uri_template import UriTemplate, UriTemplateError

# --- chunkings --------------------------------------------------------------------------------------------------------

CUTS = st.lists(st.integers(0, 400), max_size=12)


def chunks_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """``data`` cut at these places; empty chunks included."""
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


LINES = st.lists(
    st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n", b" ", b"\xff", b"x" * 9, b"{}"]), max_size=40
).map(b"".join)


def frame_kinds(frames: list[Frame]) -> list[bytes | None]:
    """Frames without the size of those too long, which may depend on the chunking."""
    return [None if isinstance(frame, FrameTooLong) else frame for frame in frames]


@given(LINES, CUTS, st.integers(1, 12))
def test_any_chunking_frames_alike(data: bytes, cuts: list[int], max_bytes: int) -> None:
    """Against the definition: lines end with LF, a CR before it goes, blank ones are skipped, long ones reported."""
    framer = LineFramer(max_bytes)
    found = [frame for chunk in chunks_of(data, cuts) for frame in framer.feed(chunk)] + framer.finish()
    expected: list[bytes | None] = []
    for line in data.split(b"\n"):
        line = line.removesuffix(b"\r")
        if len(line) > max_bytes:
            expected.append(None)
        elif line.strip():
            expected.append(line)
    assert frame_kinds(found) == expected
    assert all(frame.size > max_bytes for frame in found if isinstance(frame, FrameTooLong))


# --- event streams ----------------------------------------------------------------------------------------------------

STREAM = st.lists(
    st.sampled_from(
        [
            b"data",
            b"data:",
            b"data: x",
            b"id: 7",
            b"id",
            b"event: e",
            b"retry: 5",
            b": c",
            b"\n",
            b"\r",
            b"\r\n",
            b"\0",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=40,
).map(b"".join)


def expected_events(data: bytes) -> tuple[list[ServerSentEvent], str]:
    """The WHATWG algorithm over the whole input, one rule per line, to judge the incremental reader by."""
    lines = re.split(rb"\r\n|\n|\r", data.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events: list[ServerSentEvent] = []
    data_lines: list[bytes] = []
    last_id = buffered_id = name = ""
    own_id: str | None = None
    retry: int | None = None
    for line in lines:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if not line:
            last_id = buffered_id
            if data_lines:
                events.append(ServerSentEvent(name or "message", b"\n".join(data_lines), own_id, retry))
            data_lines, name, own_id, retry = [], "", None, None
        elif field == b"data":
            data_lines.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"id" and b"\0" not in value:
            own_id = buffered_id = value.decode("utf-8", "replace")
        elif field == b"retry" and re.fullmatch(rb"[0-9]+", value):
            retry = int(value)
    return events, last_id


@given(STREAM, CUTS)
def test_any_chunking_of_a_stream_reads_as_the_standard_says(data: bytes, cuts: list[int]) -> None:
    """CR, LF and CRLF may be split anywhere, and so may the byte order mark."""
    reader = EventReader(10_000)
    found = [item for chunk in chunks_of(data, cuts) for item in reader.feed(chunk)]
    assert (found, reader.last_event_id) == expected_events(data)


@given(STREAM, CUTS, CUTS, st.integers(1, 12))
def test_limits_do_not_depend_on_the_chunking(data: bytes, cuts: list[int], others: list[int], max_bytes: int) -> None:
    """Which events are too long is a matter of the bytes."""

    def kinds(places: list[int]) -> list[Any]:
        reader = EventReader(max_bytes)
        found = [item for chunk in chunks_of(data + b"\n\n", places) for item in reader.feed(chunk)]
        return [None if isinstance(item, EventTooLong) else item for item in found]

    assert kinds(cuts) == kinds(others)


FIELD_TEXT = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), max_size=12)


@given(
    st.lists(
        st.tuples(
            st.binary(max_size=40), st.none() | FIELD_TEXT, st.none() | FIELD_TEXT, st.none() | st.integers(0, 10**9)
        ),
        max_size=6,
    ),
    CUTS,
)
def test_reading_inverts_writing(
    events: list[tuple[bytes, str | None, str | None, int | None]], cuts: list[int]
) -> None:
    """Whatever the data; its line ends come back as LF."""
    stream = b"".join(
        COMMENT + encode_event(data, event=event, id=event_id, retry_ms=retry_ms)
        for data, event, event_id, retry_ms in events
    )
    reader = EventReader(10_000)
    found = [item for chunk in chunks_of(stream, cuts) for item in reader.feed(chunk)]
    assert found == [
        ServerSentEvent(event or "message", re.sub(rb"\r\n|\r", b"\n", data), event_id, retry_ms)
        for data, event, event_id, retry_ms in events
    ]


# --- header values ----------------------------------------------------------------------------------------------------

TEXT = (
    st.text(max_size=30)
    | st.text("=?base64ABC /+", max_size=30)
    | st.from_regex(r"=\?base64\?.{0,8}\?=", fullmatch=True)
)


@given(TEXT)
def test_decoding_a_header_value_inverts_encoding(value: str) -> None:
    """And what was encoded is safe in any header."""
    encoded = encode_header_value(value)
    assert re.fullmatch(r"([!-~]([ -~]*[!-~])?)?", encoded)
    assert decode_header_value(f" \t{encoded} ") == value


@given(st.text(st.characters(max_codepoint=255), max_size=40) | TEXT)
def test_decoding_raises_nothing_but_our_error(value: str) -> None:
    """A header is whatever a peer sends."""
    try:
        decode_header_value(value)
    except DecodeError:
        pass


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "properties", "x-mcp-header", "type", "items", "anyOf", "$defs"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_compiling_a_plan_raises_nothing_but_our_error(schema: Any) -> None:
    """A client compiles whatever a server lists."""
    try:
        compile_param_plan(schema)
    except InvalidHeaderAnnotation:
        pass


PLAN = compile_param_plan(
    {
        "properties": {
            "a": {"type": "string", "x-mcp-header": "A"},
            "b": {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "B"}}},
            "items": {"type": "boolean", "x-mcp-header": "C"},
        }
    }
)


@given(JSON)
def test_what_a_client_mirrors_the_server_accepts(arguments: Any) -> None:
    """For any arguments, also such as the tool would refuse."""
    try:
        headers = mirror_params(PLAN, arguments)
    except EncodeError:
        return
    assert check_params(PLAN, {name.lower(): value for name, value in headers.items()}, arguments) is None


@given(JSON, st.dictionaries(st.sampled_from([param.name for param in PLAN]), st.text(max_size=8), max_size=3))
def test_checking_never_raises(arguments: Any, headers: dict[str, str]) -> None:
    """Headers and arguments both come from a peer."""
    problem = check_params(PLAN, headers, arguments)
    assert problem is None or "Mcp-Param-" in problem


# --- URI templates ----------------------------------------------------------------------------------------------------

# Each variable is delimited by something that its expansion cannot hold, so there is exactly one reading.
UNAMBIGUOUS = [
    "users://{a}/posts/{b}",
    "{a}",
    "x/{a}?q={b}",
    "r{/a,b}/end",
    "f{#a}",
    "p{;a,b}",
    "s{?a,b}",
    "s?f=1{&a,b}",
    "s/{a}{?b}",
    "{a,b}",
    "x:{+a}",
    "www{.a}/{b}",
    "{a}#{b}",
]
VALUE = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.sampled_from(UNAMBIGUOUS), VALUE, VALUE)
def test_match_inverts_expand(text: str, a: str, b: str) -> None:
    """For any text in the variables, reserved characters, slashes and percent signs included."""
    template = UriTemplate(text)
    values = {name: value for name, value in {"a": a, "b": b}.items() if name in template.variables}
    found = template.match(template.expand(values))
    if ("{+" in text or "{#" in text) and re.search("%[0-9A-Fa-f]{2}", a):
        # A reserved expansion leaves what looks like an escape as it is, so it reads as what it looks like.
        return
    assert found == values


LISTS = st.lists(VALUE, min_size=1, max_size=4)


@given(
    st.sampled_from(["x{/a*}", "x{/a*}/{b}/y", "s{?a*}", "s{?b,a*}", "s{;a*}", "s{;a*}/{b}", "f{?a*}{&b}"]),
    LISTS,
    VALUE,
)
def test_match_inverts_expand_for_exploded_lists(text: str, a: list[str], b: str) -> None:
    """A list comes back as a list, also with one element or an empty one."""
    template = UriTemplate(text)
    values: dict[str, Any] = {"a": a, "b": b} if "b" in template.variables else {"a": a}
    assert template.match(template.expand(values)) == values


@given(
    st.sampled_from(["s{?a*}", "s{;a*}", "s/x{?a*}"]),
    st.dictionaries(VALUE.filter(lambda key: key not in ("a", "")), VALUE, min_size=1, max_size=4),
)
def test_match_inverts_expand_for_exploded_mappings(text: str, a: dict[str, str]) -> None:
    """Names that are not the variable's own make a mapping."""
    template = UriTemplate(text)
    assert template.match(template.expand(a=a)) == {"a": a}


TEMPLATE_TEXT = st.lists(
    st.sampled_from(
        [
            "{",
            "}",
            "a",
            "b",
            ",",
            "*",
            ":",
            "3",
            "/",
            "?",
            "#",
            "&",
            ";",
            "+",
            ".",
            "%",
            "%41",
            "{a}",
            "{/b*}",
            "{?a,b}",
            "é",
        ]
    ),
    max_size=10,
).map("".join)


@given(TEMPLATE_TEXT, st.text("ab/?#&=;,.%41é\ud800", max_size=20), VALUE)
def test_templates_raise_nothing_but_our_error_and_matching_raises_nothing(text: str, uri: str, value: str) -> None:
    """A template comes from an author, a URI from anybody; what matches expands, and its expansion matches alike."""
    try:
        template = UriTemplate(text)
    except UriTemplateError:
        return
    if text.count("a") <= 1 and text.count("b") <= 1 and "%" not in text + value:
        assert template.match(template.expand(a=value, b=[value])) is not None
    found = template.match(uri)
    if found is not None:
        template.expand(found)
