"""The envelope of a plain ``tools/call``: a request with only the members of every call, decoded in one pass.

A message with any other member, or a malformed one, is not a plain call: `decode_plain_call` raises, and its caller
decodes the bytes with `ferrule.wire.codec.decode`. Each message that is accepted here is accepted there too. The
members that stay `Raw` (``arguments``, ``_meta``) are skipped by msgspec, which checks skipped parts less strictly, so
that code which uses them decodes them in full.

The envelope is the same in both eras; only the content of ``_meta`` differs.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import Raw, Struct, field

from ferrule.wire.codec import plain_decoder
from ferrule.wire.jsonrpc import encode_response

__all__ = [
    "ABSENT",
    "ANSWER_HEAD",
    "NO_ARGUMENTS",
    "PLAIN_METHOD",
    "PlainEnvelope",
    "PlainParams",
    "cut_answer",
    "decode_plain_call",
    "without_progress_token",
]

ABSENT: Final = Raw(b"")
"""The value of an absent member."""

NO_ARGUMENTS: Final = b"{}"
"""The arguments of a call without ``arguments``."""

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
"""``bytes -> PlainEnvelope``. Raises an ``Exception`` for bytes that are not a plain call; they may be a message."""


_TOKEN: Final = b'"progressToken":'
_MAX_TOKEN_DIGITS: Final = 15


def without_progress_token(meta: bytes) -> bytes:
    """Return a ``_meta`` without its last member, if that is a ``progressToken`` as clients number their requests.

    So the rest is the same in all requests of a client. What is not JSON before is not JSON after.
    """
    before, mark, rest = meta.rpartition(_TOKEN)
    before, digits = before.rstrip(b" "), rest[:-1].strip(b" ")  # some encoders write spaces
    if not (mark and rest.endswith(b"}") and digits.isdigit() and len(digits) <= _MAX_TOKEN_DIGITS):
        return meta
    if (digits[0] == 0x30 and digits != b"0") or not (before == b"{" or before.endswith(b",")):
        return meta
    return before.removesuffix(b",") + b"}"


_AN_ID: Final = 987_654_321
ANSWER_HEAD: Final = encode_response(_AN_ID, {}).partition(b"%d" % _AN_ID)[0]
"""The beginning of an answer, up to its id."""


def cut_answer(result: Any, *marks: bytes) -> list[bytes]:
    """Return the encoded answer with a finished result, without its head and id, split at the marks.

    Args:
        result: see `encode_response`.
        marks: JSON texts in the encoded result, in the order in which they occur; a text that occurs twice is given
            twice.
    """
    rest = encode_response(_AN_ID, result).removeprefix(ANSWER_HEAD + b"%d" % _AN_ID)
    pieces = [rest]
    for mark in marks:
        pieces += pieces.pop().split(mark)
    return pieces
