"""First steps without a scheduled task: asyncio behaves for the body as in a task of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any

import pytest

from ferrule.kernel.concurrency.first_step import FirstSteps, LentTasks, Rest, StartedCoroutine, first_steps

VALUE: ContextVar[str] = ContextVar("value", default="none")

# Of each Python the one that it uses.
KINDS = [FirstSteps] if sys.version_info >= (3, 12) else [LentTasks]


class Runner:
    """Runs bodies as the fast path does: the first step at once, the rest as a coroutine around `StartedCoroutine`."""

    def __init__(self, kind: type[FirstSteps]) -> None:
        self.adopted: list[asyncio.Task[Any]] = []
        self.loop = asyncio.get_running_loop()
        self.steps = kind(self.loop, self.adopted.append)
        self.outcomes: list[Any] = []

    async def start(self, *bodies: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Begin bodies in one callback of the loop."""
        done = self.loop.create_future()

        def callback() -> None:
            for body in bodies:
                self.steps.run(self._work(body), self._wait, body)
            done.set_result(None)

        self.loop.call_soon(callback)
        await done

    async def _work(self, body: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        try:
            self.outcomes.append(await body())
        except BaseException as error:
            self.outcomes.append(error)
            if not isinstance(error, Exception):
                raise

    def _wait(self, body: object, work: Coroutine[Any, Any, Any], pending: Any) -> Rest | None:
        rest = self._rest(StartedCoroutine(work, pending))
        return rest, rest.send(None)

    async def _rest(self, begun: StartedCoroutine) -> None:
        await begun

    async def settle(self) -> list[Any]:
        """All outcomes, once everything that was adopted has ended."""
        if self.adopted:
            await asyncio.wait(self.adopted)
        return self.outcomes


def run(kind: type[FirstSteps], test: Callable[[Runner], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        runner = Runner(kind)
        await test(runner)
        runner.steps.close()

    asyncio.run(main())


every_kind = pytest.mark.parametrize("kind", KINDS)


@every_kind
def test_a_body_that_does_not_wait_is_over_when_it_was_begun(kind: type[FirstSteps]) -> None:
    """No task is made for it."""

    async def test(runner: Runner) -> None:
        async def body() -> str:
            return "done"

        await runner.start(body, body)
        assert runner.outcomes == ["done", "done"]
        assert runner.adopted == []

    run(kind, test)


@every_kind
def test_timeouts_and_groups_work_in_both_parts_of_a_body(kind: type[FirstSteps]) -> None:
    """They ask for the current task, in the first step and later: it is the same one, and no other body's."""

    async def test(runner: Runner) -> None:
        seen: list[tuple[Any, Any]] = []

        async def body() -> str:
            before = asyncio.current_task()
            async with asyncio.TaskGroup() as group:
                child = group.create_task(asyncio.sleep(0, "child"))
            try:
                async with asyncio.timeout(0):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                seen.append((before, asyncio.current_task()))
            return child.result()

        await runner.start(body, body)
        assert await runner.settle() == ["child", "child"]
        assert all(before is after and before is not None for before, after in seen)
        assert seen[0][0] is not seen[1][0]

    run(kind, test)


@every_kind
def test_a_timeout_that_the_first_step_leaves_does_not_reach_the_next_body(kind: type[FirstSteps]) -> None:
    """It ends with its body, though that never waited."""

    async def test(runner: Runner) -> None:
        async def quick() -> str:
            async with asyncio.timeout(0):
                return "quick"

        async def slow() -> str:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            return "slow"

        await runner.start(quick, slow)
        assert await runner.settle() == ["quick", "slow"]

    run(kind, test)


@every_kind
def test_cancelling_an_adopted_task_reaches_the_body_and_what_it_waits_for(kind: type[FirstSteps]) -> None:
    """Also before the task has been handed what the first step waits for."""

    async def test(runner: Runner) -> None:
        awaited: list[asyncio.Task[Any]] = []

        async def body() -> None:
            awaited.append(asyncio.get_running_loop().create_task(asyncio.sleep(100)))
            await awaited[0]

        await runner.start(body)
        (task,) = runner.adopted
        task.cancel()
        (outcome,) = await runner.settle()
        assert isinstance(outcome, asyncio.CancelledError)
        assert awaited[0].cancelled()
        assert task.cancelled()

    run(kind, test)


@every_kind
def test_a_body_that_cancels_itself_in_its_first_step_is_cancelled_where_it_waits(kind: type[FirstSteps]) -> None:
    """As in a task of its own; one that never waits ends as if it had not."""

    async def test(runner: Runner) -> None:
        async def waits() -> None:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(100)

        async def returns() -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return "returned"

        async def other() -> str:
            await asyncio.sleep(0)
            return "other"

        await runner.start(returns, waits, other)
        outcomes = await runner.settle()
        assert outcomes[0] == "returned"
        assert sorted(type(outcome).__name__ for outcome in outcomes[1:]) == ["CancelledError", "str"]

    run(kind, test)


@every_kind
def test_variables_of_one_body_are_not_seen_by_the_next(kind: type[FirstSteps]) -> None:
    """Each body has a context of its own, before and after it waits."""

    async def test(runner: Runner) -> None:
        async def sets() -> str:
            VALUE.set("mine")
            await asyncio.sleep(0)
            return VALUE.get()

        async def sets_at_once() -> str:
            VALUE.set("mine")
            return VALUE.get()

        async def reads() -> str:
            return VALUE.get()

        await runner.start(sets_at_once, reads, sets, reads)
        assert sorted(await runner.settle()) == ["mine", "mine", "none", "none"]

    run(kind, test)


@every_kind
@pytest.mark.parametrize("touch", ["keep", "name", "callback", "cancel", "weak"])
def test_a_task_that_a_body_has_touched_is_no_other_bodys_task(kind: type[FirstSteps], touch: str) -> None:
    """Sessions are kept by task (``async_scoped_session``), callbacks run at its end, names stand in logs."""

    async def test(runner: Runner) -> None:
        import weakref

        kept: Any = weakref.WeakKeyDictionary() if touch == "weak" else {}
        ended: list[str] = []
        seen: list[tuple[str, bool, int]] = []

        async def body() -> str:
            task = asyncio.current_task()
            assert task is not None
            seen.append((task.get_name(), task in kept, task.cancelling()))
            if touch in ("keep", "weak"):
                kept[task] = "session"
            elif touch == "name":
                task.set_name("mine")
            elif touch == "callback":
                task.add_done_callback(lambda _: ended.append("called"))
            elif touch == "cancel":
                task.cancel()
            return "ok"

        await runner.start(body, body)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await runner.start(body)
        for _ in range(4):
            await asyncio.sleep(0)
        assert runner.outcomes == ["ok"] * 3
        assert [(in_kept, cancelling) for _, in_kept, cancelling in seen] == [(False, 0)] * 3
        assert "mine" not in [name for name, _, _ in seen]
        assert ended == (["called"] * 3 if touch == "callback" else [])

    run(kind, test)


@every_kind
def test_what_a_first_step_raises_beyond_exceptions_goes_through(kind: type[FirstSteps]) -> None:
    """Ctrl-C in a body ends the loop as it does in any callback, and the next body finds everything in order."""

    async def test(runner: Runner) -> None:
        raised: list[str] = []

        async def interrupted() -> None:
            raise KeyboardInterrupt

        def callback() -> None:
            try:
                runner.steps.run(interrupted(), runner._wait, None)
            except KeyboardInterrupt:
                raised.append("interrupt")

        runner.loop.call_soon(callback)
        await asyncio.sleep(0)

        async def body() -> str:
            assert asyncio.current_task() is not None
            return "ok"

        await runner.start(body)
        assert raised == ["interrupt"]
        assert runner.outcomes == ["ok"]

    run(kind, test)


def test_begun_gives_what_the_first_step_gave() -> None:
    """A value, an error, or what is waited for."""

    async def test() -> None:
        assert await StartedCoroutine.returned(3) == 3
        with pytest.raises(ValueError, match="no"):
            await StartedCoroutine.raised(ValueError("no"))

    asyncio.run(test())


def test_this_python_gets_what_it_can() -> None:
    """Eager tasks where there are any."""

    async def test() -> None:
        made = first_steps(asyncio.get_running_loop(), lambda _: None)
        assert type(made) is (FirstSteps if sys.version_info >= (3, 12) else LentTasks)
        made.close()

    asyncio.run(test())


def test_closing_a_begun_coroutine_runs_its_clean_up() -> None:
    """As of any coroutine that is not awaited to its end."""

    async def test() -> None:
        ended: list[str] = []

        async def body() -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append("closed")

        coroutine = body()
        waiting = StartedCoroutine(coroutine, coroutine.send(None)).__await__()
        next(waiting)
        waiting.close()
        assert ended == ["closed"]

    asyncio.run(test())


def test_an_error_is_raised_into_a_begun_coroutine_where_it_waits() -> None:
    """It may handle it, and then return or wait again."""

    async def test() -> None:
        async def body() -> str:
            try:
                await asyncio.sleep(1000)
            except ValueError as error:
                return str(error)
            return ""

        async def patient() -> str:
            for _ in range(3):
                try:
                    await asyncio.sleep(0)
                except ValueError:
                    continue
            return "slept"

        coroutine = body()
        waiting = StartedCoroutine(coroutine, coroutine.send(None)).__await__()
        next(waiting)
        with pytest.raises(StopIteration, match="no"):
            waiting.throw(ValueError("no"))
        coroutine = patient()
        waiting = StartedCoroutine(coroutine, coroutine.send(None)).__await__()
        next(waiting)
        waiting.throw(ValueError("no"))
        next(waiting)
        with pytest.raises(StopIteration, match="slept"):
            next(waiting)

    asyncio.run(test())
