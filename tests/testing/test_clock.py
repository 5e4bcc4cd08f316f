"""ferrule.testing.clock: a clock that only tests advance."""

from __future__ import annotations

import pytest

from ferrule.testing import ManualClock


def test_a_manual_clock_stands_still_until_it_is_advanced() -> None:
    """The test alone advances it."""
    clock = ManualClock(5)
    assert clock() == clock() == 5.0
    assert clock.advance(1.5) == 6.5
    assert clock() == 6.5
    clock.advance(0)
    with pytest.raises(ValueError, match="back"):
        clock.advance(-1)
