"""Quart applications with Quart-Schema as servers."""

# pyright: reportMissingImports=false

from typing import Any

import pytest

from ferrule import Client
from ferrule.expose import expose
from ferrule.expose.description.reader import NotADescription
from tests.integrations.contract import MODES, Item, check_alone, check_credentials, check_mounted, data

pytest.importorskip("quart_schema")

from dataclasses import dataclass

from quart import Quart, abort, request
from quart_schema import (
    QuartSchema,
    hide,
    validate_querystring,
    validate_request,
    validate_response,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore"),  # of the framework about itself and its parts
]


@dataclass
class Query:
    name: str = "none"


def application(events: list[str]) -> Quart:
    app = Quart("stock")
    QuartSchema(app)
    state: list[str] = []

    @app.get("/items/<int:item_id>")
    @validate_querystring(Query)
    @validate_response(Item)
    async def read_item(item_id: int, query_args: Query) -> Item:
        """Read an item."""
        return Item(item_id, query_args.name)

    @app.post("/items")
    @validate_request(Item)
    @validate_response(Item, 201)
    async def make_item(data: Item) -> tuple[Item, int]:
        return data, 201

    @app.get("/denied")
    async def denied() -> str:
        abort(403, "not for you")
        raise AssertionError

    @app.get("/whoami")
    async def whoami() -> str:
        return str(request.headers.get("authorization", "nobody"))

    @app.get("/pool")
    async def pool() -> str:
        return state[-1]

    @app.get("/hidden")
    @hide
    async def hidden() -> str:
        return "hidden"

    @app.get("/things/<name>")
    async def thing(name: str) -> str:
        return name

    @app.get("/things/secret")
    @hide
    async def secret() -> str:
        return "hidden"

    @app.before_serving
    async def start() -> None:
        events.append("start")
        state.append("open")

    @app.after_serving
    async def end() -> None:
        events.append("end")

    return app


@pytest.mark.parametrize("mode", MODES)
async def test_alone(mode: str) -> None:
    events: list[str] = []
    await check_alone(application(events), events, mode)


@pytest.mark.parametrize("mode", MODES)
async def test_served_beside_the_application(mode: str) -> None:
    """The endpoint is in front of ``asgi_app``, as Quart's middleware is."""
    events: list[str] = []
    app = application(events)
    server = expose(app, include="*")
    endpoint = server.asgi(health_path=None, ready_path=None)
    inner = app.asgi_app

    async def both(scope: Any, receive: Any, send: Any) -> None:
        await (endpoint if endpoint.answers(scope) else inner)(scope, receive, send)

    app.asgi_app = both  # type: ignore[method-assign]
    app.after_serving(endpoint.aclose)
    await check_mounted(app, app, events, mode, "/mcp", server)


async def test_credentials() -> None:
    await check_credentials(application([]))


async def test_an_application_without_quart_schema() -> None:
    """The error names the argument to give; a document of another library is accepted."""
    app = Quart("plain")

    @app.get("/a")
    async def a() -> str:
        return "a"

    with pytest.raises(NotADescription, match="QuartSchema"):
        async with Client(expose(app, include="*")):
            pass
    document = {"openapi": "3.1.0", "info": {"title": "x", "version": "1"}, "paths": {"/a": {"get": {}}}}
    async with Client(expose(app, include="*", description=lambda: document)) as client:
        assert data(await client.call_tool("get_a", {})) == "a"
