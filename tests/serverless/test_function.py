"""A server as a function: both eras through every form of event, once per instance, bounded, protected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import ferrule.serverless
from ferrule import Context, MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.serverless import FunctionHandler, FunctionRequest
from ferrule.serverless.events import MalformedEvent
from tests.serverless.events import FORMS, HOST, event, headers_of, legacy, modern


def make_app(**options: Any) -> MCPServer:
    app = MCPServer("foundry", **options)

    @app.tool
    def melt(metal: str) -> str:
        return f"{metal} is liquid"

    @app.tool
    async def big(size: int) -> str:
        return "x" * size

    @app.tool
    async def wait(ctx: Context) -> str:
        await ctx.progress(1, 2)
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("cancelled")
        return "late"

    return app


ended: list[str] = []


@pytest.fixture
def function() -> FunctionHandler:
    return ferrule.serverless.handler(make_app(), allowed_hosts=[HOST])


class Remaining:
    """The context of a function."""

    def __init__(self, left_ms: int) -> None:
        self.left_ms = left_ms

    def get_remaining_time_in_millis(self) -> int:
        return self.left_ms


def body_of(result: dict[str, Any]) -> Any:
    return json.loads(result["body"])


@pytest.mark.parametrize("encoded", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_a_call_in_both_eras_through_every_form(function: FunctionHandler, form: str, encoded: bool) -> None:
    """The handshake era without sessions: no request depends on one before."""
    for make in (modern, legacy):
        message, headers = make("tools/call", {"name": "melt", "arguments": {"metal": "brass"}})
        result = function(event(form, message, headers, encoded=encoded), object())
        assert result["statusCode"] == 200
        assert body_of(result)["result"]["content"][0]["text"] == "brass is liquid"
        assert headers_of(result)["content-type"] == "application/json"


@pytest.mark.parametrize("form", FORMS)
def test_a_handshake_gives_no_session_and_promises_no_changes(function: FunctionHandler, form: str) -> None:
    """Another instance may serve the next request."""
    opening = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    message, _ = legacy("initialize", opening)
    result = function(event(form, message))
    assert "mcp-session-id" not in headers_of(result)
    assert "listChanged" not in body_of(result)["result"]["capabilities"]["tools"]
    assert function(event(form, method="GET"))["statusCode"] == 405


def test_subscriptions_are_refused_with_the_reason(function: FunctionHandler) -> None:
    message, headers = modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    assert "needs a stream" in body_of(function(event("http", message, headers)))["error"]["message"]


def test_messages_before_the_result_are_left_out(function: FunctionHandler) -> None:
    """A call that reports progress, with a token, has one JSON answer."""
    app = make_app()

    @app.tool
    async def report(ctx: Context) -> str:
        await ctx.progress(1, 2)
        return "done"

    message, headers = modern("tools/call", {"name": "report", "arguments": {}})
    message["params"]["_meta"] = {**message["params"]["_meta"], "progressToken": 5}
    result = ferrule.serverless.handler(app, allowed_hosts=[HOST])(event("http", message, headers))
    assert body_of(result)["result"]["content"][0]["text"] == "done"


def test_the_lifespan_begins_once_for_an_instance() -> None:
    """Not with each request, and not before the first."""
    begun: list[str] = []

    @asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[None]:
        begun.append("begun")
        yield

    function = ferrule.serverless.handler(make_app(lifespan=lifespan), allowed_hosts=[HOST])
    assert begun == []
    message, headers = modern("tools/list")
    for form in FORMS:
        assert function(event(form, message, headers))["statusCode"] == 200
    assert begun == ["begun"]


@pytest.mark.parametrize(("form", "limit"), [("rest", 6 << 20), ("http", 6 << 20), ("alb", 1 << 20)])
def test_an_answer_that_is_too_large_is_an_error(function: FunctionHandler, form: str, limit: int) -> None:
    """With the id of the request and what to do; the host would answer 502 without a word. A text is there twice."""
    message, headers = modern("tools/call", {"name": "big", "arguments": {"size": limit // 2 - 10_000}})
    message["id"] = "the-id"
    fits = function(event(form, message, headers))
    assert len(json.dumps(fits)) <= limit
    assert fits["statusCode"] == 200
    message["params"]["arguments"]["size"] = limit
    result = function(event(form, message, headers))
    assert result["statusCode"] == 500
    error = body_of(result)
    assert error["id"] == "the-id"
    assert f"passes on {limit} at most" in error["error"]["message"]


def test_the_limit_counts_the_result_as_json(function: FunctionHandler) -> None:
    """Quotation marks of the body are escaped in the result."""
    quoting = MCPServer("q")

    @quoting.tool
    async def quotes() -> str:
        return '"' * 10_000

    small = ferrule.serverless.handler(quoting, allowed_hosts=[HOST], max_response_bytes=70_000)
    message, headers = modern("tools/call", {"name": "quotes", "arguments": {}})
    assert small(event("http", message, headers))["statusCode"] == 500
    large = ferrule.serverless.handler(quoting, allowed_hosts=[HOST], max_response_bytes=90_000)
    assert large(event("http", message, headers))["statusCode"] == 200


def test_a_call_ends_before_the_time_of_the_function(function: FunctionHandler) -> None:
    """The client gets an answer with its id, and the function's code runs its clean-up."""
    ended.clear()
    message, headers = modern("tools/call", {"name": "wait", "arguments": {}})
    result = function(event("http", message, headers), Remaining(600))
    assert result["statusCode"] == 504
    assert (body_of(result)["id"], body_of(result)["error"]["code"]) == (1, -32603)
    again, headers = modern("tools/call", {"name": "melt", "arguments": {"metal": "tin"}})
    assert function(event("http", again, headers), Remaining(60_000))["statusCode"] == 200
    assert ended == ["cancelled"]


@pytest.mark.parametrize("form", FORMS)
def test_it_is_protected_as_every_endpoint(form: str) -> None:
    """Host and Origin are checked; a challenge passes through with its header."""
    auth = ResourceServer(StaticTokens({"secret": {"subject": "sam"}}), resource=f"https://{HOST}/mcp")
    function = ferrule.serverless.handler(make_app(auth=auth), allowed_hosts=[HOST])
    message, headers = modern("tools/call", {"name": "melt", "arguments": {"metal": "brass"}})
    refused = function(event(form, message, headers))
    assert refused["statusCode"] == 401
    assert "resource_metadata=" in headers_of(refused)["www-authenticate"]
    allowed = function(event(form, message, {**headers, "authorization": "Bearer secret"}))
    assert allowed["statusCode"] == 200
    for name, value in (("host", "evil.example"), ("origin", "https://evil.example")):
        wrong = function(event(form, message, {**headers, "authorization": "Bearer secret", name: value}))
        assert wrong["statusCode"] in (403, 421), name


def test_bodies_are_bounded(function: FunctionHandler) -> None:
    assert function(event("http", b"x" * (5 << 20)))["statusCode"] == 413


def test_hosts_of_another_form_use_plain_requests(function: FunctionHandler) -> None:
    """In a thread of the host, or in its event loop; HEAD has no body."""
    message, headers = modern("tools/call", {"name": "melt", "arguments": {"metal": "brass"}})
    headers |= {"host": HOST, "content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = FunctionRequest(
        method="POST", path="/mcp", headers=list(headers.items()), body=json.dumps(message).encode()
    )
    response = function.handle(request)
    assert (response.status, json.loads(response.body)["id"]) == (200, 1)

    async def in_a_loop() -> Any:
        own = ferrule.serverless.handler(make_app(), allowed_hosts=[HOST])
        try:
            return await own.respond(request)
        finally:
            await own.aclose()

    assert json.loads(asyncio.run(in_a_loop()).body)["result"]["content"][0]["text"] == "brass is liquid"
    head = FunctionRequest(method="HEAD", path="/healthz", headers=[("host", HOST)])
    assert function.handle(head).body == b""


def test_what_it_refuses_when_it_is_made() -> None:
    """Sessions, unknown options; and an event of another kind when it is called."""
    with pytest.raises(ValueError, match="without sessions"):
        ferrule.serverless.handler(make_app(), stateless=False)
    with pytest.raises(ValueError, match="stateless=True"):
        FunctionHandler(make_app().asgi())
    unknown: dict[str, Any] = {"allowed_host": "x"}
    with pytest.raises(TypeError, match="allowed_host"):
        ferrule.serverless.handler(make_app(), **unknown)
    with pytest.raises(MalformedEvent):
        ferrule.serverless.handler(make_app())({"Records": []})
