"""Jobs: which are kept, what the page learns of them, and to which one a traceback belongs."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.inspector.crashes import Crash
from ferrule.inspector.feed import Feed
from ferrule.inspector.jobs import MAX_JOBS, MAX_PINNED, Job, Jobs
from ferrule.inspector.trace import MessageStore

pytestmark = pytest.mark.anyio


class Shown(Feed):
    """A feed that keeps the last state of each job, and a clock that the test moves."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.gone: list[str] = []
        self.time_ms = 0.0

    def now_ms(self) -> float:
        return self.time_ms

    def publish_state(self, kind: str, key: str, **facts: Any) -> None:
        assert kind == "job"
        self.jobs[key] = facts

    def withdraw_state(self, kind: str, key: str) -> None:
        assert kind == "job"
        self.gone.append(key)


@pytest.fixture
def feed() -> Shown:
    """What the page sees."""
    return Shown()


@pytest.fixture
def jobs(feed: Shown) -> Jobs:
    """No jobs."""
    return Jobs(feed, MessageStore())


def begin(jobs: Jobs, key: str, op: str = "call", **params: Any) -> Job:
    """A job that runs."""
    return jobs.begin(key, "main", op, {"tool": "add", **params})


async def test_lists_are_removed_before_calls_and_pinned_calls_last(jobs: Jobs, feed: Shown) -> None:
    """The history of a tool must not be displaced by the lists that each connection loads."""
    running = begin(jobs, "running")
    jobs.end(begin(jobs, "pinned"), "done")
    assert jobs.pin("pinned", True)
    jobs.end(begin(jobs, "old"), "done")
    jobs.end(begin(jobs, "new"), "done")
    for number in range(MAX_JOBS):
        jobs.end(begin(jobs, f"list {number}", "list"), "done")
    assert all(jobs.get(key) for key in ("running", "pinned", "old", "new"))
    assert feed.gone == [f"list {number}" for number in range(4)]
    for number in range(MAX_JOBS - 1):
        jobs.end(begin(jobs, f"call {number}"), "done")
    assert jobs.get("old") is None
    assert jobs.get("pinned") is not None
    assert running.state == "running"


async def test_pinned_jobs_are_bounded(jobs: Jobs) -> None:
    """And a job that is pinned already stays so."""
    for number in range(MAX_PINNED + 1):
        jobs.end(begin(jobs, str(number)), "done")
    assert all(jobs.pin(str(number), True) for number in range(MAX_PINNED))
    assert not jobs.pin(str(MAX_PINNED), True)
    assert jobs.pin("0", True)
    assert jobs.pin("0", False)
    assert jobs.pin(str(MAX_PINNED), True)
    assert not jobs.pin("unknown", True)


async def test_the_page_gets_the_beginning_of_the_arguments_without_secrets(jobs: Jobs, feed: Shown) -> None:
    """A line of the history is short, and is on the screen that one shares."""
    begin(jobs, "a", arguments={"password": "hush", "text": "x" * 10_000})
    shown = feed.jobs["a"]["arguments"]
    assert "hush" not in shown
    assert len(shown) <= 300
    begin(jobs, "b", arguments={})
    assert feed.jobs["b"]["arguments"] == ""


async def test_a_traceback_belongs_to_the_tool_that_its_log_line_names(jobs: Jobs, feed: Shown) -> None:
    """Two tools run; the second one fails."""
    begin(jobs, "first")
    begin(jobs, "second", tool="fails")
    jobs.note_crash("main", Crash("Tool 'fails' failed"))
    assert not feed.jobs["first"]["has_crash"]
    assert feed.jobs["second"]["has_crash"]
    jobs.note_crash("main", Crash("Tool 'another' failed"))
    assert not feed.jobs["first"]["has_crash"]


async def test_a_traceback_without_a_name_belongs_to_the_oldest_that_failed(jobs: Jobs, feed: Shown) -> None:
    """Of the same connection, and not long before; a call that has succeeded did not crash."""
    jobs.end(begin(jobs, "fine"), "done")
    failed = begin(jobs, "failed")
    failed.is_error = True
    jobs.end(failed, "done")
    jobs.note_crash("legacy", Crash("boom"))
    assert not feed.jobs["failed"]["has_crash"]
    crash = Crash("boom")
    jobs.note_crash("main", crash)
    assert feed.jobs["failed"]["has_crash"]
    assert not feed.jobs["fine"]["has_crash"]
    jobs.note_crash("main", crash)  # grown
    late = begin(jobs, "late")
    late.is_error = True
    jobs.end(late, "done")
    feed.time_ms += 60_000
    jobs.note_crash("main", Crash("boom"))
    assert not feed.jobs["late"]["has_crash"]
