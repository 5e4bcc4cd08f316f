"""The root of the error family."""

from __future__ import annotations

import pytest

from ferrule.wire.faults import ConvertError, DecodeError, EncodeError, FerruleError


@pytest.mark.parametrize("kind", [DecodeError, EncodeError, ConvertError])
def test_every_fault_is_ours_and_a_value_error(kind: type[Exception]) -> None:
    """One base class for all errors of Ferrule, and the standard class for code that does not use it."""
    assert issubclass(kind, FerruleError)
    assert issubclass(kind, ValueError)
    assert not issubclass(FerruleError, ValueError)


def test_a_convert_error_ends_with_its_path() -> None:
    """The message is enough to find the value; the parts are there for programs."""
    error = ConvertError("Expected `int`, got `str`", "$.a[0]")
    assert str(error) == "Expected `int`, got `str` at $.a[0]"
    assert (error.reason, error.path) == ("Expected `int`, got `str`", "$.a[0]")


def test_a_convert_error_of_the_value_itself_names_no_path() -> None:
    """ "at $" would say nothing."""
    error = ConvertError("Expected `object`, got `array`")
    assert str(error) == "Expected `object`, got `array`"
    assert error.path == "$"
