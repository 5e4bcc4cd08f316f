"""The parts of ``bench/soak.py`` that need no server: a run takes hours, and an error in it costs all of them."""

from __future__ import annotations

import os
import signal

import pytest

from bench.soak import Watch


def test_a_kill_waits_for_a_worker_that_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """The supervisor may not have started another one yet, or it is still importing; the oldest is never killed."""
    alive, killed = [1], list[tuple[int, int]]()
    monkeypatch.setattr(Watch, "_workers", lambda watch: alive)
    monkeypatch.setattr(os, "kill", lambda *arguments: killed.append(arguments))
    watch = Watch(0)
    assert not watch.kill_one()
    alive.append(2)
    assert watch.kill_one()
    assert (killed, watch.kills) == ([(2, signal.SIGKILL)], 1)
