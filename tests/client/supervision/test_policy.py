"""ferrule.client.supervision.policy: pauses that grow, and a circuit that opens."""

from __future__ import annotations

import pytest

from ferrule.client.supervision.policy import ReconnectPolicy


def test_pauses_double_up_to_the_longest() -> None:
    """And stay a number after any count of failures."""
    policy = ReconnectPolicy(first_pause_s=0.5, max_pause_s=6)
    assert [policy.pause_s(failures) for failures in (1, 2, 3, 4, 5, 6, 100_000)] == [0.5, 1, 2, 4, 6, 6, 6]


def test_the_circuit_opens_after_the_given_number_of_failures() -> None:
    """And not before."""
    policy = ReconnectPolicy(failures_to_open=3)
    assert [policy.opens(failures) for failures in (0, 1, 2, 3, 4)] == [False, False, False, True, True]


@pytest.mark.parametrize(
    "options", [{"first_pause_s": 0}, {"first_pause_s": 2, "max_pause_s": 1}, {"failures_to_open": 0}]
)
def test_values_that_cannot_be_meant(options: dict[str, float]) -> None:
    """They are refused where they are written."""
    with pytest.raises(ValueError):
        ReconnectPolicy(**options)  # pyright: ignore[reportArgumentType]
