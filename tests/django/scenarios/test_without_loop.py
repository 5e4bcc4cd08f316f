"""Under WSGI a call runs in the thread of its request alone; the event loop goes on with it where it is needed."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import threading
from collections.abc import Callable, Generator
from contextvars import ContextVar
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client as DjangoClient
from django.urls import include, path
from rest_framework.response import Response
from rest_framework.routers import SimpleRouter
from rest_framework.views import APIView

from ferrule import Client, Context
from ferrule.app.errors import ToolError
from ferrule.app.execution import limits
from ferrule.app.execution.context import current_context
from ferrule.django import DjangoServer
from ferrule.django.conf import DjangoSettings
from ferrule.transports.wsgi import endpoint as wsgi
from tests.django.serving import Site, served
from tests.django.shop.models import Invoice
from tests.django.shop.views import InvoiceViewSet
from tests.transports.asgi.support import legacy_headers, modern, modern_headers, request

ERAS = ["2026-07-28", "2025-11-25"]


def patterns() -> list[Any]:
    router = SimpleRouter()
    router.register("invoices", InvoiceViewSet)
    return [path("api/", include(router.urls))]


class Counted:
    """A site whose server has started, and the number of calls of tools that the event loop took over."""

    def __init__(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        self.site = site
        self.moved = 0
        calling = threading.local()
        answer, spawn = wsgi.WSGIEndpoint.answer, wsgi._loop.spawn

        def counted_answer(endpoint: Any, environ: Any, *args: Any, **options: Any) -> Any:
            calling.is_counted = b'"tools/call"' in environ["wsgi.input"].getvalue()
            return answer(endpoint, environ, *args, **options)

        def counted_spawn(*args: Any) -> Any:
            self.moved += calling.is_counted
            return spawn(*args)

        monkeypatch.setattr(wsgi.WSGIEndpoint, "answer", counted_answer)
        monkeypatch.setattr(wsgi._loop, "spawn", counted_spawn)
        self.result("start")  # with the first request the server starts, on the event loop

    def result(
        self, name: str, arguments: dict[str, Any] | None = None, *, mode: str = ERAS[0], user: Any = None
    ) -> Any:
        """Call a tool; return its result, and count from zero."""

        async def call(client: Client) -> Any:
            return await client.call_tool(name, arguments or {}, raise_on_error=False)

        self.moved = 0
        return self.site.run(call, mode, user)


Serve = Callable[[DjangoServer], Counted]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Generator[Serve]:
    """Return a function that serves a server under WSGI."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def begin(server: DjangoServer) -> Counted:
            @server.tool
            def start() -> None:
                """Do nothing."""

            return Counted(stack.enter_context(served("wsgi", patterns, server=server)), monkeypatch)

        yield begin


@pytest.fixture
def server() -> DjangoServer:
    return DjangoServer("own", settings=DjangoSettings(require_login=False, store="memory:"))


@pytest.mark.parametrize("era", ERAS)
def test_a_view_and_a_function_need_no_event_loop(serve: Serve, server: DjangoServer, alice: Any, era: str) -> None:
    """Two changes of threads cost more than all that happens between them."""
    threads: list[Any] = []

    @server.tool
    def function(ctx: Context) -> str:
        """Return the user."""
        threads.append(threading.current_thread())
        with pytest.raises(RuntimeError, match="no running event loop"):  # or Django would refuse its database
            asyncio.get_running_loop()
        return str(ctx.principal.user)

    server.expose(InvoiceViewSet, actions=["retrieve", "list"])
    invoice = Invoice.objects.create(owner=alice, title="a", amount="1.50")
    site = serve(server)
    try:
        for _ in range(2):
            for name, arguments in (("invoice_retrieve", {"id": invoice.pk}), ("invoice_list", {}), ("function", {})):
                found = site.result(name, arguments, user=alice, mode=era)
                assert (found.is_error, site.moved) == (False, 0), (name, found)
    finally:
        invoice.delete()
    assert threads == [threading.current_thread()] * 2


@pytest.mark.parametrize("era", ERAS)
def test_what_waits_has_the_event_loop(serve: Serve, server: DjangoServer, era: str) -> None:
    @server.tool
    async def waits() -> int:
        """Wait."""
        await asyncio.sleep(0)
        return 1

    @server.tool
    def returns_what_waits() -> Any:
        """Wait."""
        return waits()

    @server.tool
    def calls(ctx: Context) -> str:
        """Call two tools, and send progress."""
        ctx.progress(1, 2)  # type: ignore[unused-coroutine]
        return " ".join(str(ctx.from_thread(ctx.call_tool, name).content[0].text) for name in ("waits", "plain"))

    @server.tool(timeout_s=1000)
    def plain() -> int:
        """Return at once."""
        return 2

    site = serve(server)
    for name, expected, moved in (
        ("waits", "1", 1),
        ("returns_what_waits", "1", 1),
        ("calls", "1 2", 1),
        ("plain", "2", 0),
    ):
        found = site.result(name, mode=era)
        assert (found.text, site.moved) == (expected, moved), (name, found)


def test_a_view_and_a_function_may_ask(serve: Serve, server: DjangoServer) -> None:
    """The round ends, and the next one has the answer."""
    ran: list[str] = []

    class Ask(APIView):
        """Asks."""

        authentication_classes = ()
        permission_classes = ()

        def post(self, request: Any) -> Response:
            """Ask the user."""
            ran.append("view")
            ctx = current_context()
            return Response({"answer": ctx.from_thread(ctx.elicit, "Go on?", bool).action})

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask the user."""
        ran.append("function")
        first = ctx.from_thread(ctx.step, "step", lambda: ran.append("step") or "done")
        return str(ctx.from_thread(ctx.elicit, "Go on?", bool).action) + str(first)

    server.expose(Ask)
    site = serve(server)

    async def talk(client: Client) -> list[Any]:
        found = [await client.call_tool("ask"), await client.call_tool("ask_post")]
        return [each.data for each in found]

    def user(_: Any) -> Any:
        return {"value": True}

    found = site.site.run(talk, ERAS[0], elicitation_handler=user)
    assert found == ["acceptdone", {"answer": "accept"}]
    assert ran == ["function", "step", "function", "view", "view"]


def test_middleware_of_the_project_has_the_event_loop(serve: Serve, server: DjangoServer) -> None:
    """It may wait for anything."""

    async def middleware(ctx: Any, call_next: Any) -> Any:
        await asyncio.sleep(0)
        return await call_next(ctx)

    @server.tool
    def plain() -> int:
        """Return at once."""
        return 1

    server.lowlevel.middleware.append(middleware)
    site = serve(server)
    assert (site.result("plain").data, site.moved) == (1, 1)


def test_a_function_cannot_end_the_worker(serve: Serve, server: DjangoServer) -> None:
    @server.tool
    def leaves() -> None:
        """Exit."""
        sys.exit(1)

    @server.tool
    def cancels() -> None:
        """Raise what a cancelled task raises."""
        raise asyncio.CancelledError

    @server.tool
    def stops() -> None:
        """Raise what cannot be raised in a coroutine."""
        raise StopIteration

    site = serve(server)
    for name in ("leaves", "cancels", "stops"):
        found = site.result(name)
        assert (found.is_error, found.text, site.moved) == (True, f"Tool `{name}` failed", 0)


def test_a_function_that_ends_too_late_has_failed(
    serve: Serve, server: DjangoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing interrupts a thread; the caller is told what happened, also where the function has failed later."""
    now = [0.0]

    @server.tool(timeout_s=10)
    def works(seconds: float, fails: bool) -> int:
        """Work."""
        now[0] += seconds
        if fails:
            raise ToolError("no")
        return 1

    site = serve(server)
    monkeypatch.setattr(limits, "monotonic", lambda: now[0])
    late = "`works` did not finish within 10 s"
    for seconds, fails, expected in ((9.0, False, "1"), (9.0, True, "no"), (11.0, False, late), (11.0, True, late)):
        found = site.result("works", {"seconds": seconds, "fails": fails})
        assert (found.text, site.moved) == (expected, 0)


def test_a_time_out_holds_where_the_event_loop_has_gone_on(serve: Serve, server: DjangoServer) -> None:
    @server.tool(timeout_s=0.01)
    def waits(ctx: Context) -> None:
        """Wait for too long."""
        ctx.from_thread(asyncio.sleep, 0.1)

    site = serve(server)
    found = site.result("waits")
    assert (found.text, site.moved) == ("`waits` did not finish within 0.01 s", 1)


def test_what_one_request_leaves_behind_the_next_does_not_find(serve: Serve, server: DjangoServer) -> None:
    variable: ContextVar[str] = ContextVar("variable", default="nothing")

    @server.tool
    def use() -> str:
        """Set a variable."""
        before = variable.get()
        variable.set("something")
        return before

    site = serve(server)
    for _ in range(2):
        assert (site.result("use").data, site.moved) == ("nothing", 0)
    assert variable.get() == "nothing"


def test_a_view_that_starts_a_thread_and_one_that_is_async(serve: Serve, server: DjangoServer) -> None:
    """Their code has the context variables of the request, and must not be taken for a step of it."""

    @server.tool(timeout_s=1000)
    def inner() -> int:
        """Return at once."""
        return 1

    def in_process() -> Any:
        async def talk() -> Any:
            async with Client(server) as client:
                return (await client.call_tool("inner")).data

        return asyncio.run(talk())

    class Starts(APIView):
        """Starts a thread."""

        authentication_classes = ()
        permission_classes = ()

        def post(self, request: Any) -> Response:
            """Call the server from another thread."""
            from contextvars import copy_context

            found: list[Any] = []
            other = threading.Thread(target=copy_context().run, args=(lambda: found.append(in_process()),))
            other.start()
            other.join(60)
            return Response({"found": [*found, in_process()]})

    server.expose(Starts)
    site = serve(server)
    found = site.result("starts_post")
    assert (found.data, site.moved) == ({"found": [1, 1]}, 0)


def test_a_failure_rolls_back_and_a_lock_is_released(
    serve: Serve, server: DjangoServer, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ``ATOMIC_REQUESTS`` a function has a transaction of its own, also with rows that it has locked."""
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)

    @server.tool
    def change(title: str, fails: bool) -> str:
        """Lock a row, and change it."""
        assert transaction.get_connection().in_atomic_block
        found = Invoice.objects.select_for_update().get(owner=alice)
        found.title = title
        found.save()
        if fails:
            raise ToolError("no")
        return title

    invoice = Invoice.objects.create(owner=alice, title="before", amount="1.50")
    site = serve(server)
    try:
        assert (site.result("change", {"title": "lost", "fails": True}).text, site.moved) == ("no", 0)
        assert not connection.in_atomic_block
        invoice.refresh_from_db()
        assert invoice.title == "before"
        assert (site.result("change", {"title": "kept", "fails": False}).data, site.moved) == ("kept", 0)
        invoice.refresh_from_db()
        assert invoice.title == "kept"
    finally:
        invoice.delete()


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example"}, 400),
        ({"authorization": "Token wrong"}, 401),
        ({"accept": "text/html"}, 406),
        ({"mcp-protocol-version": "2099-01-01"}, 400),
    ],
)
def test_the_checks_are_the_same(
    serve: Serve, server: DjangoServer, headers: dict[str, str], status: int, era: str, caplog: pytest.LogCaptureFixture
) -> None:
    serve(server)
    with caplog.at_level(logging.CRITICAL):
        answer = _send(era, headers)
    assert answer.status_code == status, answer.content


def _send(era: str, headers: dict[str, str]) -> Any:
    params = {"name": "start", "arguments": {}}
    if era == ERAS[0]:
        message = modern(1, "tools/call", params)
        given = modern_headers(message, host=None, content_type=None)
    else:
        message = request(1, "tools/call", params)
        given = {name: value for name, value in legacy_headers().items() if name not in ("host", "content-type")}
    given = {**given, **headers}
    return DjangoClient().post("/mcp/", json.dumps(message), content_type="application/json", headers=given)


def test_requests_of_many_threads_do_not_meet(server: DjangoServer, serve: Serve) -> None:
    """Each has its own user, its own answer, and its own time."""
    count, rounds = 6, 20
    start = threading.Barrier(count)
    problems: list[Any] = []

    @server.tool(timeout_s=1000)
    def plain(number: int, ctx: Context) -> list[Any]:
        """Return the number, and what the request says of itself."""
        if number % 4 == 0:
            ctx.progress(1)  # type: ignore[unused-coroutine]
        return [number, threading.current_thread().name, ctx.transport.headers.get("x-number")]

    @server.tool
    async def waits(number: int, ctx: Context) -> list[Any]:
        """Wait, and return the same."""
        await asyncio.sleep(0)
        return [number, "", ctx.transport.headers.get("x-number")]

    site = serve(server).site

    def call(index: int) -> None:
        name = threading.current_thread().name
        try:
            start.wait(60)
            for number in range(rounds):
                tool = "waits" if number % 5 == 0 else "plain"
                sent = str(index * 1000 + number)
                found = site.call(tool, {"number": number}, **{"x-number": sent})["structuredContent"]
                assert found == [number, "" if tool == "waits" else name, sent]
        except BaseException as error:
            problems.append(error)

    threads = [threading.Thread(target=call, args=(index,), name=f"caller {index}") for index in range(count)]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert problems == []
