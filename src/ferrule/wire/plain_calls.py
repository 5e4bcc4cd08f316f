"""The envelope of a plain ``tools/call``: a request that has nothing but what every call needs, typed in one pass.

A message that has any other member is not a plain call, and neither is one that is broken: `decode_plain_call` raises
for both, and its caller gives the bytes to `ferrule.wire.codec.decode`, as if it had not looked. What is accepted here
is accepted there, too: the members that stay `Raw` (``arguments``, ``_meta``) are only skipped by msgspec, which reads
less strictly than it decodes, so code that uses them decodes them in full.

The same envelope serves both eras. They differ in what ``_meta`` holds.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Raw, Struct, field

from ferrule.wire.codec import plain_decoder
from ferrule.wire.jsonrpc import encode_response
from ferrule.wire.nesting import MAX_DEPTH

__all__ = [
    "ABSENT",
    "ANSWER_HEAD",
    "NO_ARGUMENTS",
    "PLAIN_METHOD",
    "PlainEnvelope",
    "PlainParams",
    "cut_answer",
    "decode_plain_call",
    "may_be_too_deep",
]

ABSENT: Final = Raw(b"")
"""Stands for a member that is not there."""

NO_ARGUMENTS: Final = b"{}"
"""What absent arguments mean."""

PLAIN_METHOD: Final = "tools/call"


class PlainParams(Struct, forbid_unknown_fields=True, gc=False):
    """The params of a plain call. ``arguments`` and ``meta`` (``_meta``) are the bytes, or `ABSENT`."""

    name: str
    arguments: Raw = ABSENT
    meta: Raw = field(name="_meta", default=ABSENT)


class PlainEnvelope(Struct, forbid_unknown_fields=True, gc=False):
    """A plain call."""

    jsonrpc: Literal["2.0"]
    id: int | str
    method: Literal["tools/call"]
    params: PlainParams


decode_plain_call: Final = plain_decoder(PlainEnvelope)
"""``bytes -> PlainEnvelope``. Raises an ``Exception`` for everything else; the bytes may still be a message."""


def may_be_too_deep(data: bytes) -> bool:
    """Whether JSON may be nested deeper than the codec allows. A quick answer that can be a false yes."""
    return len(data) > MAX_DEPTH and data.count(b"[") + data.count(b"{") > MAX_DEPTH


_AN_ID: Final = 987_654_321
ANSWER_HEAD: Final = encode_response(_AN_ID, {}).partition(b"%d" % _AN_ID)[0]
"""What an answer begins with, up to its id."""


def cut_answer(result: Any, *marks: bytes) -> list[bytes]:
    """The answer with a finished result, without its head and id, cut where marks stand in it.

    Args:
        result: as of `encode_response`.
        marks: JSON texts. Each is looked for as often as it stands in the encoded result, one after the other.
    """
    rest = encode_response(_AN_ID, result).removeprefix(ANSWER_HEAD + b"%d" % _AN_ID)
    pieces = [rest]
    for mark in marks:
        pieces += pieces.pop().split(mark)
    return pieces
