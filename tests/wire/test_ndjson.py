"""Newline framing."""

from __future__ import annotations

import pytest

from ferrule.wire.ndjson import Frame, FrameTooLong, LineFramer
from tests.memory import peak_bytes_of


def frames_of(data: bytes, *, chunk_bytes: int, max_bytes: int = 1000) -> list[Frame]:
    """Everything a framer says about ``data`` in chunks of one size, end of input included."""
    framer = LineFramer(max_bytes)
    found: list[Frame] = []
    for at in range(0, len(data), chunk_bytes):
        found += framer.feed(data[at : at + chunk_bytes])
    return found + framer.finish()


def test_a_whole_line_in_one_chunk_is_one_frame() -> None:
    """The usual case: one read, one message."""
    assert LineFramer(100).feed(b'{"a":1}\n') == [b'{"a":1}']


def test_two_frames_in_one_chunk_are_two_frames() -> None:
    """A pipelining peer writes several messages at once."""
    assert LineFramer(100).feed(b"one\ntwo\n") == [b"one", b"two"]


def test_a_frame_over_several_chunks_waits_for_its_newline() -> None:
    """Pipes split where they like."""
    framer = LineFramer(100)
    assert framer.feed(b"on") == []
    assert framer.feed(b"e") == []
    assert framer.held_bytes == 3
    assert framer.feed(b"\ntwo\nth") == [b"one", b"two"]
    assert framer.feed(b"ree\n") == [b"three"]
    assert framer.held_bytes == 0


@pytest.mark.parametrize("chunk_bytes", [1, 2, 3, 5, 7, 1000])
def test_any_chunk_size_frames_alike(chunk_bytes: int) -> None:
    """Framing depends on the bytes alone."""
    data = b"one\r\n\n  \ntwo\r\n" + b"x" * 50 + b"\nlast"
    assert frames_of(data, chunk_bytes=chunk_bytes) == [b"one", b"two", b"x" * 50, b"last"]


@pytest.mark.parametrize("blank", [b"\n", b"\r\n", b"   \n", b"\t\r\n", b"\n\n\n"])
def test_blank_lines_are_skipped(blank: bytes) -> None:
    """They carry no message; people press return (python-sdk and typescript-sdk reports in "Cases")."""
    assert LineFramer(10).feed(blank + b"a\n" + blank) == [b"a"]


def test_a_carriage_return_inside_a_line_stays() -> None:
    """Only the one before the newline belongs to the terminator."""
    assert LineFramer(10).feed(b"a\rb\r\r\n") == [b"a\rb\r"]


def test_an_empty_chunk_completes_nothing() -> None:
    """A read of nothing is not an end."""
    framer = LineFramer(10)
    framer.feed(b"a")
    assert framer.feed(b"") == []
    assert framer.feed(b"\n") == [b"a"]


@pytest.mark.parametrize("terminator", [b"\n", b"\r\n"])
@pytest.mark.parametrize("chunk_bytes", [1, 3, 100])
def test_a_frame_of_exactly_the_limit_is_kept(chunk_bytes: int, terminator: bytes) -> None:
    """The limit counts the frame without its terminator, also when the CR arrives alone."""
    assert frames_of(b"x" * 8 + terminator + b"y\n", chunk_bytes=chunk_bytes, max_bytes=8) == [b"x" * 8, b"y"]


@pytest.mark.parametrize("terminator", [b"\n", b"\r\n"])
@pytest.mark.parametrize("chunk_bytes", [1, 3, 9, 10, 100])
def test_a_frame_over_the_limit_is_reported_once_and_the_next_line_works(chunk_bytes: int, terminator: bytes) -> None:
    """One bad line must not end the connection, nor be answered twice."""
    data = b"x" * 30 + terminator + b"y\n" + b"z" * 9 + terminator + b"w\n"
    found = frames_of(data, chunk_bytes=chunk_bytes, max_bytes=8)
    sizes = [frame.size for frame in found if isinstance(frame, FrameTooLong)]
    assert [frame if isinstance(frame, bytes) else "too long" for frame in found] == [
        "too long",
        b"y",
        "too long",
        b"w",
    ]
    assert 8 < sizes[0] <= 30
    assert sizes[1] == 9


def test_a_line_of_a_limit_and_two_carriage_returns_is_too_long() -> None:
    """The grace for a CR is one byte and no more."""
    assert frames_of(b"12345678\r\r\n", chunk_bytes=1, max_bytes=8) == [FrameTooLong(10)]


def feed_an_endless_line() -> None:
    framer = LineFramer(1024 * 1024)
    chunk = b"x" * 65536
    found: list[Frame] = []
    for _ in range(320):
        found += framer.feed(chunk)
        assert framer.held_bytes <= 1024 * 1024 + 1
    assert found == [FrameTooLong(17 * 65536)]
    assert framer.feed(b"tail\nnext\n") == [b"next"]


def test_an_endless_line_is_reported_before_its_newline_and_never_held() -> None:
    """20 MB without a newline: the peer gets the error at once, and memory does not grow."""
    assert peak_bytes_of(feed_an_endless_line) < 3 * 1024 * 1024


LARGE = b"y" * (10 * 1024 * 1024)


def feed_a_large_message() -> None:
    framer = LineFramer(len(LARGE))
    found: list[Frame] = []
    for at in range(0, len(LARGE), 65536):
        found += framer.feed(LARGE[at : at + 65536])
    found += framer.feed(b"\n")
    assert found == [LARGE]


def test_a_large_message_in_pipe_sized_chunks_is_copied_once() -> None:
    """Joining a growing buffer per read would make this quadratic; peak memory shows how often it was copied."""
    assert peak_bytes_of(feed_a_large_message) < 2.3 * len(LARGE)


def test_finish_gives_the_unterminated_last_line_once() -> None:
    """A file as standard input often lacks its last newline."""
    framer = LineFramer(10)
    assert framer.feed(b"one\ntw") == [b"one"]
    assert framer.feed(b"o\r") == []
    assert framer.finish() == [b"two"]
    assert framer.finish() == []
    assert framer.feed(b"three\n") == [b"three"]


@pytest.mark.parametrize("tail", [b"", b"\r", b"   "])
def test_finish_gives_nothing_for_a_blank_rest(tail: bytes) -> None:
    """The end of input after a newline is not a frame."""
    framer = LineFramer(10)
    framer.feed(b"one\n" + tail)
    assert framer.finish() == []


def test_finish_in_a_dropped_line_reports_nothing_more() -> None:
    """It was reported when the limit was passed."""
    framer = LineFramer(4)
    assert framer.feed(b"123456") == [FrameTooLong(6)]
    assert framer.finish() == []
    assert framer.feed(b"next\n") == [b"next"]


@pytest.mark.parametrize("max_bytes", [0, -1])
def test_a_limit_must_be_positive(max_bytes: int) -> None:
    """A framer that can hold nothing is the caller's mistake."""
    with pytest.raises(ValueError, match="positive"):
        LineFramer(max_bytes)


def test_a_line_may_be_as_short_as_one_byte_and_no_shorter() -> None:
    """A bound of nothing would refuse everything."""
    assert frames_of(b"1\n22\n", chunk_bytes=1, max_bytes=1) == [b"1", FrameTooLong(2)]
    for max_bytes in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            LineFramer(max_bytes)


@pytest.mark.parametrize("odd", [b"", b"  ", b'{"a":1}\r', b"word", b"[1]", b'{"a":"' + b"x" * 200 + b'"}'])
@pytest.mark.parametrize("held", [b"", b'{"held":1,', b'{"held":"' + b"x" * 95])
def test_an_odd_line_among_many_is_treated_as_it_is_alone(odd: bytes, held: bytes) -> None:
    """A chunk of many usual lines is checked as a whole; one line at a time is the reference."""
    lines = [b'"b":2}' if held else b'{"b":2}', *[b'{"a":1}'] * 20]
    for at in range(1, len(lines)):
        data = b"\n".join([*lines[:at], odd, *lines[at:], b'{"rest":'])
        together, alone = LineFramer(100), LineFramer(100)
        for framer in (together, alone):
            framer.feed(held)
        found = [frame for line in data.splitlines(keepends=True) for frame in alone.feed(line)]
        assert together.feed(data) == found
        assert together.held_bytes == alone.held_bytes
