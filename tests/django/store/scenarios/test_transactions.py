"""A step inside a transaction of the project: its mark and the changes commit, and are rolled back, together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from django.db import connections, transaction
from django.test import RequestFactory

from ferrule import Client, Context
from ferrule.django import DjangoServer
from ferrule.django.models import BlobRow, MarkRow
from ferrule.transports.wsgi.endpoint import _loop
from tests.django.store.databases import KINDS_OF_DATABASE, database
from tests.transports.asgi.support import modern, modern_headers

ALIAS = "transactions"


@pytest.fixture(params=KINDS_OF_DATABASE)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Any]:
    with database(ALIAS, request.param, tmp_path):
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("CREATE TABLE orders (name varchar(40))")
        yield connections.settings[ALIAS]


@pytest.fixture
def server(made: Any) -> Generator[DjangoServer]:
    server = DjangoServer(settings={"STORE": f"django:{ALIAS}", "REQUIRE_LOGIN": False})
    yield server
    _loop.run(server.endpoint._wsgi.endpoint.aclose())  # before its database is deleted


def write(name: str) -> str:
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("INSERT INTO orders VALUES (%s)", [name])
    return name


def rows() -> tuple[list[str], int]:
    """What was written, and the number of marks."""
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("SELECT name FROM orders ORDER BY name")
        return [name for (name,) in cursor.fetchall()], MarkRow._default_manager.using(ALIAS).count()


def call(server: DjangoServer, name: str, arguments: dict[str, Any]) -> Any:
    message = modern(1, "tools/call", {"name": name, "arguments": arguments})
    headers = modern_headers(message, host=None, content_type=None)
    request = RequestFactory().post("/mcp/", json.dumps(message), content_type="application/json", headers=headers)
    return json.loads(server.endpoint.serve(request, "/", "/mcp/").content)["result"]


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("by", ["block", "requests"])
def test_a_mark_shares_the_fate_of_the_changes(server: DjangoServer, made: Any, by: str, fails: bool) -> None:
    """In ``transaction.atomic()``, and with ``ATOMIC_REQUESTS``. A mark that stayed would make the next call skip what
    is not there."""
    made["ATOMIC_REQUESTS"] = by == "requests"

    def body(ctx: Context) -> None:
        write("order")
        assert ctx.from_thread(ctx.step, "reserve", write, "reserved", once=True) == "reserved"
        if fails:
            raise RuntimeError("after the step")

    @server.tool
    def order(ctx: Context) -> str:
        if by == "requests":
            body(ctx)
        else:
            with transaction.atomic(ALIAS):
                body(ctx)
        return "done"

    assert call(server, "order", {}).get("isError", False) is fails
    assert rows() == (([], 0) if fails else (["order", "reserved"], 1))


def test_what_is_stored_during_a_question_is_in_no_transaction(server: DjangoServer, made: Any) -> None:
    """What carries the question, such as an event of a stream, is for other processes: one of them gets the answer. In
    an open transaction PostgreSQL would not show it to them, and SQLite would let none of them write until the answer.
    """
    made["ATOMIC_REQUESTS"] = True
    seen: list[int] = []

    def look() -> None:
        other = connections.create_connection(ALIAS)
        with other.cursor() as cursor:
            if other.vendor == "sqlite":
                cursor.execute("PRAGMA busy_timeout = 0")
            cursor.execute("INSERT INTO orders VALUES ('of another process')")
            cursor.execute(f"SELECT COUNT(*) FROM {BlobRow._meta.db_table}")
            seen.append(cursor.fetchone()[0])
        other.close()

    async def talk() -> Any:
        asked, stored = asyncio.Event(), asyncio.Event()

        async def store() -> None:
            await asked.wait()
            await server.store.blobs.put("k", b"x", ttl_s=60)  # type: ignore[union-attr]
            stored.set()

        async def answer(params: Any) -> Any:
            asked.set()
            await stored.wait()
            await asyncio.to_thread(look)
            return {"value": True}

        @server.tool
        def order(ctx: Context) -> str:
            async def ask() -> str:
                storing = asyncio.ensure_future(store())
                action = (await ctx.elicit("Go on?", bool)).action
                await storing
                return action

            write("before")
            action = ctx.from_thread(ask)
            return f"{action} {connections[ALIAS].in_atomic_block}"

        async with asyncio.timeout(60), Client(server, mode="2025-11-25", elicitation_handler=answer) as client:
            return await client.call_tool("order", raise_on_error=False)

    assert asyncio.run(talk()).text == "accept True"
    assert seen == [1]
    assert rows()[0] == ["before", "of another process"]


def test_a_failed_store_leaves_the_transaction_usable(server: DjangoServer) -> None:
    """A statement that fails ends a transaction of PostgreSQL, unless a savepoint is before it."""

    @server.tool
    def order(ctx: Context) -> str:
        with transaction.atomic(ALIAS):
            write("order")
            try:
                ctx.from_thread(ctx.step, "reserve", write, "reserved", once=True)
            except OSError:
                return write("without a mark")
        return "done"

    with connections[ALIAS].cursor() as cursor:
        cursor.execute("ALTER TABLE ferrule_mark RENAME TO elsewhere")
    assert not call(server, "order", {}).get("isError", False)
    with connections[ALIAS].cursor() as cursor:
        cursor.execute("ALTER TABLE elsewhere RENAME TO ferrule_mark")
    assert rows() == (["order", "without a mark"], 0)


def test_a_step_outside_a_transaction_stays_marked(server: DjangoServer) -> None:
    """For effects that cannot be rolled back."""

    @server.tool
    def order(ctx: Context) -> str:
        ctx.from_thread(ctx.step, "charge", write, "charged", once=True)
        with transaction.atomic(ALIAS):
            write("order")
            raise RuntimeError

    assert call(server, "order", {})["isError"]
    assert rows() == (["charged"], 1)
