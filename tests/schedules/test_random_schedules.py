"""Servers and clients of every transport under random delays, cancellations, closes, lost connections and kills.

Each schedule is named by its event loop, its transport and a seed; a failure prints the line that plays it alone:

    FERRULE_SCHEDULE=asyncio:http:17 python -m pytest tests/schedules

``FERRULE_SCHEDULES_S=3600`` plays new ones for an hour instead of the few that belong to the tests,
``FERRULE_SCHEDULES_OF=asyncio:http`` those of one kind.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.schedules.world import TRANSPORTS, play

KINDS = [(backend, transport) for backend, transports in TRANSPORTS.items() for transport in transports]
FEW = {"asyncio": 8, "trio": 8, "uvloop": 2, "trio-real": 2}
LONG_S = float(os.environ.get("FERRULE_SCHEDULES_S", "0"))
ONE = os.environ.get("FERRULE_SCHEDULE", "")


def judge(backend: str, transport: str, seed: int) -> None:
    wrong = play(backend, transport, seed)
    assert not wrong, f"FERRULE_SCHEDULE={backend}:{transport}:{seed}\n" + "\n".join(wrong)


@pytest.mark.skipif(bool(ONE or LONG_S), reason="the schedules of the environment variables are played instead")
@pytest.mark.parametrize(("backend", "transport"), KINDS)
def test_whatever_happens_everything_ends_and_nothing_is_left(backend: str, transport: str) -> None:
    """A few schedules of each kind, the same ones each time."""
    for seed in range(FEW[backend]):
        judge(backend, transport, seed)


@pytest.mark.skipif(not ONE, reason="FERRULE_SCHEDULE names no schedule")
def test_one_schedule() -> None:
    """The one that failed."""
    backend, transport, seed = ONE.split(":")
    judge(backend, transport, int(seed))


@pytest.mark.timeout(0)
@pytest.mark.skipif(not LONG_S, reason="FERRULE_SCHEDULES_S gives no time")
def test_new_schedules_for_a_while() -> None:
    """By hand: every failure of the time given is reported, not the first one alone."""
    ends_at, failures, played = time.monotonic() + LONG_S, list[str](), 0
    kinds = [kind for kind in KINDS if not (only := os.environ.get("FERRULE_SCHEDULES_OF")) or only in ":".join(kind)]
    while time.monotonic() < ends_at and len(failures) < 30:
        backend, transport = kinds[played % len(kinds)]
        played += 1
        try:
            judge(backend, transport, random.SystemRandom().randrange(1 << 32))
        except AssertionError as error:
            failures.append(str(error).split("\nassert")[0])
            print(failures[-1], flush=True)
    print(f"{played} schedules played")
    assert not failures, "\n\n".join(failures)
