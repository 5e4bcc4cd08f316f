"""Threads, connections and transactions of functions, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.db import connections

from ferrule import Client, Context
from ferrule.app.execution.threads import WorkerThreads
from ferrule.django import DjangoServer
from ferrule.django.conf import DjangoSettings
from ferrule.django.threads import close_connections
from ferrule.django.views import DjangoEndpoint
from ferrule.transports.wsgi import endpoint as wsgi
from tests.transports.asgi.support import modern, modern_headers


def options_of(url: str) -> dict[str, Any]:
    """The entry of ``DATABASES`` for the PostgreSQL of this run."""
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": parts.username,
        "HOST": parts.hostname,
        "PORT": parts.port,
    }


class Table:
    """A database of the project under an alias of its own, with one table, and a view from outside.

    Attributes:
        alias: of the database.
        settings: of the database.
    """

    def __init__(self, alias: str, settings: dict[str, Any], name: str) -> None:
        self.alias = alias
        self.settings = settings
        self.name = name

    def add(self, title: str) -> None:
        """Add a row."""
        with connections[self.alias].cursor() as cursor:
            cursor.execute(f"INSERT INTO {self.name} VALUES (%s)", [title])

    def titles(self) -> list[str]:
        """Return the rows that others see."""
        with self.other() as (execute, _):
            return [row[0] for row in execute(f"SELECT title FROM {self.name} ORDER BY title")]

    @contextmanager
    def other(self) -> Generator[tuple[Callable[..., Any], Any]]:
        """A connection that is not Django's."""
        if self.settings["ENGINE"].endswith("sqlite3"):
            import sqlite3

            made: Any = sqlite3.connect(self.settings["NAME"], isolation_level=None)
        else:
            import psycopg

            given = self.settings
            made = psycopg.connect(
                dbname=given["NAME"], user=given["USER"], host=given["HOST"], port=given["PORT"], autocommit=True
            )
        try:
            yield made.execute, made
        finally:
            made.close()

    def states(self) -> list[str]:
        """Return the states of Django's connections; of PostgreSQL."""
        with self.other() as (execute, _):
            asked = execute("SELECT state FROM pg_stat_activity WHERE application_name = %s", [self.alias])
            return [row[0] for row in asked]

    def end_connections(self) -> int:
        """End Django's connections, as a server does that restarts at night; return how many there were."""
        with self.other() as (execute, _):
            asked = execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = %s",
                [self.alias],
            )
            return len(asked.fetchall())


@contextmanager
def table(engine: str, folder: Any, url: Callable[[], str], **given: Any) -> Generator[Table]:
    """A table in a database of the project, with settings of its own."""
    alias = f"own_{secrets.token_hex(4)}"
    known: Any = connections.settings
    if engine == "sqlite":
        own = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(folder / f"{alias}.db"), "OPTIONS": {"timeout": 30}}
    else:
        own = {**options_of(url()), "OPTIONS": {"application_name": alias}}
    own["OPTIONS"] = {**own["OPTIONS"], **given.pop("OPTIONS", {})}
    known[alias] = {**known["default"], "ATOMIC_REQUESTS": True, "CONN_MAX_AGE": 0, **own, **given}
    made = Table(alias, known[alias], alias)
    with made.other() as (execute, _):
        execute(f"CREATE TABLE {alias} (title varchar(80))")
    try:
        yield made
    finally:
        while any(each.threads.count for each in _servers):
            time.sleep(0.01)
        connections[alias].close()
        getattr(connections[alias], "close_pool", lambda: None)()
        del connections[alias]
        del known[alias]
        with made.other() as (execute, _):
            execute(f"DROP TABLE {alias}")


@pytest.fixture(params=["sqlite", "postgresql"])
def rows(request: pytest.FixtureRequest, tmp_path: Any) -> Generator[Table]:
    """A table with ``ATOMIC_REQUESTS``."""
    with table(request.param, tmp_path, lambda: request.getfixturevalue("postgres_url")) as made:
        yield made


_servers: list[DjangoServer] = []


def make_server() -> DjangoServer:
    """A server that lets everybody in."""
    _servers.append(DjangoServer("own", settings=DjangoSettings(require_login=False), store="memory:"))
    return _servers[-1]


@pytest.fixture(autouse=True)
def threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of the servers end, and close their connections, before the settings of a database are removed."""
    monkeypatch.setattr("ferrule.app.execution.threads._IDLE_S", 0.5)
    _servers.clear()


def post(endpoint: DjangoEndpoint, name: str, arguments: dict[str, Any] | None = None, *, signals: bool = True) -> Any:
    """Call a tool as a request under WSGI; return the result. A test case's client sends no signals.

    The server has started before, so that the event loop serves only what needs it.
    """
    from django.core.signals import request_finished, request_started
    from django.test import RequestFactory

    message = modern(1, "tools/call", {"name": name, "arguments": arguments or {}})
    body, headers = json.dumps(message), modern_headers(message, host="127.0.0.1", content_type=None)
    wsgi._loop.run(endpoint._wsgi.endpoint.life.start())
    if signals:
        request_started.send(sender=None)
    try:
        made: Any = RequestFactory().post("/", body, content_type="application/json", headers=headers)
        answer = endpoint.serve(made, "/", "/")
    finally:
        if signals:
            request_finished.send(sender=None)
    assert answer.status_code == 200, answer.content
    return json.loads(answer.content)["result"]


def in_process(server: DjangoServer, name: str, arguments: dict[str, Any] | None = None, *, mode: str = "auto") -> Any:
    """Call a tool on an event loop of its own, as under ASGI; answer its questions with yes."""

    async def talk() -> Any:
        async with Client(server, mode=mode, elicitation_handler=lambda params: {"value": True}) as client:
            return await client.call_tool(name, arguments or {}, raise_on_error=False)

    return asyncio.run(talk())


def test_a_failing_function_leaves_nothing(rows: Table) -> None:
    server = make_server()

    @server.tool
    def fail_after_write() -> None:
        """Fail."""
        rows.add("lost")
        raise ValueError("no")

    @server.tool
    def write() -> bool:
        """Write."""
        rows.add("kept")
        return connections[rows.alias].in_atomic_block

    assert post(server.endpoint, "fail_after_write")["isError"]
    assert in_process(server, "fail_after_write").is_error
    assert post(server.endpoint, "write")["structuredContent"] is True
    assert in_process(server, "write").data is True
    assert rows.titles() == ["kept", "kept"]


def test_several_databases_have_a_transaction_each(tmp_path: Any, request: pytest.FixtureRequest) -> None:
    with (
        table("sqlite", tmp_path, str) as one,
        table("sqlite", tmp_path, str) as two,
        table("sqlite", tmp_path, str, ATOMIC_REQUESTS=False) as without,
    ):
        server = make_server()

        @server.tool
        def write() -> None:
            """Write, and fail."""
            for each in (one, two, without):
                each.add("x")
            raise ValueError("no")

        assert post(server.endpoint, "write")["isError"]
        assert (one.titles(), two.titles(), without.titles()) == ([], [], ["x"])


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_no_transaction_waits_for_an_answer(rows: Table, mode: str) -> None:
    """What was written before the question is committed, and what comes after it is a transaction of its own."""
    server = make_server()
    seen: list[list[str]] = []

    @server.tool
    def ask(ctx: Context, fail: bool) -> str:
        """Ask after a step."""
        ctx.from_thread(ctx.step, "first", lambda: rows.add("before"))
        action = ctx.from_thread(ctx.elicit, "Go on?", bool).action
        rows.add("after")
        if fail:
            raise ValueError("no")
        return str(action)

    def answer(params: Any) -> Any:
        seen.append(rows.titles())
        return {"value": True}

    async def talk(fail: bool) -> Any:
        async with Client(server, mode=mode, elicitation_handler=answer) as client:
            return await client.call_tool("ask", {"fail": fail}, raise_on_error=False)

    assert asyncio.run(talk(True)).is_error
    assert seen == [["before"]]
    assert rows.titles() == ["before"]
    assert asyncio.run(talk(False)).text == "accept"
    assert rows.titles() == ["after", "before", "before"]


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_a_question_inside_a_transaction_of_the_function_is_refused(rows: Table, mode: str) -> None:
    from django.db import transaction

    server = make_server()

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask where it is not allowed."""
        with transaction.atomic(using=rows.alias):
            rows.add("lost")
            return str(ctx.from_thread(ctx.elicit, "Go on?", bool).action)

    assert in_process(server, "ask", mode=mode).is_error
    assert rows.titles() == []


def test_a_cancelled_call_is_rolled_back(rows: Table) -> None:
    """Its caller has been told that it failed."""
    server = make_server()
    written, goes_on, ended = threading.Event(), threading.Event(), threading.Event()

    @server.tool(timeout_s=0.5)
    def slow() -> None:
        """Write and go on for too long."""
        rows.add("lost")
        written.set()
        goes_on.wait(60)
        ended.set()

    async def talk() -> None:
        async with Client(server) as client:
            assert (await client.call_tool("slow", raise_on_error=False)).is_error
            goes_on.set()

    asyncio.run(talk())
    assert written.is_set()
    assert ended.wait(60)

    async def again() -> None:
        await server.threads.run(lambda: None, {})

    asyncio.run(again())
    assert rows.titles() == []


def test_a_function_runs_what_it_calls_in_its_own_transaction(rows: Table) -> None:
    """A tool that calls a tool, and a step: one thread, one connection, and one fate."""
    server = make_server()
    threads: list[threading.Thread] = []

    @server.tool
    def inner(title: str) -> int:
        """Write and count."""
        threads.append(threading.current_thread())
        rows.add(title)
        with connections[rows.alias].cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {rows.name}")
            return int(cursor.fetchone()[0])

    @server.tool
    async def between(title: str, ctx: Context) -> bool:
        """Call a sync tool from an async one."""
        return bool((await ctx.call_tool("inner", {"title": title})).is_error)

    @server.tool
    def outer(ctx: Context, fail: bool) -> list[Any]:
        """Write, and call."""
        threads.append(threading.current_thread())
        rows.add("outer")
        ctx.progress(1, 2)  # type: ignore[unused-coroutine]
        counted: list[Any] = [ctx.from_thread(ctx.call_tool, "between", {"title": "inner"}).is_error]
        counted.append(ctx.from_thread(ctx.step, "step", inner, "step"))
        ctx.progress(2, 2)  # type: ignore[unused-coroutine]
        if fail:
            raise ValueError("no")
        return counted

    for fail in (True, False):
        assert post(server.endpoint, "outer", {"fail": fail}).get("isError", False) is fail
        assert set(threads) == {threading.current_thread()}
    for fail in (True, False):
        threads.clear()
        assert in_process(server, "outer", {"fail": fail}).is_error is fail
        assert len(set(threads)) == 1
    assert rows.titles() == ["inner", "inner", "outer", "outer", "step", "step"]


def test_async_functions_use_the_connection_of_the_request_under_wsgi(rows: Table) -> None:
    from asgiref.sync import sync_to_async

    server = make_server()
    threads: set[threading.Thread] = set()

    def write() -> None:
        threads.add(threading.current_thread())
        rows.add("async")

    @server.tool
    async def several() -> None:
        """Write several times at once."""
        await asyncio.gather(*(sync_to_async(write)() for _ in range(5)))

    post(server.endpoint, "several")
    assert threads == {threading.current_thread()}
    assert len(rows.titles()) == 5


def test_async_functions_have_a_thread_of_their_own_elsewhere(rows: Table) -> None:
    """A legacy session would use that of its first request, whose connection was not closed."""
    from asgiref.sync import sync_to_async

    server = make_server()
    used: list[tuple[threading.Thread, Any]] = []

    def write() -> None:
        rows.add("async")
        used.append((threading.current_thread(), connections[rows.alias].connection))

    @server.tool
    async def twice() -> None:
        """Write twice."""
        await sync_to_async(write)()
        await sync_to_async(write)()

    async def talk() -> None:
        async with Client(server, mode="2025-11-25") as client:
            await client.call_tool("twice")
            await client.call_tool("twice")

    asyncio.run(talk())
    assert used[0] == used[1]
    assert used[2] == used[3]
    assert used[0][0] is not used[2][0]


def test_a_test_case_sees_what_functions_write_in_its_transaction(rows: Table) -> None:
    from asgiref.sync import sync_to_async
    from django.db import transaction

    server = make_server()

    @server.tool
    def write() -> bool:
        """Write."""
        rows.add("test")
        return True

    @server.tool
    async def write_later() -> bool:
        """Write."""
        await sync_to_async(rows.add)("test")
        return True

    with transaction.atomic(using=rows.alias):
        assert not post(server.endpoint, "write", signals=False).get("isError")
        assert not post(server.endpoint, "write_later", signals=False).get("isError")
        transaction.set_rollback(True, using=rows.alias)
    assert rows.titles() == []


# -- connections -------------------------------------------------------------------------------------------------------


@pytest.fixture(params=[0, 60, None], ids=["closed", "a minute", "for ever"])
def kept(request: pytest.FixtureRequest, tmp_path: Any, postgres_url: str) -> Generator[Table]:
    """A table of PostgreSQL whose connections are kept so long."""
    with table(
        "postgresql", tmp_path, lambda: postgres_url, CONN_MAX_AGE=request.param, CONN_HEALTH_CHECKS=True
    ) as made:
        yield made


def count_and_write(server: DjangoServer, rows: Table) -> None:
    @server.tool
    def write() -> str:
        """Write."""
        rows.add("x")
        return "done"

    @server.tool
    async def write_later() -> str:
        """Write."""
        from asgiref.sync import sync_to_async

        await sync_to_async(rows.add)("x")
        return "done"


def test_a_connection_that_the_server_has_closed_is_replaced(kept: Table) -> None:
    """As after a night without a call; with ``CONN_HEALTH_CHECKS`` where connections are kept, as Django advises."""
    server = make_server()
    count_and_write(server, kept)

    async def talk() -> list[str]:
        texts: list[str] = []
        async with Client(server) as client:
            for _ in range(3):
                texts.append((await client.call_tool("write")).text)
                kept.end_connections()
        return texts

    assert asyncio.run(talk()) == ["done"] * 3
    for _ in range(3):
        for name in ("write", "write_later"):
            assert not post(server.endpoint, name).get("isError")
            kept.end_connections()
    assert len(kept.titles()) == 9


@pytest.mark.slow
def test_a_thousand_calls_leave_no_connection_and_no_transaction(kept: Table) -> None:
    """A thousand with Django's own setting, fewer with the others."""
    rounds = 10 if kept.settings["CONN_MAX_AGE"] == 0 else 1
    server = make_server()
    count_and_write(server, kept)

    async def talk() -> None:
        async with Client(server) as client:
            for _ in range(rounds):
                names = ["write", "write_later"] * 25
                await asyncio.gather(*(client.call_tool(name) for name in names))

    asyncio.run(talk())
    for number in range(50 * rounds):
        post(server.endpoint, ("write", "write_later")[number % 2])
    assert len(kept.titles()) == 100 * rounds
    states = kept.states()
    assert set(states) <= {"idle"}
    if kept.settings["CONN_MAX_AGE"] == 0:
        assert states == []
    else:  # one of each thread at most
        assert len(states) <= server.threads.count + 1


def test_a_pool_gets_its_connections_back(tmp_path: Any, postgres_url: str) -> None:
    import django

    if django.VERSION < (5, 1):
        pytest.skip("Django has pools since 5.1")
    pytest.importorskip("psycopg_pool")
    with table("postgresql", tmp_path, lambda: postgres_url, OPTIONS={"pool": {"min_size": 1, "max_size": 2}}) as rows:
        server = make_server()
        count_and_write(server, rows)

        async def talk() -> None:
            async with Client(server) as client:
                for _ in range(5):
                    await asyncio.gather(*(client.call_tool("write") for _ in range(10)))

        asyncio.run(talk())
        for _ in range(10):
            post(server.endpoint, "write")
        assert len(rows.titles()) == 60
        assert len(rows.states()) <= 2


def test_a_thread_that_ends_closes_its_connections(
    tmp_path: Any, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ferrule.app.execution.threads._IDLE_S", 0.01)
    with table("postgresql", tmp_path, lambda: postgres_url, CONN_MAX_AGE=None) as rows:
        threads = WorkerThreads(4)
        threads.on_thread_end = close_connections

        async def use() -> None:
            await threads.run(rows.add, {"title": "x"})
            while threads.count or rows.states():
                await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(use(), 60))
