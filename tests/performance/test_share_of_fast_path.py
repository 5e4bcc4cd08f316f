"""The share of the examples' calls that the fast path serves: what a reader copies from there stays on it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import re
import runpy
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any

import pytest

from ferrule import Client, Context, Depends, MCPServer
from ferrule.kernel.gauges import gauges_of
from ferrule.middleware import LogRequests, RateLimit, Timing
from ferrule.transports.hosting.uvicorn_server import serve_http
from tests.conftest import EXAMPLES
from tests.kernel.harness import initialize, modern, note, request
from tests.pipes import line_to

CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "agent": [("in_stock", {"part": "ring"})],
    "apps/chart": [("wave", {"damping": 0.5})],
    "approval": [("pay", {"payee": "Eve", "amount_eur": 12})],
    "discovery": [("next_tide", {"harbour": "Bristol"})],
    "explorer": [],
    "extension": [("sell", {"item": "lamp"})],
    "fastapi_expose": [
        ("show_order", {"number": 1}),
        ("show_order", {"number": 7}),
        ("place_order", {"item": "screw", "count": 40}),
    ],
    "flask_expose": [
        ("list_books", {"kind": "poems"}),
        ("show_book", {"number": 7}),
        ("add_book", {"title": "Iliad", "kind": "poems"}),
    ],
    "mounting/fastapi_app": [("greet", {"name": "Ada"})],
    "mounting/starlette_app": [("greet", {"name": "Ada"})],
    "openapi_expose": [],
    "orders": [],
    "picture": [("bar_chart", {"values": [1.0, 2.0]})],
    "search": [("search", {"words": "import"})],
    "server": [("echo", {"text": "hi"}), ("add", {"a": 1, "b": 2})],
    "tool_search": [("miles_to_kilometres", {"value": 26})],
    "weather": [("climate", {"city": "Oslo", "month": 5}), ("warmest", {"month": 5})],
}
"""Calls of tools in the examples; of the others only what is known without a call."""

NOT_PLAIN = {
    "bundle/server": "does not start without its settings; its tool is an ordinary one",
    "django": "its own project and process, which `bench/django_views.py` measures",
    "django_store": "its own process; one tool asks the user, the other keeps the state of the session in a database",
    "engines/server": "its tool runs as a task",
    "gateway": "handles `tools/call` itself",
    "one_trace": "its tool runs as a task, behind a gateway",
    "many_servers": "makes its servers in functions, for a group of clients",
    "mounting/django_asgi": "as the other two of the folder, but its settings are those of the whole process",
    "protected/server": "needs a token for each call; a tool with a guard is among the parts below",
    "published/server": "does not start without its settings; its tool is an ordinary one",
    "report": "its tool runs as a task",
    "skills": "has skills only, and no tools",
    "scale/server": "its tool runs as a task",
}
"""Servers of the examples that are not measured here, and why."""


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> MCPServer[Any]:
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    return next(value for key in ("mcp", "app") if isinstance(value := found.get(key), MCPServer))


def is_installed(name: str) -> bool:
    return all(find_spec(package) for package in ("fastapi", "flask", "starlette") if package in name)


def needs(name: str) -> None:
    if not is_installed(name):
        pytest.skip("the framework of this example is not installed")


def test_every_server_of_an_example_is_measured_or_has_a_reason() -> None:
    """A new example is added to one of the two."""
    makes = re.compile(r"= (MCPServer|expose|DjangoServer)\(|MCPServer\[.*\] = |import mcp\b")
    found = {
        "django" if path.is_relative_to(EXAMPLES / "django") else path.relative_to(EXAMPLES).with_suffix("").as_posix()
        for path in EXAMPLES.rglob("*.py")
        if makes.search(path.read_text("utf-8"))
    }
    assert found == {*CALLS, *NOT_PLAIN}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_every_tool_of_an_example_may_be_called_plainly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them uses anything that keeps its calls off the fast path."""
    needs(name)
    app = load(name, monkeypatch)
    unusual = [tool.name for tool in app.tools.index if app.tools.find_fast(tool.name) is None]
    assert unusual == []


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_nearly_all_calls_of_the_examples_are_served_by_the_fast_path(
    era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 95 of 100, whatever the results are: data, text, pictures or errors."""
    fast = general = 0
    measured = 0
    for name, calls in CALLS.items():
        if not is_installed(name):
            continue
        measured += 5 * len(calls)
        app = load(name, monkeypatch)

        async def test(app: MCPServer[Any] = app, calls: list[tuple[str, dict[str, Any]]] = calls) -> None:
            async with line_to(app) as line:
                if era == "modern":
                    await line.tell(modern(-1, "server/discover"))
                else:
                    await line.tell(initialize(-1), note("notifications/initialized"))
                asked = 1
                for tool, arguments in calls * 5:
                    asked += 1
                    params = {"name": tool, "arguments": arguments}
                    await line.tell(
                        modern(asked, "tools/call", params) if era == "modern" else request(asked, "tools/call", params)
                    )
                    await line.wait_for(asked)
                assert not [message for message in line.messages() if "error" in message]

        asyncio.run(test())
        fast += app.tools.fast_calls
        general += app.tools.general_calls
    assert fast + general == measured
    assert fast >= 0.95 * (fast + general)


SHOWN = ["explorer", "openapi_expose", "picture", "search", "weather"]
"""Examples whose ``show`` is the part of a client."""

UNFIT = {"openapi_expose": 1}
"""Calls of a ``show`` with arguments that do not fit, which the general path refuses."""

GENERAL = {
    "agent": "asks the client's model",
    "approval": "asks the user",
    "extension": "its client needs the server's half of the extension; its tool is among the calls above",
    "gateway": "has no tools of its own",
    "report": "runs tasks",
    "skills": "has skills only, and no tools",
    "tool_search": "calls tools through the search, which reads its request",
}
"""What the calls of the other examples with a ``show`` are for; the general path is theirs."""


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """An example as a module, anew."""
    monkeypatch.setattr(sys, "argv", [f"{name}.py"])
    monkeypatch.chdir(EXAMPLES)
    spec = importlib.util.spec_from_file_location(f"share_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, made)
    spec.loader.exec_module(made)
    return made


def test_every_example_with_a_client_is_measured_or_has_a_reason() -> None:
    """A new example is added to one of the two."""
    found = {path.stem for path in EXAMPLES.glob("*.py") if "main(app, show" in path.read_text("utf-8")}
    assert found == {*SHOWN, *GENERAL}


@pytest.mark.parametrize("carrier", ["in process", "HTTP"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("name", SHOWN)
def test_the_examples_own_clients_stay_on_the_fast_path(
    name: str, mode: str, carrier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least 95 of 100 calls, counted by the server's gauges."""
    if (name, carrier) == ("search", "in process"):
        pytest.skip("one of its two calls is watched, and comes in the same read as a cancellation in the other era")
    example = module(name, monkeypatch)
    gauges = gauges_of(example.app.lowlevel)

    async def use(target: Any) -> None:
        async with Client(target, mode=mode) as client:
            await client.ping()  # a call in the same read as the end of the handshake would wait for that
            for _ in range(3):
                await example.show(client)

    async def test() -> None:
        if carrier == "in process":
            await use(example.app)
            return
        async with served(example.app) as url:
            await use(url)

    asyncio.run(test())
    fast, general = gauges.read("fast_calls"), gauges.read("general_calls")
    assert fast >= 3
    assert fast >= 0.95 * (fast + general - 3 * UNFIT.get(name, 0))


@contextlib.asynccontextmanager
async def served(app: MCPServer[Any], **options: Any) -> AsyncIterator[str]:
    """The server on a free port."""
    bound: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(
        serve_http(app.asgi(loopback=True, **options), port=0, on_started=lambda _, port: bound.set_result(port))
    )
    try:
        yield f"http://127.0.0.1:{await bound}/mcp"
    finally:
        serving.cancel()
        await asyncio.wait([serving])


# --- what servers are made of ---------------------------------------------------------------------------------------


@dataclass
class Found:
    city: str
    degrees: float


@dataclass(frozen=True)
class Token:
    """What an authenticator returns."""

    subject: str
    scopes: tuple[str, ...]


def words() -> str:
    return "found"


def parts() -> MCPServer[Any]:
    """A server with one tool for each thing that stays on the fast path; a mounted one has half of them."""
    inner: MCPServer[Any] = MCPServer("inner")
    app: MCPServer[Any] = MCPServer("parts", middleware=[LogRequests(), RateLimit(10_000, per_s=1), Timing(repr)])

    @inner.tool
    async def mounted(text: str) -> str:
        return text

    @inner.tool
    def mounted_sync(ctx: Context, city: str = "Oslo") -> Found:
        return Found(city, float(ctx.method == "tools/call"))

    @app.tool
    async def dependent(word: Annotated[str, Depends(words)], times: int = 2) -> str:
        return word * times

    @app.tool
    async def data(city: str) -> Found:
        await asyncio.sleep(0)
        return Found(city, 1.5)

    @app.tool
    async def lists(count: int) -> list[Found]:
        return [Found(str(number), number) for number in range(count)]

    @app.tool
    def sync(text: str) -> str:
        return text

    @app.tool
    def sync_context(ctx: Context) -> str:
        return f"{ctx.cancelled}"

    @app.tool(scopes="read", allow=lambda principal: principal is not None)
    async def guarded(ctx: Context) -> str:
        return ctx.method

    @app.tool(input_schema={"type": "object", "properties": {"size": {"type": "integer"}}})
    async def own_schema(size: int = 1, **more: Any) -> str:
        return str(size)

    app.mount(inner, prefix="in")
    return app


PARTS: list[tuple[str, dict[str, Any]]] = [
    ("in_mounted", {"text": "x"}),
    ("in_mounted_sync", {}),
    ("dependent", {}),
    ("data", {"city": "Oslo"}),
    ("lists", {"count": 2}),
    ("sync", {"text": "x"}),
    ("sync_context", {}),
    ("guarded", {}),
    ("own_schema", {"size": 2, "more": 1}),
]


async def call_parts(target: Any, mode: str, calls: list[tuple[str, dict[str, Any]]], **options: Any) -> None:
    async with Client(target, mode=mode, raise_on_error=True, **options) as client:
        await client.ping()
        for name, arguments in calls:
            await client.call_tool(name, arguments)


@pytest.mark.parametrize("carrier", ["in process", "HTTP", "stdio"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_all_that_a_server_is_made_of_stays_on_the_fast_path(mode: str, carrier: str) -> None:
    """Mounts, dependencies, data, sync functions, contexts, guards, schemas and the library's middleware.

    The client asks for progress, as it does by default.
    """
    app = parts()
    gauges = gauges_of(app.lowlevel)

    async def authenticate(context: Any) -> Token:
        return Token("me", ("read",))

    async def test() -> None:
        if carrier == "in process":
            await call_parts(app, mode, PARTS)
        elif carrier == "HTTP":
            async with served(app, authenticate=authenticate) as url:
                await call_parts(url, mode, PARTS)
        else:
            async with line_to(app) as line:
                if mode == "legacy":
                    await line.tell(initialize(-1), note("notifications/initialized"))
                else:
                    await line.tell(modern(-1, "server/discover"))
                for number, (name, arguments) in enumerate(PARTS, 1):
                    params = {"name": name, "arguments": arguments, "_meta": {"progressToken": number}}
                    await line.tell((request if mode == "legacy" else modern)(number, "tools/call", params))
                    await line.wait_for(number + 1)
                assert not [found for found in line.messages() if found.get("result", {"isError": True}).get("isError")]

    asyncio.run(test())
    assert (gauges.read("fast_calls"), gauges.read("general_calls")) == (len(PARTS), 0)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_results_of_pydantic_stay_on_the_fast_path(mode: str) -> None:
    """Their JSON is made by the plan of the result, after the first step."""
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", city=(str, ...), degrees=(float, 1.5))
    app: MCPServer[Any] = MCPServer("models")

    async def look(wanted: Any) -> Any:
        return wanted

    look.__annotations__ = {"wanted": model, "return": model}
    app.add_tool(look)
    asyncio.run(call_parts(app, mode, [("look", {"wanted": {"city": "Oslo"}})] * 3))
    assert (app.tools.fast_calls, app.tools.general_calls) == (3, 0)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("carrier", ["in process", "HTTP"])
def test_a_worker_thread_may_be_the_first_to_read_the_request(carrier: str, mode: str) -> None:
    """It has no event loop, and may read it before the call's own task goes on."""
    app: MCPServer[Any] = MCPServer("threads")

    @app.tool
    def look(ctx: Context) -> str:
        return f"{ctx.cancelled} {ctx.method}"

    async def use(target: Any) -> None:
        async with Client(target, mode=mode) as client:
            await client.ping()
            found = await asyncio.gather(*(client.call_tool("look") for _ in range(50)))
            assert {called.text for called in found} == {"False tools/call"}

    async def test() -> None:
        if carrier == "in process":
            await use(app)
        else:
            async with served(app) as url:
                await use(url)

    asyncio.run(test())
    assert (app.tools.fast_calls, app.tools.general_calls) == (50, 0)
