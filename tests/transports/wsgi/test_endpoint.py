"""The endpoint inside a WSGI server: `wsgiref`, which everybody has."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Generator
from http.client import HTTPConnection
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.transports.wsgi.endpoint import WSGIEndpoint
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS

pytestmark = pytest.mark.anyio


class _Threaded(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base's own name
        pass


def shop() -> MCPServer[Any]:
    app = MCPServer("shop")

    @app.tool
    def add(a: int, b: int) -> int:
        return a + b

    @app.tool
    async def slow(ctx: Context) -> str:
        """Send progress before the result, which would open a stream elsewhere."""
        for step in range(3):
            await ctx.progress(step, 3)
        return "done"

    @app.tool
    async def ask(ctx: Context) -> str:
        """Ask the user."""
        return str(await ctx.elicit("Go on?", bool))

    return app


@pytest.fixture
def address() -> Generator[tuple[str, int], None, None]:
    server = make_server("127.0.0.1", 0, shop().wsgi(), server_class=_Threaded, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield "127.0.0.1", server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.parametrize("mode", ["auto", *HANDSHAKE_PROTOCOL_VERSIONS[1:]])
async def test_both_eras_are_served(address: tuple[str, int], mode: str) -> None:
    async with Client(f"http://{address[0]}:{address[1]}/", mode=mode) as client:
        assert sorted(tool.name for tool in await client.list_tools()) == ["add", "ask", "slow"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        assert (await client.call_tool("slow")).text == "done"


async def test_a_question_is_a_round_of_the_modern_era(address: tuple[str, int]) -> None:
    url = f"http://{address[0]}:{address[1]}/"
    async with Client(url, elicitation_handler=lambda params: {"value": True}) as client:
        assert "accept" in (await client.call_tool("ask")).text


def request(
    address: tuple[str, int], method: str, body: Any = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection(*address, timeout=60)
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    connection.request(method, "/", None if body is None else json.dumps(body), sent)
    response = connection.getresponse()
    try:
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


def test_a_stream_is_refused(address: tuple[str, int]) -> None:
    assert request(address, "GET", Accept="text/event-stream")[0] == 405
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "subscriptions/listen",
        "params": {"notifications": {}, "_meta": {}},
    }
    status, _, answer = request(address, "POST", body, **{"Mcp-Method": "subscriptions/listen"})
    assert status == 400
    assert json.loads(answer)["error"]["code"] == -32601
    assert json.loads(answer)["id"] == 7


def test_what_the_endpoint_refuses_is_refused(address: tuple[str, int]) -> None:
    """The checks of the endpoint are those of every way to serve: origin, media type, form and size of the body."""
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert request(address, "POST", ping, Origin="http://evil.example")[0] == 403
    assert request(address, "POST", ping, **{"Content-Type": "text/plain"})[0] == 415
    status, headers, answer = request(address, "POST", ping)
    assert status == 200
    assert headers["content-type"].startswith("application/json")
    assert json.loads(answer)["result"] == {}


def test_a_body_that_is_too_large_is_refused() -> None:
    endpoint = shop().wsgi(max_body_bytes=100)
    server = make_server("127.0.0.1", 0, endpoint, server_class=_Threaded, handler_class=_Quiet)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        answer = request(("127.0.0.1", server.server_port), "POST", {"x": "y" * 200})
        assert answer[0] == 413
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_sessions_are_refused_where_they_cannot_be_kept() -> None:
    with pytest.raises(ValueError, match="stateless"):
        WSGIEndpoint(shop().asgi())
