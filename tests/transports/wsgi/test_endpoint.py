"""The endpoint inside a WSGI server: `wsgiref` of the standard library."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Generator
from http.client import HTTPConnection
from io import BytesIO, StringIO
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server
from wsgiref.validate import validator

import pytest

from ferrule import Client, Context, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.transports.asgi.request import DisconnectWatch
from ferrule.transports.wsgi.endpoint import WSGIEndpoint
from ferrule.transports.wsgi.scope import _MAX_NAMES, _NAMES, scope_of
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


LISTEN = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "subscriptions/listen",
    "params": {
        "notifications": {"toolsListChanged": True},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    },
}
LISTEN_HEADERS = {"Mcp-Method": "subscriptions/listen", "Mcp-Protocol-Version": "2026-07-28"}


def test_a_stream_is_refused(address: tuple[str, int]) -> None:
    assert request(address, "GET", Accept="text/event-stream")[0] == 405
    status, headers, answer = request(address, "POST", LISTEN, **LISTEN_HEADERS)
    assert (status, headers["content-type"]) == (400, "application/json")
    assert json.loads(answer)["error"]["code"] == -32601
    assert "needs a stream" in json.loads(answer)["error"]["message"]
    assert json.loads(answer)["id"] == 7


@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
async def test_what_needs_a_stream_is_not_announced(address: tuple[str, int], mode: str) -> None:
    async with Client(f"http://{address[0]}:{address[1]}/", mode=mode) as client:
        assert client.server_capabilities["tools"] == {}


def test_a_refused_client_learns_nothing_of_streams(address: tuple[str, int]) -> None:
    """The checks come first: origin, authentication, headers."""
    assert request(address, "POST", LISTEN, **LISTEN_HEADERS, Origin="http://evil.example")[0] == 403
    assert request(address, "POST", {**LISTEN, "method": "tools/list"}, **LISTEN_HEADERS)[0] == 400
    environ: dict[str, Any] = {
        f"HTTP_{name.upper().replace('-', '_')}": value for name, value in LISTEN_HEADERS.items()
    }
    body = json.dumps(LISTEN).encode()
    assert served(protected(), path="/mcp", body=body, **environ)[0] == 401
    assert served(protected(), path="/mcp", body=body, **environ, HTTP_AUTHORIZATION="Bearer good")[0] == 400


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


# --- the standard -----------------------------------------------------------------------------------------------------


def served(
    app: Any, method: str = "POST", path: str = "/", body: bytes | None = None, **environ: Any
) -> tuple[int, dict[str, str], bytes]:
    """Call a WSGI application as a server that is strict about the standard."""
    if body is None:
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if method == "POST" else b""
    found: list[Any] = []

    def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
        found[:] = [int(status[:3]), {name.lower(): value for name, value in headers}]
        return lambda data: None

    given = {
        "REQUEST_METHOD": method,
        "SCRIPT_NAME": "",
        "PATH_INFO": path,
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "SERVER_NAME": "shop.example",
        "SERVER_PORT": "443",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": "shop.example",
        "HTTP_ACCEPT": "application/json, text/event-stream",
        "REMOTE_ADDR": "192.0.2.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "https",
        "wsgi.input": BytesIO(body),
        "wsgi.errors": StringIO(),
        "wsgi.multithread": True,
        "wsgi.multiprocess": True,
        "wsgi.run_once": False,
        **environ,
    }
    answer = validator(app)({name: value for name, value in given.items() if value is not None}, start_response)
    try:
        data = b"".join(answer)
    finally:
        answer.close()  # type: ignore[attr-defined]
    return found[0], found[1], data


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
def test_answers_are_what_the_standard_asks_for(method: str) -> None:
    status, headers, body = served(shop().wsgi(), method)
    assert status == {"POST": 200, "OPTIONS": 204}.get(method, 405)
    assert headers.get("content-length", str(len(body))) == str(len(body)) or method == "HEAD"


@pytest.mark.parametrize(("address", "port"), [("", ""), (None, "80")])
def test_a_request_over_a_unix_socket_has_no_addresses(address: str | None, port: str) -> None:
    assert served(shop().wsgi(), REMOTE_ADDR=address, SERVER_PORT=port or "0")[0] == 200
    endpoint = shop().wsgi()
    assert b"".join(endpoint(environ_of(SERVER_PORT="", REMOTE_ADDR=""), lambda *_: None)).endswith(b'"result":{}}')


def environ_of(**more: Any) -> dict[str, Any]:
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    return {
        "REQUEST_METHOD": "POST",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "HTTP_ACCEPT": "application/json, text/event-stream",
        "wsgi.input": BytesIO(body),
        **more,
    }


@pytest.mark.parametrize("coding", ["chunked", "Chunked"])
def test_a_body_without_a_length_is_refused_where_nothing_says_where_it_ends(coding: str) -> None:
    endpoint = shop().wsgi()
    chunked: dict[str, Any] = {"HTTP_TRANSFER_ENCODING": coding, "CONTENT_LENGTH": None}
    assert served(endpoint, **chunked)[0] == 411
    ended: dict[str, Any] = {"wsgi.input_terminated": True}
    assert served(endpoint, **chunked, **ended)[0] == 200


@pytest.mark.parametrize("length", ["-1", "²", "many", "9" * 400])
def test_an_odd_length_is_no_error_of_ours(length: str) -> None:
    environ = environ_of(CONTENT_LENGTH=length)
    statuses: list[str] = []
    list(shop().wsgi()(environ, lambda status, headers: statuses.append(status)))
    assert statuses[0][:3] in ("200", "400", "413")


# --- beside an application --------------------------------------------------------------------------------------------


def host(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"the host"]


def test_an_application_beside_the_endpoint_gets_all_other_paths() -> None:
    both = shop().wsgi(path="/tools/mcp", health_path=None).beside(host)
    for path in ("/tools/mcp", "/tools/mcp/", "/readyz"):
        assert served(both, "POST" if "mcp" in path else "GET", path)[2] != b"the host"
    for path in ("/", "/tools", "/tools/mcp/more", "/healthz", "/.well-known/oauth-protected-resource"):
        assert served(both, path=path)[2] == b"the host"


def protected(**options: Any) -> Any:
    app: MCPServer[Any] = MCPServer(
        "s", auth=ResourceServer(StaticTokens({"good": {"subject": "ada"}}), resource="https://shop.example/mcp")
    )

    @app.tool
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    return app.wsgi(path="/mcp", **options).beside(host)


def test_a_challenge_leads_to_metadata_at_the_root_of_the_site() -> None:
    both = protected()
    status, headers, _ = served(both, path="/mcp")
    assert status == 401
    assert (
        'resource_metadata="https://shop.example/.well-known/oauth-protected-resource/mcp"'
        in (headers["www-authenticate"])
    )
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        status, headers, body = served(both, "GET", path)
        assert status == 200
        assert json.loads(body)["resource"] == "https://shop.example/mcp"
    assert served(both, path="/mcp", HTTP_AUTHORIZATION="Bearer bad")[0] == 401
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
    status, _, body = served(both, path="/mcp", body=json.dumps(call).encode(), HTTP_AUTHORIZATION="Bearer good")
    assert json.loads(body)["result"]["content"][0]["text"] == "ada"


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, 200),
        ({"HTTP_ORIGIN": "https://shop.example"}, 200),
        ({"HTTP_ORIGIN": "https://evil.example"}, 403),
        ({"HTTP_ORIGIN": "null"}, 403),
        ({"HTTP_HOST": "evil.example"}, 403),
        # What a client says of itself behind no proxy that is trusted.
        ({"HTTP_HOST": "evil.example", "HTTP_X_FORWARDED_HOST": "shop.example"}, 403),
        ({"HTTP_X_FORWARDED_HOST": "evil.example"}, 200),
    ],
)
def test_foreign_origins_and_hosts_are_refused(headers: dict[str, Any], expected: int) -> None:
    endpoint = shop().wsgi(path="/mcp", allowed_hosts=["shop.example"])
    assert served(endpoint, path="/mcp", **headers)[0] == expected


def test_one_proxy_may_name_the_host() -> None:
    endpoint = shop().wsgi(path="/mcp", allowed_hosts=["shop.example"], trusted_proxies=["192.0.2.1"])
    assert served(endpoint, path="/mcp", HTTP_HOST="inner", HTTP_X_FORWARDED_HOST="shop.example")[0] == 200
    stranger: dict[str, Any] = {
        "REMOTE_ADDR": "198.51.100.1",
        "HTTP_HOST": "inner",
        "HTTP_X_FORWARDED_HOST": "shop.example",
    }
    assert served(endpoint, path="/mcp", **stranger)[0] == 403


def test_names_of_headers_are_kept_up_to_a_bound() -> None:
    """Clients choose them."""
    for number in range(2 * _MAX_NAMES):
        found = scope_of(environ_of(**{f"HTTP_X_NUMBER_{number}": "1"}))["headers"]
        assert (f"x-number-{number}".encode(), b"1") in found
    assert len(_NAMES) <= _MAX_NAMES


def test_a_request_that_waits_needs_no_watch_for_the_end_of_its_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A WSGI host does not tell that a client has gone."""
    app = MCPServer("shop")
    armed: list[DisconnectWatch] = []
    monkeypatch.setattr(DisconnectWatch, "arm", armed.append)

    @app.tool
    def work() -> int:
        return 1

    for version, method in (("2025-11-25", None), ("2026-07-28", "tools/call")):
        names = {} if method is None else {"HTTP_MCP_METHOD": method, "HTTP_MCP_NAME": "work"}
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": "work", "arguments": {}, **({} if method is None else {"_meta": meta})}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        status, _, answer = served(
            app.wsgi(),
            "POST",
            body=body,
            HTTP_MCP_PROTOCOL_VERSION=version,
            HTTP_ACCEPT="application/json, text/event-stream",
            CONTENT_LENGTH=str(len(body)),
            **names,
        )
        assert (status, json.loads(answer)["result"]["content"][0]["text"]) == (200, "1")
    assert armed == []
