"""Estimates the time that a JSON Schema validator needs for the numbers of a value.

Two kinds take jsonschema-rs long (measured with 0.40): whole numbers of many digits, which it reads as text (0.8 ms
for 4,000 digits), and numbers that are checked against a ``multipleOf`` with a fraction, by an exact division (0.2 ms
for ``1e300``, 70 ms and more for 4,000 digits). In a list of such numbers each takes six bytes of the message, and the
list can block the process for minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import frexp
from typing import Any, Final, cast

__all__ = ["division_work", "fraction_bits", "is_long", "length_work"]

_WORD_BITS: Final = 64
_LONG: Final = 1 << 128
_DIVISION: Final = 40


def is_long(value: int) -> bool:
    """Return whether a whole number has so many digits that reading it takes notable time."""
    return not -_LONG < value < _LONG


def length_work(value: int) -> int:
    """Return the time to read a whole number, in evaluations of a subschema."""
    # Converting decimal digits takes time in the square of their number.
    return (value.bit_length() // _WORD_BITS) ** 2


def fraction_bits(schema: Mapping[str, Any]) -> int:
    """Return the size of a subschema's own ``multipleOf`` in bits, where it is a fraction; 0 without one."""
    divisor = schema.get("multipleOf")
    if type(divisor) is not float or divisor.is_integer():
        return 0
    return abs(frexp(divisor)[1]) + 1


def division_work(value: Any, bits: int, limit: int) -> int:
    """Return the time to divide every number of a value by a fraction once, in evaluations of a subschema.

    Args:
        value: any JSON value.
        bits: the number of bits of the fraction, by `fraction_bits`.
        limit: the count stops above it.
    """
    count = 0
    todo: list[Any] = [value]
    while todo and count <= limit:
        part: Any = todo.pop()
        kind = type(cast("object", part))
        if kind is dict:
            todo.extend(cast("dict[str, Any]", part).values())
        elif kind is list:
            todo.extend(part)
        elif kind is int or kind is float:
            size = part.bit_length() if kind is int else abs(frexp(part)[1])
            count += _DIVISION + 4 * ((size + bits) // _WORD_BITS) ** 3
    return count
