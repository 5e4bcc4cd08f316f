"""Hash chains of audit records: each line has the hash of the line before it, so that changes are found.

A chain belongs to one writer: to one process and one `Audit`. A line is ``{…,"writer":"…","seq":7,"prev":"…",
"hash":"…"}``; ``hash`` is the SHA-256 of the bytes of the line before ``,"hash"`` with the last ``prev`` in them, or
with a key the HMAC-SHA256.

Without a key, anyone who can write to the file can also make a whole new chain. The heads of the chains (number and
hash of the last record) show that if they are kept elsewhere. With a key, only its owner can make one. In both cases
records that are missing at the end are found only with heads.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from os import getpid
from typing import Any, Final

from msgspec import Struct

from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import FerruleError
from ferrule.wire.json_types import is_mapping

__all__ = ["Chain", "ChainHead", "ChainReport", "check_chains"]

_HASH: Final = b',"hash":"'
_HEX_CHARS: Final = 64


class ChainHead(Struct, frozen=True):
    """The last record of a chain.

    Attributes:
        writer: the id of the chain.
        seq: the number of the record, from 1.
        hash: its hash.
    """

    writer: str
    seq: int
    hash: str


class Chain:
    """The chain of one writer. A process that was forked from another one begins a chain of its own.

    Args:
        key: the key; ``None`` for plain hashes.
    """

    def __init__(self, key: bytes | None) -> None:
        self._key = key
        self._pid = 0
        self._head = ChainHead("", 0, "")

    def link(self, record: Mapping[str, Any]) -> tuple[bytes, Callable[[], None]]:
        """Return the line of the next record, and a function to call when it is written."""
        if self._pid != getpid():
            self._pid, self._head = getpid(), ChainHead(secrets.token_hex(8), 0, "")
        last = self._head
        body = encode({**record, "writer": last.writer, "seq": last.seq + 1, "prev": last.hash})[:-1]
        found = hash_of(body, self._key)

        def written() -> None:
            self._head = ChainHead(last.writer, last.seq + 1, found)

        return body + _HASH + found.encode() + b'"}', written


def hash_of(body: bytes, key: bytes | None) -> str:
    """Return the hash of a line without its last member, in hexadecimal digits."""
    return sha256(body).hexdigest() if key is None else hmac.new(key, b"chain\n" + body, "sha256").hexdigest()


class ChainReport(Struct):
    """What a check of chains has found.

    Attributes:
        records: number of records that belong to a chain.
        heads: the last record of each chain.
        problems: what is wrong, a sentence each; at most 100.
    """

    records: int
    heads: dict[str, ChainHead]
    problems: list[str]


def check_chains(
    lines: Iterable[bytes],
    *,
    key: bytes | None = None,
    heads: Iterable[ChainHead] = (),
    is_partial: bool = False,
) -> ChainReport:
    """Check that no record was changed, removed, added, reordered, or cut off at the end.

    Args:
        lines: the lines of all files of an audit, the oldest file first.
        key: the key of the chains; ``None`` for plain hashes.
        heads: heads that were kept earlier: their records must still be there. Without them, a chain that was cut at
            its end is not found.
        is_partial: the oldest files may be gone: a chain need not begin with its first record.
    """
    report = ChainReport(0, {}, [])
    kept = {(head.writer, head.seq): head for head in heads}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        problem = _check_line(line.rstrip(b"\r\n"), report, kept, key, is_partial)
        if problem is not None:
            report.problems.append(f"line {number}: {problem}")
        if len(report.problems) >= 100:
            break
    for writer, seq in kept:
        last = report.heads.get(writer)
        if last is None or last.seq < seq:
            report.problems.append(f"chain {writer}: records up to {seq} are missing at the end")
    return report


def _check_line(
    line: bytes, report: ChainReport, kept: dict[tuple[str, int], ChainHead], key: bytes | None, is_partial: bool
) -> str | None:
    body, mark, rest = line.rpartition(_HASH)
    try:
        record: Any = decode(line)
    except FerruleError:
        return "this is no JSON object"
    if not mark or len(rest) != _HEX_CHARS + 2 or not is_mapping(record):
        return "this record has no hash"
    writer, seq = str(record.get("writer")), record.get("seq")
    if not isinstance(seq, int):
        return "this record has no number"
    last = report.heads.get(writer)
    found = ChainHead(writer, seq, rest[:_HEX_CHARS].decode("ascii", "replace"))
    report.records += 1
    report.heads[writer] = found  # the next lines are judged by this one, so that one fault is one problem
    expected = 1 if last is None else last.seq + 1
    if not hmac.compare_digest(hash_of(body, key).encode(), found.hash.encode()):
        return f"record {seq} was changed, or the key is wrong"
    if seq != expected and not (last is None and is_partial):
        return f"record {seq} stands where record {expected} belongs: records were removed, added or reordered"
    if last is not None and record.get("prev") != last.hash:
        return f"record {seq} does not follow the record before it, which was changed or replaced"
    head = kept.get((writer, seq))
    if head is not None and head.hash != found.hash:
        return f"record {seq} is another one than the kept head says"
    return None
