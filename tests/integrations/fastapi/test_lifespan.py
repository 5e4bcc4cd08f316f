"""The lifespan of exposed FastAPI applications, alone and mounted in themselves, and the outer request."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from ferrule import Client, StdioServer
from ferrule.expose import NothingMatches, expose
from tests.conftest import ROOT
from tests.integrations.fastapi.support import IS_NEW, both_eras, structured
from tests.integrations.serving import over_http, under_uvicorn

pytest.importorskip("fastapi")

from fastapi import (
    FastAPI,
    Request,
)

pytestmark = pytest.mark.anyio


# -- lifespans and mounting ------------------------------------------------------------------------------------------


def living(events: list[str]) -> FastAPI:
    """An application whose state comes from its lifespan."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[dict[str, Any]]:
        events.append("start")
        async with anyio.create_task_group():  # must be left by the task that entered it
            yield {"pool": f"pool {events.count('start')}"}
        events.append("end")

    app = FastAPI(title="living", version="1.2", lifespan=lifespan)

    @app.get("/pool")
    async def pool(request: Request) -> str:
        return str(request.state.pool)

    return app


@both_eras
async def test_the_lifespan_runs_with_the_exposed_server_alone(mode: str) -> None:
    """Once for all its clients, and again after all have gone."""
    events: list[str] = []
    server = expose(living(events), include="*")
    async with Client(server, mode=mode) as one, Client(server, mode=mode) as two:
        assert (await one.call_tool("pool", {})).text == "pool 1"
        assert (await two.call_tool("pool", {})).text == "pool 1"
        assert events == ["start"]
    assert events == ["start", "end"]
    assert (await server.call_tool("pool")).content[0].text == "pool 2"
    assert events == ["start", "end"] * 2


async def test_two_servers_of_one_application_start_it_once() -> None:
    """The last one ends it, whichever started it."""
    events: list[str] = []
    app = living(events)
    first, second = Client(expose(app, include="*")), Client(expose(app, include="GET"))
    await first.__aenter__()
    await second.__aenter__()
    await first.__aexit__(None, None, None)
    assert (await second.call_tool("pool", {})).text == "pool 1"
    await second.__aexit__(None, None, None)
    assert events == ["start", "end"]


@both_eras
async def test_mounted_in_the_application_itself(mode: str) -> None:
    """The host starts the application once, and its state reaches the handlers; the endpoint ends with it."""
    from ferrule.integrations.fastapi import mount

    events: list[str] = []
    app = living(events)
    server = expose(app, include="*")
    mount(app, server)
    async with over_http(app, mode) as client:
        assert [tool.name for tool in await client.list_tools()] == ["pool"]
        assert (await client.call_tool("pool", {})).text == "pool 1"
        assert events == ["start"]
    assert events == ["start", "end"]
    assert server.name == "living"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_mounted_server_is_also_used_alone(backend: str) -> None:
    """Its start starts the application, and that starts the endpoint, which must not wait for the first."""
    from ferrule.integrations.fastapi import mount

    pytest.importorskip(backend)  # environments with other versions have no trio
    events: list[str] = []
    app = living(events)
    server = expose(app, include="*")
    mount(app, server)

    async def use() -> None:
        with anyio.fail_after(60):
            async with Client(server) as client:
                assert (await client.call_tool("pool", {})).text == "pool 1"

    anyio.run(use, backend=backend)
    assert events == ["start", "end"]


@both_eras
async def test_over_stdio(mode: str) -> None:
    """The example as a host on the same machine starts it: its lifespan's state reaches the handlers."""
    # An environment with other versions finds the package by its path.
    program = [str(ROOT / "examples" / "fastapi_expose.py"), "stdio"]
    command = StdioServer(sys.executable, program, inherit_env=["PYTHONPATH"])
    async with Client(command, mode=mode) as client:
        assert {tool.name for tool in await client.list_tools()} == {"show_order", "place_order"}
        assert structured(await client.call_tool("show_order", {"number": 1})) == {"item": "hinge", "count": 4}


async def test_mounted_by_routes_and_by_starlettes_own_mount() -> None:
    """The other two ways; the endpoint starts with its first request, after the application."""
    from ferrule.integrations.starlette import mcp_routes

    events: list[str] = []
    app = living(events)
    server = expose(app, include="*")
    app.router.routes.extend(mcp_routes(server.asgi(path="/tools/mcp", health_path=None, ready_path=None)))
    app.mount("/sub", server.asgi(path="/mcp"))
    async with over_http(app, path="/tools/mcp") as client:
        assert (await client.call_tool("pool", {})).text == "pool 1"
    async with over_http(app, path="/sub/mcp") as client:
        assert (await client.call_tool("pool", {})).text == "pool 2"
    assert events == ["start", "end"] * 2


@both_eras
async def test_an_application_that_is_itself_mounted_starts_with_the_first_request(mode: str) -> None:
    """Its host runs no lifespan of it. The server starts it, and that asks for the endpoint that is just starting."""
    from ferrule.integrations.fastapi import mount

    events: list[str] = []
    inner = living(events)
    mount(inner, expose(inner, include="*"))
    host = FastAPI()
    host.mount("/sub", inner)
    with anyio.fail_after(60):
        async with over_http(host, mode, path="/sub/mcp") as client:
            assert (await client.call_tool("pool", {})).text == "pool 1"
    assert events[0] == "start"


async def test_a_lifespan_that_uses_the_exposed_server_does_not_start_itself() -> None:
    """A start within the start would never end."""
    said: list[str] = []

    @asynccontextmanager
    async def lifespan(host: FastAPI) -> AsyncGenerator[None]:
        async with Client(expose(host, include="*")) as client:
            said.append((await client.call_tool("hello", {})).text)
        yield

    app = FastAPI(lifespan=lifespan)
    expose(app, include="*")
    app.get("/hello", name="hello")(lambda: "hello")
    with anyio.fail_after(60):
        async with under_uvicorn(app):
            pass
    assert said == ["hello"]


async def test_an_application_that_cannot_start_stops_the_server() -> None:
    """With its own words in the log, and nothing half started."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        raise RuntimeError("no database")
        yield

    app = FastAPI(lifespan=lifespan)
    app.get("/a", name="a")(lambda: "a")
    for _ in range(2):
        with pytest.raises(Exception, match="no database"):
            async with Client(expose(app, include="*")):
                pass


async def test_a_misspelt_pattern_stops_the_start_of_the_application_that_it_is_mounted_in() -> None:
    """Not the first request, hours later."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()
    app.get("/a", name="a")(lambda: "a")
    mount(app, expose(app, include="tag:none"))
    with pytest.raises(NothingMatches):
        async with app.router.lifespan_context(app):
            pass


async def test_the_endpoint_comes_before_routes_that_match_every_path() -> None:
    """A front end of one page is served so."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()
    app.get("/{path:path}", name="page")(lambda path: f"page {path}")
    mount(app, expose(app, include="*"), path="/tools/mcp")
    async with over_http(app, path="/tools/mcp") as client:
        assert structured(await client.call_tool("page", {"path": "x"})) == "page x"


async def test_an_evil_origin_is_refused() -> None:
    """A web page may not use the endpoint through its visitor's browser, whatever the application allows."""
    import aiohttp

    from ferrule.integrations.fastapi import mount
    from tests.transports.asgi.support import modern, modern_headers

    app = FastAPI()
    calls: list[str] = []
    app.post("/a", name="a")(lambda: calls.append("a"))
    mount(app, expose(app, include="*"))
    message = modern(1, "tools/call", {"name": "a", "arguments": {}})
    async with under_uvicorn(app) as origin, aiohttp.ClientSession() as session:
        for headers, status in (({"origin": "https://evil.example"}, 403), ({}, 200)):
            async with session.post(
                f"{origin}/mcp", json=message, headers={**modern_headers(message), **headers}
            ) as answer:
                assert answer.status == status
    assert calls == ["a"]


@both_eras
async def test_what_the_application_sees_of_the_outer_request(mode: str) -> None:
    """Its host, prefix and client address, and nothing that only a header claims."""
    from ferrule.integrations.fastapi import mount

    app = FastAPI()

    @app.get("/seen")
    async def seen(request: Request) -> dict[str, Any]:
        assert request.client is not None
        return {
            "url": str(request.url),
            "link": str(request.url_for("seen")),
            "client": request.client.host,
            "forged": request.headers.get("x-forwarded-proto"),
        }

    mount(app, expose(app, include="*"))
    headers = {"x-forwarded-proto": "https"}
    prefix = "/proxied" if IS_NEW else ""
    async with under_uvicorn(app, root_path=prefix, proxy_headers=False) as origin:
        async with Client(f"{origin}/mcp", mode=mode, headers=headers) as client:
            found = structured(await client.call_tool("seen", {}))
    assert found == {
        "url": f"{origin}{prefix}/seen",
        "link": f"{origin}{prefix}/seen",
        "client": "127.0.0.1",
        "forged": None,
    }
    async with over_http(app, mode, headers) as client:  # uvicorn believes a proxy on its own machine
        assert structured(await client.call_tool("seen", {}))["link"].startswith("https://")


async def test_headers_go_to_the_same_origin_only() -> None:
    """A redirect to another host ends the call; one in the application is followed."""
    from fastapi.responses import RedirectResponse

    app = FastAPI()
    seen: list[str | None] = []

    @app.get("/here")
    async def here(request: Request) -> RedirectResponse:
        return RedirectResponse("/there")

    @app.get("/there")
    async def there(request: Request) -> str:
        seen.append(request.headers.get("authorization"))
        return "there"

    @app.get("/away")
    async def away() -> RedirectResponse:
        return RedirectResponse("http://other.example/there")

    server = expose(app, include="*", forward_headers=("authorization",), validate_output="off")
    async with over_http(server.asgi(), headers={"authorization": "Bearer t"}) as client:
        assert structured(await client.call_tool("here", {})) == "there"
        assert "other.example" in (await client.call_tool("away", {})).text
    assert seen == ["Bearer t"]
