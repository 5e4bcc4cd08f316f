"""Several callers of one server: each has its own credentials, sees its own tools, and works on any event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import flask
import pytest
from fastapi import FastAPI, Header

from ferrule import Client, MCPServer
from ferrule.auth import StaticTokens
from ferrule.expose import expose
from ferrule.integrations.fastapi import mount
from ferrule.transports.http.errors import HttpRemoteError
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS
from tests.expose.callers_for_tests import AnsweringCaller, answer, exposing
from tests.integrations.serving import over_http, under_uvicorn

MODES = ["auto", HANDSHAKE_PROTOCOL_VERSIONS[-1]]
both_eras = pytest.mark.parametrize("mode", MODES)


def fastapi_app() -> Any:
    app = FastAPI()

    @app.get("/who")
    async def who(authorization: str = Header("nobody")) -> str:
        await anyio.sleep(0)
        return authorization

    return app


def flask_app() -> Any:
    app = flask.Flask("who")

    @app.get("/who")
    def who() -> Any:
        return flask.jsonify(flask.request.headers.get("authorization", "nobody"))

    return app


def over_plain_http(origin: str) -> MCPServer[Any]:
    from ferrule.expose import from_openapi
    from tests.expose.documents import document

    given = document({"/who": {"get": {"operationId": "who"}}})
    return from_openapi(given, base_url=origin, include="*", forward_headers=("authorization",))


@pytest.mark.anyio
@both_eras
@pytest.mark.parametrize("kind", ["fastapi", "flask", "http"])
async def test_callers_at_the_same_time_have_their_own_credentials(kind: str, mode: str) -> None:
    """Also with one connection pool; and a caller without a token gets the token of no other."""
    async with under_uvicorn(fastapi_app()) as origin:
        if kind == "http":
            server = over_plain_http(origin)
        else:
            app = fastapi_app() if kind == "fastapi" else flask_app()
            server = expose(app, include="*", forward_headers=("authorization",))
        seen: dict[str, set[str]] = {}

        async def ask(name: str | None) -> None:
            headers = None if name is None else {"authorization": f"Bearer {name}"}
            async with Client(f"{endpoint}/mcp", mode=mode, headers=headers) as client:
                for _ in range(5):
                    found = (await client.call_tool("who", {})).text
                    seen.setdefault(str(name), set()).add(found)

        async with under_uvicorn(server.asgi()) as endpoint, anyio.create_task_group() as tasks:
            for name in ("ada", "bob", "eve", None):
                tasks.start_soon(ask, name)
    assert seen == {"ada": {"Bearer ada"}, "bob": {"Bearer bob"}, "eve": {"Bearer eve"}, "None": {"nobody"}}


@pytest.mark.anyio
@both_eras
async def test_a_token_without_the_scope_calls_no_operation(mode: str) -> None:
    """The API is not asked, whatever the tool's list shows."""
    caller = AnsweringCaller()
    tokens = StaticTokens({"good": {"scopes": ["orders"]}, "bad": {"scopes": ["other"]}})
    server = exposing({}, caller, scopes="orders", server={"auth": tokens})
    async with under_uvicorn(server.asgi()) as origin:
        async with Client(f"{origin}/mcp", mode=mode, headers={"authorization": "Bearer good"}) as client:
            assert not (await client.call_tool("it", {})).is_error
        async with Client(f"{origin}/mcp", mode=mode, headers={"authorization": "Bearer bad"}) as client:
            with pytest.raises(HttpRemoteError, match="orders"):
                await client.call_tool("it", {})
    assert len(caller.requests) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
async def test_a_page_envelope_is_shown_as_a_table(mode: str) -> None:
    """The text is a table where that is shorter, the data are JSON, and the arguments of the next page stand behind."""
    items = [{"id": number, "name": f"n{number}", "open": True} for number in range(20)]
    caller = AnsweringCaller(answer({"items": items, "total": 40, "next": "/x?page=2"}))
    raw = {"parameters": [{"name": "page", "in": "query", "schema": {"type": "integer"}}]}
    server = exposing(raw, caller, server={"text": "auto"})
    async with Client(server, mode=mode) as client:
        result = await client.call_tool("it", {})
    table, page = (block.text or "" for block in result.content)
    assert "items[20]{id,name,open}:" in table
    assert '{"page":2}' in page
    assert result.structured_content["total"] == 40


@both_eras
def test_a_mounted_server_works_on_each_new_event_loop(mode: str) -> None:
    """Serverless hosts keep the process and make a loop for each request: the second one meets no dead lifespan."""
    app = fastapi_app()
    mount(app, expose(app, include="*"))

    async def once() -> str:
        async with over_http(app, mode) as client:
            return str((await client.call_tool("who", {})).text)

    assert [asyncio.run(once()) for _ in range(3)] == ["nobody"] * 3
