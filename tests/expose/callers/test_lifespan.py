"""ferrule.expose.callers.lifespan: an application starts once for all of its servers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule.expose.callers.lifespan import ApplicationLife, StartFailed, life_of

pytestmark = pytest.mark.anyio


class App:
    """An ASGI application that only lives."""

    def __init__(self, *, problem: str = "", raises: bool = False, leaves: Any = None) -> None:
        self.events: list[str] = []
        self._problem = problem
        self._raises = raises
        self._leaves = leaves
        self.going = anyio.Event()
        self.going.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._raises:
            raise TypeError("no lifespan here")
        assert (await receive())["type"] == "lifespan.startup"
        await self.going.wait()
        self.events.append("start")
        if self._problem:
            await send({"type": "lifespan.startup.failed", "message": self._problem})
            return
        if self._leaves is not None:
            scope["state"].update(self._leaves)
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        self.events.append("end")
        await send({"type": "lifespan.shutdown.complete"})


async def test_the_first_user_starts_it_and_the_last_one_ends_it(any_backend: Any) -> None:
    """In whatever order they leave, and again later; its state is there while it runs."""
    app = App(leaves={"pool": 1})
    life = ApplicationLife(app)
    first, second = life.started(), life.started()
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    assert (app.events, life.state) == (["start"], {"pool": 1})
    await second.__aexit__(None, None, None)
    assert (app.events, life.state) == (["start", "end"], None)
    async with life.started():
        assert app.events == ["start", "end", "start"]


async def test_users_that_come_during_the_start_wait_for_it() -> None:
    """None is served by an application that is half started."""
    app = App()
    app.going = anyio.Event()
    life = ApplicationLife(app)
    seen: list[list[str]] = []

    async def use() -> None:
        async with life.started():
            seen.append(list(app.events))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(use)
        await anyio.wait_all_tasks_blocked()
        assert seen == []
        app.going.set()
    assert seen == [["start"]] * 3
    assert app.events == ["start", "end"]


async def test_an_application_that_its_host_runs_is_left_alone() -> None:
    """From the moment on when its start begins."""
    app = App()
    life = ApplicationLife(app)
    life.began()
    async with life.started():
        assert app.events == []
    life.ended()
    async with life.started():
        assert app.events == ["start"]


async def test_a_start_that_fails_fails_every_user(any_backend: Any) -> None:
    """With the application's own words; the next user tries again."""
    app = App(problem="no database")
    life = ApplicationLife(app)
    for count in (1, 2):
        with pytest.raises(StartFailed, match="no database"):
            async with life.started():
                pass
        assert app.events == ["start"] * count


async def test_an_application_without_a_lifespan_is_used_without() -> None:
    """The protocol's way to say so is an exception."""
    async with ApplicationLife(App(raises=True)).started():
        pass


async def test_an_application_that_does_not_end_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a server can end."""
    monkeypatch.setattr("ferrule.expose.callers.lifespan.STOP_TIMEOUT_S", 0.01)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await anyio.sleep_forever()

    with anyio.fail_after(30):
        async with ApplicationLife(app).started():
            pass


async def test_a_loop_that_ended_in_between_is_forgotten() -> None:
    """As in tests that leave their servers open."""
    import asyncio
    import threading

    app = App()
    life = ApplicationLife(app)

    def leave_open() -> None:
        async def main() -> None:
            await life.started().__aenter__()

        asyncio.run(main())

    thread = threading.Thread(target=leave_open)
    thread.start()
    thread.join()
    app.events.clear()
    with anyio.fail_after(30):
        async with life.started():
            assert app.events == ["start"]


def test_each_application_has_one_life() -> None:
    """Those with slots, too; each is observed once."""

    class Slotted:
        __slots__ = ()

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None: ...

    observed: list[Any] = []
    for app in (App(), Slotted()):
        life = life_of(app, lambda app, life: observed.append(app))
        assert life_of(app, lambda app, life: observed.append(app)) is life
        assert observed.pop() is app
        assert observed == []
