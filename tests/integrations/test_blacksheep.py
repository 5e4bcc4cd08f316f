"""BlackSheep applications with an OpenAPIHandler as servers."""

# pyright: reportMissingImports=false

from typing import Any

import pytest

from ferrule import Client
from ferrule.expose import expose
from ferrule.expose.description.reader import NotADescription
from tests.integrations.contract import MODES, Item, check_alone, check_credentials, check_mounted

pytest.importorskip("blacksheep")

from blacksheep import Application, Request, Response, Router, json, text
from blacksheep.server.openapi.v3 import OpenAPIHandler
from openapidocs.v3 import Info

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore"),  # of the framework about itself and its parts
]


def application(events: list[str], *, is_described: bool = True) -> Application:
    app = Application(router=Router(), show_error_details=False)
    state: list[str] = []
    if is_described:
        docs = OpenAPIHandler(info=Info(title="Stock", version="1"))
        docs.bind_app(app)
        hide = docs.ignore()
    else:
        hide = lambda function: function  # noqa: E731

    @app.router.get("/items/{item_id}")
    async def read_item(item_id: int, name: str = "none") -> Item:
        """Read an item."""
        return Item(item_id, name)

    @app.router.post("/items")
    async def make_item(data: Item) -> Item:
        return data

    @app.router.get("/denied")
    async def denied() -> Response:
        return json({"detail": "not for you"}, status=403)

    @app.router.get("/whoami")
    async def whoami(request: Request) -> Response:
        found = request.headers.get_first(b"authorization")
        return text("nobody" if found is None else found.decode())

    @app.router.get("/pool")
    async def pool() -> Response:
        return text(state[-1])

    @hide
    @app.router.get("/hidden")
    async def hidden() -> Response:
        return text("hidden")

    @hide
    @app.router.get("/things/secret")
    async def secret() -> Response:
        return text("hidden")

    @app.router.get("/things/{name}")
    async def thing(name: str) -> Response:
        return text(name)

    async def start(_: Any) -> None:
        events.append("start")
        state.append("open")

    async def end(_: Any) -> None:
        events.append("end")

    app.on_start += start
    app.on_stop += end
    return app


@pytest.mark.parametrize("mode", MODES)
async def test_alone(mode: str) -> None:
    events: list[str] = []
    await check_alone(application(events), events, mode)


@pytest.mark.parametrize("mode", MODES)
async def test_mounted_in_the_application_itself(mode: str) -> None:
    events: list[str] = []
    app = application(events)
    server = expose(app, include="*")
    endpoint = server.asgi(path="/")
    app.mount("/mcp", endpoint)

    async def end(_: Any) -> None:
        await endpoint.aclose()

    app.on_stop += end
    await check_mounted(app, app, events, mode, "/mcp", server)


async def test_credentials() -> None:
    await check_credentials(application([]))


async def test_an_application_without_a_description() -> None:
    """The error names the handler to bind."""
    with pytest.raises(NotADescription, match="OpenAPIHandler"):
        async with Client(expose(application([], is_described=False), include="*")):
            pass
