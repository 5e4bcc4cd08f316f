"""Litestar applications as servers."""

# pyright: reportMissingImports=false

from typing import Any

import pytest

from ferrule import Client
from ferrule.expose import expose
from ferrule.expose.description.reader import NotADescription
from tests.integrations.contract import MODES, Item, check_alone, check_credentials, check_mounted, data

pytest.importorskip("litestar")

from litestar import Litestar, Request, asgi, get, post
from litestar.exceptions import PermissionDeniedException
from litestar.openapi import OpenAPIConfig

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore"),  # of the framework about itself and its parts
]


def application(events: list[str], *more: Any, **options: Any) -> Litestar:
    state: list[str] = []

    @get("/items/{item_id:int}")
    async def read_item(item_id: int, name: str = "none") -> Item:
        """Read an item."""
        return Item(item_id, name)

    @post("/items")
    async def make_item(data: Item) -> Item:
        return data

    @get("/denied")
    async def denied() -> str:
        raise PermissionDeniedException("not for you")

    @get("/whoami")
    async def whoami(request: Request[Any, Any, Any]) -> str:
        return request.headers.get("authorization", "nobody")

    @get("/pool")
    async def pool() -> str:
        return state[-1]

    @get("/hidden", include_in_schema=False)
    async def hidden() -> str:
        return "hidden"

    @get("/things/{name:str}")
    async def thing(name: str) -> str:
        return name

    @get("/things/secret", include_in_schema=False)
    async def secret() -> str:
        return "hidden"

    def start() -> None:
        events.append("start")
        state.append("open")

    handlers = [read_item, make_item, denied, whoami, pool, hidden, thing, secret, *more]
    end = lambda: events.append("end")  # noqa: E731
    return Litestar(handlers, on_startup=[start], on_shutdown=[end], **options)


@pytest.mark.parametrize("mode", MODES)
async def test_alone(mode: str) -> None:
    events: list[str] = []
    app = application(events, openapi_config=OpenAPIConfig(title="Stock", version="3"))
    await check_alone(app, events, mode)
    assert expose(app, include="*").name == "Stock"


@pytest.mark.parametrize("mode", MODES)
async def test_mounted_in_the_application_itself(mode: str) -> None:
    events: list[str] = []
    app = application(events)
    server = expose(app, include="*")
    endpoint = server.asgi()

    @asgi("/mcp", is_mount=True)
    async def mcp(scope: Any, receive: Any, send: Any) -> None:
        await endpoint({**scope, "path": "/mcp", "root_path": ""}, receive, send)

    app.register(mcp)
    app.on_shutdown.append(endpoint.aclose)
    await check_mounted(app, app, events, mode, "/mcp", server)


async def test_credentials() -> None:
    await check_credentials(application([]))


async def test_a_handler_that_is_registered_later_and_one_with_an_id_of_the_authors() -> None:
    """It is listed with the next list; an id of the author's own is the name."""
    app = application([])
    async with Client(expose(app, include="*")) as client:

        @get("/later", operation_id="LaterOne")
        async def later() -> str:
            return "later"

        app.register(later)
        assert data(await client.call_tool("LaterOne", {})) == "later"
        assert "LaterOne" in [tool.name for tool in await client.list_tools()]


async def test_an_application_without_a_description() -> None:
    """The error names the argument to give."""
    with pytest.raises(NotADescription, match="openapi_config"):
        async with Client(expose(application([], openapi_config=None), include="*")):
            pass
