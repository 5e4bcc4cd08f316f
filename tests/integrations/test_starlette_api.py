"""Starlette applications as servers: with the YAML of docstrings, and with the document of another library."""

# pyright: reportMissingImports=false

from typing import Any

import pytest

from ferrule.expose import expose
from tests.integrations.contract import MODES, check_alone, check_credentials, check_mounted

pytest.importorskip("starlette")
pytest.importorskip("yaml")

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

pytestmark = pytest.mark.anyio

ITEM = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "name": {"type": "string"}},
    "required": ["id", "name"],
}


async def read_item(request: Request) -> JSONResponse:
    """
    summary: Read an item
    operationId: read_item
    parameters:
      - {name: item_id, in: path, required: true, schema: {type: integer}}
      - {name: name, in: query, schema: {type: string}}
    responses:
      200: {description: The item}
    """
    return JSONResponse({"id": request.path_params["item_id"], "name": request.query_params.get("name", "none")})


async def make_item(request: Request) -> JSONResponse:
    """
    operationId: make_item
    requestBody:
      required: true
      content:
        application/json:
          schema:
            type: object
            properties: {id: {type: integer}, name: {type: string}}
            required: [id, name]
    responses:
      201: {description: The item}
    """
    return JSONResponse(await request.json(), status_code=201)


async def denied(request: Request) -> JSONResponse:
    """
    operationId: denied
    responses: {}
    """
    raise HTTPException(403, "not for you")


async def whoami(request: Request) -> PlainTextResponse:
    """
    operationId: whoami
    responses: {}
    """
    return PlainTextResponse(request.headers.get("authorization", "nobody"))


async def pool(request: Request) -> PlainTextResponse:
    """
    operationId: pool
    responses: {}
    """
    return PlainTextResponse(request.state.pool)


async def thing(request: Request) -> PlainTextResponse:
    """
    operationId: thing
    parameters:
      - {name: name, in: path, required: true, schema: {type: string}}
    responses: {}
    """
    return PlainTextResponse(request.path_params["name"])


async def hidden(request: Request) -> PlainTextResponse:
    """Not described."""
    return PlainTextResponse("hidden")


def application(events: list[str]) -> Starlette:
    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncGenerator[dict[str, str]]:
        events.append("start")
        yield {"pool": "open"}
        events.append("end")

    return Starlette(
        routes=[
            Route("/items/{item_id:int}", read_item),
            Route("/items", make_item, methods=["POST"]),
            Route("/denied", denied),
            Route("/whoami", whoami),
            Route("/pool", pool),
            Route("/hidden", hidden, include_in_schema=False),
            Mount("/things", routes=[Route("/secret", hidden, include_in_schema=False), Route("/{name}", thing)]),
        ],
        lifespan=lifespan,
    )


def document() -> dict[str, Any]:
    """The same, as a library such as apispec makes it."""
    from apispec import APISpec

    spec = APISpec("Stock", "1", "3.1.0")
    answer = {200: {"description": "Fine"}}
    path = [{"name": "item_id", "in": "path", "schema": {"type": "integer"}, "required": True}]
    query = [{"name": "name", "in": "query", "schema": {"type": "string"}}]
    spec.path("/items/{item_id}", operations={"get": _operation("read_item", parameters=path + query)})
    spec.components.schema("Item", ITEM)
    body = {"required": True, "content": {"application/json": {"schema": "Item"}}}
    spec.path("/items", operations={"post": _operation("make_item", requestBody=body, responses=answer)})
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    spec.path("/things/{name}", operations={"get": _operation("thing", parameters=[name])})
    for one in ("denied", "whoami", "pool"):
        spec.path(f"/{one}", operations={"get": _operation(one)})
    made: dict[str, Any] = spec.to_dict()
    return made


def _operation(name: str, **more: Any) -> dict[str, Any]:
    return {"operationId": name, "responses": {}, **more}


@pytest.mark.parametrize("mode", MODES)
async def test_described_by_its_docstrings(mode: str) -> None:
    """Starlette's own way: no further library but PyYAML."""
    events: list[str] = []
    await check_alone(application(events), events, mode)


@pytest.mark.parametrize("mode", MODES)
async def test_described_by_another_library(mode: str) -> None:
    """apispec, as a function that is called when the routes have changed."""
    pytest.importorskip("apispec")
    events: list[str] = []
    await check_alone(application(events), events, mode, description=document)


@pytest.mark.parametrize("mode", MODES)
async def test_mounted_in_the_application_itself(mode: str) -> None:
    """With one line."""
    from ferrule.integrations.starlette import mount

    events: list[str] = []
    app = application(events)
    server = expose(app, include="*")
    mount(app, server, path="/tools/mcp")
    await check_mounted(app, app, events, mode, "/tools/mcp", server)


async def test_credentials() -> None:
    await check_credentials(application([]))
