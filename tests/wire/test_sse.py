"""Server-sent events, written and read."""

from __future__ import annotations

import pytest

from ferrule.wire.faults import EncodeError
from ferrule.wire.sse import COMMENT, EventReader, EventTooLong, ServerSentEvent, encode_event
from tests.memory import peak_bytes_of

Event = ServerSentEvent


def read(data: bytes, *, chunk_bytes: int = 10_000, max_bytes: int = 10_000) -> list[ServerSentEvent | EventTooLong]:
    """Everything a reader dispatches for ``data`` in chunks of one size."""
    reader = EventReader(max_bytes)
    return [item for at in range(0, len(data), chunk_bytes) for item in reader.feed(data[at : at + chunk_bytes])]


# --- the writer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, b"data: {}\n\n"),
        ({"event": "message"}, b"event: message\ndata: {}\n\n"),
        ({"id": "7"}, b"id: 7\ndata: {}\n\n"),
        ({"id": ""}, b"id: \ndata: {}\n\n"),
        ({"retry_ms": 0}, b"retry: 0\ndata: {}\n\n"),
        ({"event": "e", "id": "é", "retry_ms": 1500}, "event: e\nid: é\nretry: 1500\ndata: {}\n\n".encode()),
    ],
)
def test_fields_are_written_in_one_order(arguments: dict[str, object], expected: bytes) -> None:
    """One way to write an event makes streams comparable."""
    assert encode_event(b"{}", **arguments) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", b"data: \n\n"),
        (b"a\nb", b"data: a\ndata: b\n\n"),
        (b"a\r\nb\rc", b"data: a\ndata: b\ndata: c\n\n"),
        (b"a\n", b"data: a\ndata: \n\n"),
        (b"\n", b"data: \ndata: \n\n"),
        (b" a", b"data:  a\n\n"),
    ],
)
def test_every_line_of_the_data_is_a_data_line(data: bytes, expected: bytes) -> None:
    """A raw line break would end the field, and a blank line the event."""
    assert encode_event(data) == expected


def test_a_priming_event_has_an_id_and_empty_data() -> None:
    """MCP 2025-11-25 opens a stream with it."""
    assert encode_event(b"", id="s1-0", retry_ms=500) == b"id: s1-0\nretry: 500\ndata: \n\n"


@pytest.mark.parametrize(
    "arguments", [{"event": "a\nb"}, {"event": "a\r"}, {"id": "1\n"}, {"id": "1\r2"}, {"id": "1\0"}, {"retry_ms": -1}]
)
def test_a_field_that_would_break_the_stream_is_refused(arguments: dict[str, object]) -> None:
    """An id often holds what a peer sent: it must not be able to write events of its own."""
    with pytest.raises(EncodeError):
        encode_event(b"{}", **arguments)  # type: ignore[arg-type]


def test_a_keep_alive_comment_is_invisible_between_events() -> None:
    """It keeps proxies from closing an idle stream."""
    assert COMMENT.startswith(b":")
    assert read(COMMENT + encode_event(b"1") + COMMENT + COMMENT + encode_event(b"2")) == [
        Event("message", b"1"),
        Event("message", b"2"),
    ]


# --- the reader -------------------------------------------------------------------------------------------------------

STREAMS: dict[str, tuple[bytes, list[ServerSentEvent]]] = {
    "data only": (b"data: x\n\n", [Event("message", b"x")]),
    "no space after the colon": (b"data:x\n\n", [Event("message", b"x")]),
    "only one space is taken off": (b"data:  x\n\n", [Event("message", b" x")]),
    "lines are joined": (b"data: YHOO\ndata: +2\ndata: 10\n\n", [Event("message", b"YHOO\n+2\n10")]),
    "a field without a colon": (b"data\n\ndata\ndata\n\ndata:", [Event("message", b""), Event("message", b"\n")]),
    "a named event": (b"event: add\ndata: 1\n\ndata: 2\n\n", [Event("add", b"1"), Event("message", b"2")]),
    "the last name wins": (b"event: a\nevent: b\ndata: 1\n\n", [Event("b", b"1")]),
    "an empty name is none": (b"event: a\nevent:\ndata: 1\n\n", [Event("message", b"1")]),
    "comments": (b": hi\ndata: 1\n:\n:data: 2\n\n", [Event("message", b"1")]),
    "unknown fields": (b"foo: 1\nDATA: 2\n data: 3\ndata: 4\n\n", [Event("message", b"4")]),
    "no data, no event": (b"event: a\n\nid: 1\n\n:\n\n", []),
    "a name does not outlive an event without data": (b"event: a\n\ndata: 1\n\n", [Event("message", b"1")]),
    "priming": (b"id: p\ndata:\n\n", [Event("message", b"", "p")]),
    "an id of its own event": (
        b"id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n",
        [Event("message", b"a", "1"), Event("message", b"b"), Event("message", b"c", "")],
    ),
    "an id with NUL is ignored": (b"id: 1\0\ndata: a\n\n", [Event("message", b"a")]),
    "a retry": (b"retry: 10\ndata: a\n\ndata: b\n\n", [Event("message", b"a", None, 10), Event("message", b"b")]),
    "a retry is digits only": (
        b"retry: -1\nretry: 1.5\nretry: \nretry:\xc2\xb2\nretry: 1 \ndata: a\n\n",
        [Event("message", b"a")],
    ),
    "a retry of absurd length": (b"retry: " + b"9" * 5000 + b"\ndata: a\n\n", [Event("message", b"a")]),
    "a retry of fifteen digits": (
        b"retry: " + b"9" * 15 + b"\ndata: a\n\n",
        [Event("message", b"a", None, 10**15 - 1)],
    ),
    "a retry of sixteen digits": (b"retry: " + b"9" * 16 + b"\ndata: a\n\n", [Event("message", b"a")]),
    "a byte order mark": (b"\xef\xbb\xbfdata: 1\n\n", [Event("message", b"1")]),
    "only the first byte order mark": (b"\xef\xbb\xbf\xef\xbb\xbfdata: 1\n\ndata: 2\n\n", [Event("message", b"2")]),
    "a byte order mark and a comment": (b"\xef\xbb\xbf: c\ndata: 1\n\n", [Event("message", b"1")]),
    "an event cut off by the end": (b"data: 1\n\ndata: 2\n", [Event("message", b"1")]),
    "blank lines": (b"\n\n\ndata: 1\n\n\n\n", [Event("message", b"1")]),
    "a colon in a value": (b'data: {"a":"b: c"}\n\n', [Event("message", b'{"a":"b: c"}')]),
    "invalid UTF-8 in data is the codec's business": (b"data: \xff\n\n", [Event("message", b"\xff")]),
    "invalid UTF-8 in a name is replaced": (b"event: \xff\ndata: 1\n\n", [Event("\ufffd", b"1")]),
}


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_reads_the_same_with_any_line_end_and_chunking(name: str, chunk_bytes: int, line_end: bytes) -> None:
    """The WHATWG rules, whole and byte by byte."""
    stream, expected = STREAMS[name]
    assert read(stream.replace(b"\n", line_end), chunk_bytes=chunk_bytes) == expected


def test_a_lone_carriage_return_dispatches_without_waiting_for_more() -> None:
    """A reader that waited for a possible LF would hold every event back until the next one."""
    reader = EventReader(100)
    assert reader.feed(b"data: 1\r\r") == [Event("message", b"1")]
    assert reader.feed(b"") == []
    assert reader.feed(b"\ndata: 2\r") == []
    assert reader.feed(b"\n") == []
    assert reader.feed(b"\r") == [Event("message", b"2")]
    assert reader.feed(b"\n") == []


def test_the_last_event_id_outlives_events_without_one() -> None:
    """A client resumes from it, whatever came since."""
    reader = EventReader(100)
    reader.feed(b"id: 1\ndata: a\n\ndata: b\n\n")
    assert reader.last_event_id == "1"
    reader.feed(b"id: 2\n")
    assert reader.last_event_id == "1", "an id counts when its event is complete"
    reader.feed(b"\n")
    assert reader.last_event_id == "2", "also of an event without data"
    reader.feed(b"id: x\0y\n\n")
    assert reader.last_event_id == "2"
    reader.feed(b"id\n\n")
    assert reader.last_event_id == ""


def test_a_continued_stream_starts_from_the_last_id() -> None:
    """Comments, a lone ``retry`` and events without an id move nothing; an id of its own does, and an empty one."""
    reader = EventReader(100, last_event_id="7", retry_ms=250)
    assert reader.feed(b": c\n\nretry: 10\n\ndata: a\n\n\n") == [Event("message", b"a")]
    assert (reader.last_event_id, reader.retry_ms) == ("7", 10)
    reader.feed(b"id: 8\n")
    assert reader.last_event_id == "7"
    reader.feed(b"\n")
    assert reader.last_event_id == "8"
    reader.feed(b"id:\n\n")
    assert reader.last_event_id == ""


def test_the_reconnection_time_counts_without_an_event() -> None:
    """A server says it before it closes the stream."""
    reader = EventReader(100)
    assert reader.retry_ms is None
    assert reader.feed(b"retry: 250\n\n") == []
    assert reader.retry_ms == 250
    reader.feed(b"retry: soon\n\n")
    assert reader.retry_ms == 250


@pytest.mark.parametrize("chunk_bytes", [1, 4, 1000])
def test_an_event_over_the_limit_is_reported_once_and_the_next_one_works(chunk_bytes: int) -> None:
    """In one line or in many; the stream goes on."""
    long_line = b"data: " + b"x" * 50 + b"\ndata: more\n\n"
    many_lines = b"data: 1\n" * 20 + b"\n"
    found = read(long_line + b"data: ok\n\n" + many_lines + b"data: ok\n\n", chunk_bytes=chunk_bytes, max_bytes=30)
    assert [type(item) for item in found] == [EventTooLong, Event, EventTooLong, Event]
    assert all(30 < item.size <= 66 for item in found if isinstance(item, EventTooLong))
    assert found[1] == Event("message", b"ok")


@pytest.mark.parametrize("chunk_bytes", [1, 4, 1000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_an_event_of_exactly_the_limit_is_kept(chunk_bytes: int, mark: bytes) -> None:
    """The limit counts the lines without their ends, and no byte order mark."""
    assert read(mark + b"data: 7890123456\n\n", chunk_bytes=chunk_bytes, max_bytes=16) == [
        Event("message", b"7890123456")
    ]
    assert read(mark + b"data: 5678\nid:abc\n\n", chunk_bytes=chunk_bytes, max_bytes=16) == [
        Event("message", b"5678", "abc")
    ]
    assert read(mark + b"data: 5678\nid:abcd\n\n", chunk_bytes=chunk_bytes, max_bytes=16) == [EventTooLong(17)]


@pytest.mark.parametrize("chunk_bytes", [1, 4, 1000])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_long_comment_costs_neither_memory_nor_the_event(chunk_bytes: int, mark: bytes) -> None:
    """Keep-alives may be chatty; they are nothing to the event around them."""
    stream = mark + b":" + b"c" * 500 + b"\ndata: 1\n:" + b"d" * 500 + b"\ndata: 2\n\n"
    assert read(stream, chunk_bytes=chunk_bytes, max_bytes=20) == [Event("message", b"1\n2")]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_a_line_is_held_only_as_far_as_the_lines_before_it_leave_room(mark: bytes) -> None:
    """The limit is for the whole event, and passing it is reported before the line ends."""
    reader = EventReader(16)
    assert reader.feed(mark + b"data: 5678\ndata: ") == []
    assert reader.feed(b"x") == [EventTooLong(17)]
    assert reader.feed(b"yz\ndata: w\n\n") == []
    assert reader.feed(b"data: 7890123456") == []
    assert reader.feed(b"x") == [EventTooLong(17)]


def test_the_id_of_an_event_that_was_too_long_still_counts() -> None:
    """Resuming before it would bring it again, for ever."""
    reader = EventReader(20)
    reader.feed(b"id: 9\ndata: " + b"x" * 50 + b"\n\n")
    assert reader.last_event_id == "9"


def read_an_endless_line() -> None:
    reader = EventReader(100_000)
    chunk = b"data" + b"x" * 65532
    found = [item for _ in range(300) for item in reader.feed(chunk)]
    assert found == [EventTooLong(2 * 65536)]
    assert reader.feed(b"\n\ndata: 1\n\n") == [Event("message", b"1")]


def test_an_endless_line_is_never_held() -> None:
    """The memory stays flat and the fault is reported before the line ends."""
    assert peak_bytes_of(read_an_endless_line) < 600_000


LARGE = b"y" * (8 * 1024 * 1024)
STREAM = encode_event(LARGE)


def read_a_large_event() -> None:
    reader = EventReader(len(LARGE) + 100)
    found = [item for at in range(0, len(STREAM), 16384) for item in reader.feed(STREAM[at : at + 16384])]
    assert found == [Event("message", LARGE)]


def test_a_large_event_in_small_chunks_is_copied_a_bounded_number_of_times() -> None:
    """Quadratic joining would show as memory first and as time next."""
    assert peak_bytes_of(read_a_large_event) < 3.3 * len(LARGE)


def test_a_limit_must_be_positive() -> None:
    """A reader that can hold nothing is the caller's mistake."""
    with pytest.raises(ValueError, match="positive"):
        EventReader(0)
