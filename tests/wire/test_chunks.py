"""The buffer under line framing and event streams."""

from __future__ import annotations

import gc

import pytest

from ferrule.wire.chunks import ChunkBuffer


@pytest.mark.parametrize("sizes", [[1] * 5000, [4095, 4096, 1, 70_000, 3, 3], [100_000], [4096] * 20, []])
def test_pieces_of_any_size_are_joined_in_order(sizes: list[int]) -> None:
    """Small pieces gather in blocks and large ones do not: neither may overtake the other."""
    buffer = ChunkBuffer()
    expected = b""
    for at, size in enumerate(sizes):
        piece = bytes([at % 251]) * size
        buffer.append(piece)
        expected += piece
        assert buffer.size == len(expected)
    assert buffer.take() == expected
    assert buffer.size == 0
    assert buffer.take() == b""


def test_clear_forgets_everything() -> None:
    """A line that is given up must not leak into the next one."""
    buffer = ChunkBuffer()
    buffer.append(b"a" * 5000)
    buffer.append(b"b")
    buffer.clear()
    buffer.append(b"c")
    assert buffer.take() == b"c"


def test_single_bytes_do_not_cost_an_object_each() -> None:
    """A peer that dribbles would otherwise cost a list entry or an object per byte."""
    buffer = ChunkBuffer()
    piece = b"xy"
    for _ in range(200_000):
        buffer.append(piece)
    held = [each for each in gc.get_referents(buffer) if isinstance(each, list)]
    assert sum(len(pieces) for pieces in held) < 20
    assert buffer.size == 400_000
