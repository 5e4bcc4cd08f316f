"""Imports without runs of the cyclic garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

from ferrule._imports import without_collector


class Kept:
    """An object that the collector knows."""


@pytest.fixture(autouse=True)
def enabled() -> Generator[None]:
    gc.enable()
    yield
    gc.unfreeze()
    gc.enable()


def test_what_the_block_makes_is_in_the_oldest_generation() -> None:
    """The next collection of the young ones would go through all of it."""
    with without_collector():
        assert not gc.isenabled()
        kept = [Kept() for _ in range(5_000)]
    assert gc.isenabled()
    assert len(gc.get_objects(0)) + len(gc.get_objects(1)) < 2_500
    assert kept[0] in gc.get_objects(2)


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with without_collector():
        pass
    assert not gc.isenabled()


def test_objects_that_the_program_has_frozen_stay_frozen() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with without_collector():
        kept = Kept()
    assert gc.get_freeze_count() >= frozen > 0
    assert any(each is kept for each in gc.get_objects())
