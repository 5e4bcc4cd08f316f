"""An API's 401 becomes the endpoint's, where the caller's own credentials were passed on and the answer can say so."""

# pyright: reportUnusedFunction=false

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from flask import Flask, Response, request

from ferrule import Client, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.expose import expose
from ferrule.expose.answers.challenges import MAX_CHALLENGE_CHARS
from ferrule.expose.openapi import from_openapi
from ferrule.transports.sse.server import SseEndpoint
from tests.expose.callers_for_tests import AnsweringCaller, answer
from tests.expose.documents import document
from tests.transports.asgi.support import LEGACY, Answer, legacy_call, modern, modern_call, open_session
from tests.transports.asgi.support import request as legacy_request
from tests.transports.sse.test_server import connected

pytestmark = pytest.mark.anyio

PROBLEM = {"detail": "Not for you"}


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.get("/me", operation_id="it")
    async def me(given: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer(auto_error=False))]) -> str:
        if given is None or given.credentials != "good":
            raise HTTPException(401, "Not for you", headers={"WWW-Authenticate": 'Bearer realm="shop"'})
        return "Ann"

    return app


def flask_app() -> Flask:
    app = Flask("shop")

    @app.get("/me", endpoint="it")
    def me() -> Any:
        if request.headers.get("authorization") != "Bearer good":
            return Response(json.dumps(PROBLEM), 401, {"WWW-Authenticate": 'Bearer realm="shop"'})
        return "Ann"

    return app


class Plain:
    """Requests of either era to an endpoint, made by hand."""

    def __init__(self, endpoint: Any, *, is_modern: bool) -> None:
        self._endpoint, self._is_modern = endpoint, is_modern
        self._session_id: str | None = None

    async def begin(self, **headers: str) -> None:
        if not self._is_modern:
            self._session_id = await open_session(self._endpoint, LEGACY, None, **headers)

    async def call(self, token: str | None = None) -> Answer:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        params = {"name": "it", "arguments": {}}
        if self._is_modern:
            return await modern_call(self._endpoint, modern(1, "tools/call", params), **headers).run()
        message = legacy_request(1, "tools/call", params)
        return await legacy_call(self._endpoint, message, self._session_id, **headers).run()


async def calls(server: MCPServer[Any], check: Callable[[Plain], Any], *, is_modern: bool, **headers: str) -> None:
    endpoint = server.asgi()
    try:
        plain = Plain(endpoint, is_modern=is_modern)
        await plain.begin(**headers)
        await check(plain)
    finally:
        await endpoint.aclose()


both_eras = pytest.mark.parametrize("is_modern", [False, True], ids=["legacy", "modern"])


@both_eras
@pytest.mark.parametrize("make", [fastapi_app, flask_app])
async def test_the_client_is_asked_to_sign_in_and_goes_on(make: Callable[[], Any], is_modern: bool) -> None:
    """Without and with a wrong token; the session, where there is one, outlives it."""
    server = expose(make(), include="*", forward_headers=("authorization",))

    async def check(plain: Plain) -> None:
        for token in (None, "bad"):
            refused = await plain.call(token)
            assert refused.status == 401
            assert refused.headers["www-authenticate"] == 'Bearer realm="shop"'
            assert "Not for you" in refused.json["error"]["message"]
        accepted = await plain.call("good")
        assert accepted.status == 200
        assert "Ann" in accepted.body.decode()

    await calls(server, check, is_modern=is_modern)


@both_eras
async def test_a_tool_error_where_credentials_are_not_passed_on(is_modern: bool) -> None:
    """Signing in would change nothing: the API never sees the caller's token."""

    async def check(plain: Plain) -> None:
        result = await plain.call("good")
        assert result.status == 200
        assert "401" in result.body.decode()
        assert "It asks for" in result.body.decode()

    await calls(expose(fastapi_app(), include="*"), check, is_modern=is_modern)


async def test_a_tool_error_where_an_answer_has_no_status() -> None:
    """In memory, as over stdio."""
    async with Client(expose(fastapi_app(), include="*", forward_headers=("authorization",))) as client:
        result = await client.call_tool("it", {})
    assert result.is_error
    assert "It asks for: Bearer" in result.text


async def test_a_tool_error_over_http_and_sse() -> None:
    """The POST has been answered with 202 by then."""
    server = expose(flask_app(), include="*", forward_headers=("authorization",))
    async with connected(SseEndpoint(server.lowlevel)) as session:
        await session.handshake()
        answered = await session.ask(1, "tools/call", {"name": "it", "arguments": {}})
    assert answered["result"]["isError"]
    assert "It asks for: Bearer" in answered["result"]["content"][0]["text"]


def answering(response: Any, **options: Any) -> MCPServer[Any]:
    paths = {"/me": {"get": {"operationId": "it"}}}
    options.setdefault("forward_headers", ("authorization",))
    return from_openapi(
        document(paths), base_url="https://api.example", caller=AnsweringCaller(response), include="*", **options
    )


@both_eras
@pytest.mark.parametrize(
    ("response", "status", "expected"),
    [
        (answer(PROBLEM, status=401), 401, "Bearer"),
        (answer(PROBLEM, status=401, www_authenticate="x" * (MAX_CHALLENGE_CHARS + 1)), 401, "Bearer"),
        (answer(PROBLEM, status=401, www_authenticate="Bearer\r\nx-admin: 1"), 401, "Bearer"),
        (answer(PROBLEM, status=401, www_authenticate='Basic realm="a"'), 401, 'Basic realm="a"'),
        (
            answer(PROBLEM, status=403, www_authenticate='Bearer error="insufficient_scope", scope="a b"'),
            403,
            'Bearer error="insufficient_scope", scope="a b"',
        ),
        (answer(PROBLEM, status=403), 200, None),
        (answer(PROBLEM, status=403, www_authenticate="Bearer"), 200, None),
    ],
)
async def test_challenges(response: Any, status: int, expected: str | None, is_modern: bool) -> None:
    """Some of an API's, one where it has none, and none that could become another header."""

    async def check(plain: Plain) -> None:
        refused = await plain.call("bad")
        assert refused.status == status
        assert refused.headers.get("www-authenticate") == expected
        assert "x-admin" not in refused.headers
        assert "Not for you" in refused.body.decode()

    await calls(answering(response), check, is_modern=is_modern)


@both_eras
@pytest.mark.parametrize(
    ("response", "status", "parts"),
    [
        (answer(PROBLEM, status=401, www_authenticate="Bearer"), 401, ['error="invalid_token"']),
        (
            answer(PROBLEM, status=403, www_authenticate='Bearer error="insufficient_scope", scope="orders"'),
            403,
            ['error="insufficient_scope"', 'scope="orders"'],
        ),
    ],
)
async def test_a_protected_server_names_its_own_metadata(
    response: Any, status: int, parts: list[str], is_modern: bool
) -> None:
    """Those of the API are for tokens that this server would refuse."""
    auth = ResourceServer(StaticTokens({"token": {"subject": "ann"}}), resource="http://127.0.0.1:8000/mcp")

    async def check(plain: Plain) -> None:
        refused = await plain.call("token")
        assert refused.status == status
        for part in [*parts, "resource_metadata="]:
            assert part in refused.headers["www-authenticate"]

    server = answering(response, server={"auth": auth})
    await calls(server, check, is_modern=is_modern, authorization="Bearer token")


@both_eras
async def test_a_request_without_a_token_and_fastapis_own_check(is_modern: bool) -> None:
    """The description need not say so; this one's handler is never reached."""
    app = FastAPI()

    @app.get("/me", operation_id="it", dependencies=[Depends(HTTPBearer())])
    async def me() -> str:
        return "Ann"

    async def check(plain: Plain) -> None:
        refused = await plain.call()
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert (await plain.call("any")).status == 200

    await calls(expose(app, include="*", forward_headers=("authorization",)), check, is_modern=is_modern)
