"""A chain shows every change of a file but the loss of its end, and heads show that too."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ferrule.app.middleware.audit.chain import Chain, check_chains, hash_of

KEY = b"0123456789abcdef"


def lines_of(count: int, key: bytes | None = None, chain: Chain | None = None) -> list[bytes]:
    made = chain or Chain(key)
    lines = []
    for number in range(count):
        line, written = made.link({"member": f"tool {number}"})
        written()
        lines.append(line)
    return lines


def problems(lines: list[bytes], **options: Any) -> list[str]:
    return check_chains(lines, **options).problems


@pytest.mark.parametrize("key", [None, KEY])
def test_an_unchanged_chain_has_no_problems(key: bytes | None) -> None:
    report = check_chains([*lines_of(5, key), b"", *lines_of(3, key)], key=key)
    assert (report.problems, report.records, len(report.heads)) == ([], 8, 2)


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("place", range(5))
def test_a_change_anywhere_is_found(key: bytes | None, place: int) -> None:
    lines = lines_of(5, key)
    lines[place] = lines[place].replace(b"tool", b"t00l")
    assert len(problems(lines, key=key)) == 1
    assert "was changed" in problems(lines, key=key)[0]


@pytest.mark.parametrize("place", range(4))
def test_a_removed_record_is_found(place: int) -> None:
    lines = lines_of(5)
    del lines[place]
    assert len(problems(lines)) == 1


def test_records_in_another_order_or_twice_are_found() -> None:
    lines = lines_of(4)
    assert problems([lines[0], lines[2], lines[1], lines[3]])
    assert problems([lines[0], lines[1], lines[1], lines[2], lines[3]])


def test_a_record_that_was_made_anew_breaks_the_next_one() -> None:
    """Without a key anybody can compute its hash."""
    lines = lines_of(3)
    other = Chain(None)
    (forged,) = lines_of(1, chain=other)
    forged = forged.replace(forged.split(b'"writer":"')[1][:16], lines[0].split(b'"writer":"')[1][:16])
    body = forged.rpartition(b',"hash":"')[0]
    forged = (
        body.replace(b"tool 0", b"nothing")
        + b',"hash":"'
        + hash_of(body.replace(b"tool 0", b"nothing"), None).encode()
        + b'"}'
    )
    assert problems([forged, *lines[1:]]) == [
        "line 2: record 2 does not follow the record before it, which was changed or replaced"
    ]


def test_a_lost_end_is_found_by_heads_only() -> None:
    lines = lines_of(5)
    heads = list(check_chains(lines).heads.values())
    assert problems(lines[:3]) == []
    assert len(problems(lines[:3], heads=heads)) == 1
    assert problems(lines, heads=heads) == []
    assert problems([*lines, *lines_of(2)], heads=heads) == []
    assert len(problems(lines_of(5), heads=heads)) == 1  # a whole chain in place of another one


def test_a_chain_in_place_of_another_with_the_same_writer_is_found_by_its_head() -> None:
    lines = lines_of(3)
    heads = list(check_chains(lines).heads.values())
    writer = heads[0].writer.encode()
    other = lines_of(3)
    other_writer = other[0].split(b'"writer":"')[1][:16]
    made, last = [], b""
    for line in other:
        body = (
            line.replace(other_writer, writer).replace(b"tool", b"t00l").rpartition(b',"prev":"')[0]
            + b',"prev":"'
            + last
            + b'"'
        )
        last = hash_of(body, None).encode()
        made.append(body + b',"hash":"' + last + b'"}')
    assert problems(made) == []
    assert problems(made, heads=heads) == ["line 3: record 3 is another one than the kept head says"]


def test_another_key_is_found() -> None:
    assert len(problems(lines_of(2, KEY), key=b"another key with many bytes")) == 2
    assert len(problems(lines_of(2, KEY))) == 2


def test_old_files_may_be_gone_where_that_is_said() -> None:
    lines = lines_of(5)
    assert problems(lines[2:], is_partial=True) == []
    assert len(problems(lines[2:])) == 1


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"a":1}', b'{"a":1,"hash":"' + b"0" * 64 + b'"}'])
def test_lines_that_belong_to_no_chain_are_problems(line: bytes) -> None:
    assert len(problems([line])) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_has_a_chain_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = Chain(None)
    lines = lines_of(2, chain=chain)
    monkeypatch.setattr("ferrule.app.middleware.audit.chain.getpid", lambda: -1)
    lines += lines_of(2, chain=chain)
    report = check_chains(lines)
    assert (report.problems, sorted(head.seq for head in report.heads.values())) == ([], [2, 2])
