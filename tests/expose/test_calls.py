"""One call of an operation: what is sent where, what is followed, and what is refused before anything is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from aiohttp import web

from ferrule import Client
from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.callers.http import HTTPCaller
from ferrule.expose.exchange import ApiRequest, ApiResponse, Origin
from ferrule.expose.openapi import from_openapi
from tests.expose.callers_for_tests import AnsweringCaller, answer, call, exposing
from tests.expose.documents import document

pytestmark = pytest.mark.anyio

UPLOAD: dict[str, Any] = {
    "requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}
SCHEMES: dict[str, Any] = {
    "components": {"securitySchemes": {"key": {"type": "apiKey", "in": "query", "name": "key"}}},
    "security": [{"key": []}],
}


def texts(result: Any) -> str:
    return "\n".join(block.text or "" for block in result.content)


@asynccontextmanager
async def serving(handler: Any) -> AsyncIterator[str]:
    """Serve a handler on loopback; the value is its origin."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def test_an_argument_that_is_not_described_is_refused() -> None:
    """A silent drop would turn a refused request into a success that did something else."""
    caller = AnsweringCaller()
    result = await call(exposing({}, caller), filter="x")
    assert result.is_error
    assert "filter" in texts(result)
    assert caller.requests == []


async def test_a_path_is_not_decoded_into_another_operation() -> None:
    raw = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]}
    caller = AnsweringCaller()
    await call(exposing(raw, caller, path="/x/{id}"), id="1/secret")
    assert caller.requests[0].path == "/x/1%2Fsecret"


async def test_a_value_of_the_path_calls_no_other_operation_of_an_asgi_application() -> None:
    """The application gets a decoded path, in which an encoded slash separates steps."""
    raw = {"parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}]}
    asked: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    given = document({"/x/{id}": {"get": {"operationId": "it", **raw}}})
    server = from_openapi(given, base_url="http://x", caller=ASGICaller(app), include="*")
    assert "must not have a slash" in texts(await call(server, id="1/secret"))
    assert not (await call(server, id="%2F")).is_error
    assert asked == ["/x/%2F"]


# -- redirects and credentials -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("location", "target"),
    [
        ("https://api.example/v1/y?a=1", "/y?a=1"),
        ("/v1/y", "/y"),
        ("y", "/y"),
        ("https://api.example:443/v1/y", "/y"),
        ("https://API.example/v1/y", "/y"),
        ("/v1", ""),
        ("/v1/", "/"),
        ("?page=2", "/x?page=2"),
        ("/v1/a b?c=d e", "/a%20b?c=d%20e"),
        ("/v1/ü/%C3%BC?a[]=ü", "/%C3%BC/%C3%BC?a[]=%C3%BC"),
        ("/v1/100%25", "/100%25"),
    ],
)
async def test_a_redirect_on_the_origin_is_followed(location: str, target: str) -> None:
    caller = AnsweringCaller(answer(status=307, location=location), answer({"a": 1}))
    result = await call(exposing({}, caller))
    assert result.structured_content == {"a": 1}
    assert [request.target for request in caller.requests] == ["/x", target]


@pytest.mark.parametrize(
    "location",
    [
        "https://evil.example/v1/x",
        "//evil.example/v1/x",
        "http://api.example/v1/x",
        "https://api.example.evil.example/v1/x",
        "https://api.example:8443/v1/x",
        "https://user:secret@evil.example/",
        "https://user@api.example/v1/x",
        "https://api.example/other",
        "https://api.example/v1x/y",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/.%2E/admin",
        "/v1/..;/admin",
        "/v1/..;a=b/admin",
        "/v1/x\\..\\..\\admin",
        "/v1/%5c..%5Cadmin",
        "/v1%2f..%2fadmin",
        "/v1/.\t./admin",
        "\\\\evil.example\\x",
        "/v12",
        "/v1.evil/x",
        "https://api.example\\@evil.example/v1/x",
        "https://[bad",
        "javascript:alert(1)",
        "",
    ],
)
async def test_a_redirect_elsewhere_is_reported(location: str) -> None:
    """Credentials go to the configured base URL only."""
    caller = AnsweringCaller(answer(status=302, location=location), answer({"a": 1}))
    result = await call(exposing({}, caller, auth={"key": "s3cret"}, parts=SCHEMES))
    assert len(caller.requests) == 1
    assert texts(result).startswith("The API answered 302")
    assert "secret@" not in texts(result)


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (303, "post", "GET", b""),
        (302, "post", "GET", b""),
        (301, "post", "GET", b""),
        (307, "post", "POST", b'{"a":1}'),
        (308, "put", "PUT", b'{"a":1}'),
        (303, "put", "GET", b""),
    ],
)
async def test_a_redirect_keeps_or_drops_the_body_as_http_says(
    status: int, method: str, then: str, body: bytes
) -> None:
    schema = {"type": "object", "properties": {"a": {}}}
    raw = {"requestBody": {"content": {"application/json": {"schema": schema}}}}
    caller = AnsweringCaller(answer(status=status, location="/v1/y"), answer({}))
    await call(exposing(raw, caller, method=method), a=1)
    assert (caller.requests[1].method, caller.requests[1].body) == (then, body)


async def test_redirects_end() -> None:
    caller = AnsweringCaller(answer(status=307, location="/v1/x"))
    assert "The API answered 307" in texts(await call(exposing({}, caller)))
    assert len(caller.requests) == 6


async def test_a_credential_is_sent_once_after_a_redirect_that_repeats_it() -> None:
    caller = AnsweringCaller(answer(status=307, location="/v1/y?key=s3cret&a=1"), answer({}))
    await call(exposing({}, caller, auth={"key": "s3cret"}, parts=SCHEMES))
    assert [request.query for request in caller.requests] == ["key=s3cret", "a=1&key=s3cret"]


async def test_servers_of_the_description_never_decide_where_requests_go() -> None:
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(f"{request.headers['authorization']} {request.path}")
        return web.json_response({"ok": True})

    names = ["https://evil.example", "", "/v9", "https://{h}/x", "//evil.example"]
    given = document(
        {
            "/x": {
                "servers": [{"url": "https://evil.example"}],
                "get": {"servers": [{"url": "/y"}], "operationId": "it"},
            }
        },
        servers=[{"url": name} for name in names],
        security=[{"t": []}],
        components={"securitySchemes": {"t": {"type": "http", "scheme": "bearer"}}},
    )
    async with serving(handler) as origin:
        result = await call(from_openapi(given, base_url=f"{origin}/v2/", auth="s3cret", include="*"))
    assert result.structured_content == {"ok": True}
    assert asked == ["Bearer s3cret /v2/x"]


async def test_an_api_that_declares_no_security_and_answers_401_says_so() -> None:
    challenge = {"www-authenticate": 'Bearer realm="shop", scope="read"'}
    caller = AnsweringCaller(ApiResponse(status=401, headers=tuple(challenge.items()), body=b'{"detail":"who?"}'))
    result = await call(exposing({}, caller))
    assert result.is_error
    assert "401 Unauthorized" in texts(result)
    assert "who?" in texts(result)
    assert 'Bearer realm="shop"' in texts(result)


# -- files -------------------------------------------------------------------------------------------------------------


async def test_a_file_comes_from_a_resource_of_this_server() -> None:
    caller = AnsweringCaller()
    server = exposing(UPLOAD, caller, method="post")

    @server.resource("notes://one", mime_type="text/markdown")
    def note() -> str:
        return "# Hi"

    assert not (await call(server, body={"uri": "notes://one"})).is_error
    assert caller.requests[0].body == b"# Hi"
    assert ("content-type", "text/markdown") in caller.requests[0].headers
    assert "cannot be read" in texts(await call(server, body={"uri": "notes://two"}))
    assert "exactly one" in texts(await call(server, body={"uri": "notes://one", "text": "x"}))


@pytest.mark.parametrize("uri", ["https://files.example/a", "http://127.0.0.1/a", "file:///etc/passwd", "ftp://x/a"])
async def test_no_other_server_is_asked_for_a_file(uri: str) -> None:
    caller = AnsweringCaller()
    result = await call(exposing(UPLOAD, caller, method="post"), body={"uri": uri})
    assert result.is_error
    assert caller.requests == []


async def test_a_file_comes_from_an_origin_that_is_allowed() -> None:
    seen: list[Any] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.path, request.headers.get("authorization")))
        if request.path == "/moved":
            raise web.HTTPFound("http://169.254.169.254/")
        if request.path == "/large":
            return web.Response(body=bytes(2000))
        return web.Response(body=b"data", content_type="image/png")

    caller = AnsweringCaller()
    async with serving(handler) as origin:
        server = exposing(UPLOAD, caller, method="post", file_origins=(origin,), max_file_bytes=1000)
        assert not (await call(server, body={"uri": f"{origin}/a%20b.png#x"})).is_error
        assert caller.requests[0].body == b"data"
        assert "answered 302" in texts(await call(server, body={"uri": f"{origin}/moved"}))
        assert "larger than" in texts(await call(server, body={"uri": f"{origin}/large"}))
        user = origin.replace("http://", "http://u:p@")
        for uri in (user, "http://127.0.0.1:1/a", "https://[bad"):
            assert "read from" in texts(await call(server, body={"uri": uri}))
    assert len(caller.requests) == 1
    assert seen[0] == ("/a b.png", None)


# -- no answer ---------------------------------------------------------------------------------------------------------


async def test_an_api_that_does_not_answer_is_an_error_for_the_model() -> None:
    caller = HTTPCaller("http://127.0.0.1:9", timeout_s=5)
    given = document({"/x": {"get": {"operationId": "it"}}})
    result = await call(from_openapi(given, base_url="http://127.0.0.1:9", caller=caller, include="*"))
    assert texts(result) == "The call failed: the API cannot be reached"


async def test_an_endless_answer_ends_at_its_bound() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        with anyio.move_on_after(60):
            while True:
                await response.write(b"[" * 10_000)
        return response

    given = document({"/x": {"get": {"operationId": "it"}}})
    async with serving(handler) as origin:
        server = from_openapi(given, base_url=origin, include="*", max_response_bytes=50_000)
        async with Client(server) as client:
            result = await client.call_tool("it", {})
    assert "larger than 50,000 bytes" in texts(result)


async def test_the_caller_gets_the_bound_of_answers() -> None:
    class Noting(AnsweringCaller):
        async def call(self, request: ApiRequest, origin: Origin, *, max_bytes: int) -> ApiResponse:
            assert max_bytes == 123
            return await super().call(request, origin, max_bytes=max_bytes)

    assert not (await call(exposing({}, Noting(), max_response_bytes=123))).is_error
