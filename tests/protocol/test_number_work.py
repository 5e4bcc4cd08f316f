"""ferrule.protocol.number_work: which numbers take long, and that more of them take longer."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.protocol.number_work import division_work, fraction_bits, is_long, length_work


@pytest.mark.parametrize("value", [0, 1, -1, 2**53, -(2**53), 2**127 - 1, 1 - 2**127, 10**38, -(10**38)])
def test_numbers_that_fit_a_machine_are_not_long(value: int) -> None:
    """Of 128 bits, either sign."""
    assert not is_long(value)
    assert length_work(value) <= 1


@pytest.mark.parametrize("value", [2**128, -(2**128), 10**40, -(10**40), 10**4000])
def test_numbers_of_many_digits_are_long(value: int) -> None:
    """A validator reads them as text."""
    assert is_long(value)
    assert length_work(value) >= 4


def test_reading_takes_the_square_of_the_length() -> None:
    """Twice as many digits take four times as long."""
    assert length_work(2**12799) * 4 == length_work(2**25599)
    assert 30_000 < length_work(2**12799) < 50_000


@pytest.mark.parametrize(
    ("divisor", "bits"), [(None, 0), (5, 0), (5.0, 0), (True, 0), ("0.5", 0), (0.5, 1), (0.25, 2), (2.0**-300, 300)]
)
def test_only_fractions_are_divided_exactly(divisor: Any, bits: int) -> None:
    """The size is that of the exponent: a multiple of a whole number is found without one."""
    found = fraction_bits({"multipleOf": divisor})
    assert (found == 0) if bits == 0 else (bits <= found <= bits + 1)


@pytest.mark.parametrize("value", [None, True, "5" * 1000, [], {}, ["a", {"b": None}]])
def test_what_is_no_number_is_not_divided(value: Any) -> None:
    """Booleans are none."""
    assert division_work(value, 10, 10**9) == 0


def test_every_number_of_a_value_is_divided() -> None:
    """Members and entries at any depth, whole or not."""
    one = division_work(1.5, 10, 10**9)
    assert one > 0
    assert division_work({"a": [1.5, 1.5], "b": {"c": 1.5}}, 10, 10**9) == 3 * one
    assert division_work([1, 2.5], 10, 10**9) == 2 * one


@pytest.mark.parametrize("large", [10**300, 1e300, 1e-300])
def test_large_and_small_numbers_take_longer(large: float) -> None:
    """By the cube of the length, of both numbers together."""
    one = division_work(1.5, 10, 10**9)
    assert one * 100 < division_work(large, 10, 10**9) < one * 1000
    assert (
        division_work(1.5, 6400, 10**12) * 7 < division_work(1.5, 12800, 10**12) < division_work(1.5, 6400, 10**12) * 9
    )


def test_counting_stops_above_the_limit() -> None:
    """What is too much already need not be known exactly."""
    assert 1000 < division_work([1.5] * 1_000_000, 10, 1000) < 2000


@pytest.mark.parametrize(
    ("number", "bits", "work"),
    [
        (1.5, 10, 40),
        (2**52, 10, 40),
        (2**53, 10, 44),
        (2.0**53, 10, 44),
        (2.0**-55, 10, 44),
        (10**300, 10, 40 + 4 * 15**3),
        (1e300, 10, 40 + 4 * 15**3),
        (1e-300, 10, 40 + 4 * 15**3),
        (1, 63, 44),
        (1, 127, 72),
    ],
)
def test_a_division_costs_forty_and_four_for_the_cube_of_its_words(number: float, bits: int, work: int) -> None:
    """As measured; words are of 64 bits, and both numbers count."""
    assert division_work(number, bits, 10**9) == work
    assert division_work([number], bits, 10**9) == work


@pytest.mark.parametrize(("bits", "work"), [(63, 0), (64, 1), (127, 1), (128, 4), (640, 100), (703, 100), (704, 121)])
def test_reading_costs_the_square_of_the_words(bits: int, work: int) -> None:
    """Of 64 bits, either sign."""
    assert length_work(2**bits - 1) == length_work(1 - 2**bits) == work


@pytest.mark.parametrize(
    ("divisor", "bits"), [(0.5, 1), (0.25, 2), (0.01, 7), (1.5, 2), (3.75, 3), (-0.25, 2), (2.0**-300, 300)]
)
def test_the_size_of_a_fraction_is_that_of_its_exponent(divisor: float, bits: int) -> None:
    """Either sign of it, and one bit more."""
    assert fraction_bits({"multipleOf": divisor}) == bits


def test_numbers_are_counted_until_the_limit_is_passed() -> None:
    """At the limit itself the count goes on."""
    assert division_work([1.5] * 100, 10, 1000) == 1040
    assert division_work([1.5] * 25, 10, 1000) == 1000
    assert division_work([1.5] * 100, 10, 1039) == 1040
    assert division_work([1.5] * 100, 10, 1040) == 1080
