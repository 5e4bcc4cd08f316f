"""Search finds, describes and calls what its caller could list and call without it, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.auth import ResourceServer, StaticTokens
from ferrule.auth.server.refusals import InsufficientScope
from ferrule.kernel.server import ServerRequestContext
from tests.app.scenarios.test_unauthorized_notifications import ADA, BOB
from tests.app.support import EVERY_REVISION, LATEST, From, ask, call, text_of
from tests.transports.asgi.support import modern, modern_call

pytestmark = pytest.mark.anyio

versions = pytest.mark.parametrize("version", EVERY_REVISION)


def shop(**options: Any) -> MCPServer[Any]:
    app: MCPServer[Any] = MCPServer("shop", tool_search=True, **options)

    @app.tool(allow=lambda principal: principal == ADA)
    def refund_payment(number: int) -> str:
        """Give money back."""
        return f"refunded {number}"

    @app.tool(scopes="notes")
    def write_note(text: str) -> str:
        return text

    @app.tool
    def show_payment(number: int) -> str:
        return f"payment {number}"

    return app


async def found(app: Any, principal: Any, query: str, version: str) -> dict[str, Any]:
    result = await call(app, "search_tools", {"query": query}, version=version, dispatch=From(principal))
    return json.loads(result["content"][0]["text"])


@versions
async def test_a_hidden_tool_is_not_found_counted_described_suggested_or_called(version: str) -> None:
    app = shop()
    assert [tool["name"] for tool in (await found(app, ADA, "refund", version))["tools"]] == ["refund_payment"]
    for query in ("refund", "refund_payment", "money", ""):
        seen = await found(app, BOB, query, version)
        assert "refund" not in json.dumps(seen)
        assert seen["found"] <= seen["total"] <= 2
    for name in ("refund_payment", "refund_paymen"):
        described = await call(app, "describe_tool", {"name": name}, version=version, dispatch=From(BOB))
        called = await call(app, "call_tool", {"name": name}, version=version, dispatch=From(BOB))
        for result in (described, called):
            assert result["isError"]
            assert "mean 'refund" not in text_of(result)
            assert text_of(result).startswith(f"Unknown tool: {name}")
    described = await call(app, "describe_tool", {"name": "refund_paymen"}, version=version, dispatch=From(ADA))
    assert "did you mean 'refund_payment'?" in text_of(described)


@versions
async def test_a_scope_is_asked_for_as_in_a_direct_call(version: str) -> None:
    """The error becomes the challenge of the HTTP answer."""
    app = shop()
    arguments = {"name": "write_note", "arguments": {"text": "x"}}
    assert text_of(await call(app, "call_tool", arguments, version=version, dispatch=From(ADA))) == "x"
    with pytest.raises(InsufficientScope):
        await call(app, "call_tool", arguments, version=version, dispatch=From(BOB))


async def test_each_principal_has_its_own_results_over_http() -> None:
    tokens = StaticTokens({"a": {"subject": "ada"}, "b": {"subject": "bob"}})
    app: MCPServer[Any] = MCPServer(
        "shop", tool_search=True, auth=ResourceServer(tokens, resource="http://127.0.0.1:8000/mcp")
    )

    @app.tool(allow=lambda principal: principal.subject == "ada")
    def refund_payment() -> str:
        return "refunded"

    endpoint = app.asgi()
    for token, names in (("a", ["refund_payment"]), ("b", []), ("a", ["refund_payment"])):
        message = modern(1, "tools/call", {"name": "search_tools", "arguments": {"query": "refund"}})
        answer = await modern_call(endpoint, message, authorization=f"Bearer {token}").run()
        content = json.loads(answer.body)["result"]["structuredContent"]
        assert [tool["name"] for tool in content["tools"]] == names


CallNext = Callable[[Any], Awaitable[Any]]


async def test_middleware_sees_the_tool_that_runs_once() -> None:
    """A rule by name would otherwise be passed by through call_tool, and a call counted twice."""
    seen: list[tuple[str, Any]] = []

    async def record(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        if ctx.method == "tools/call":
            seen.append((ctx.params["name"], ctx.params.get("arguments")))
            if ctx.params["name"] == "refund_payment":
                return {"content": [{"type": "text", "text": "refused"}], "isError": True}
        return await call_next(ctx)

    app = shop(middleware=[record])
    refused = await call(app, "call_tool", {"name": "refund_payment", "arguments": {"number": 1}}, dispatch=From(ADA))
    assert text_of(refused) == "refused"
    shown = await call(app, "call_tool", {"name": "show_payment", "arguments": {"number": 2}}, dispatch=From(BOB))
    assert text_of(shown) == "payment 2"
    assert seen == [("refund_payment", {"number": 1}), ("show_payment", {"number": 2})]


async def test_a_wrong_call_reaches_middleware_as_it_came() -> None:
    """What is hidden is not said to be there by the name that middleware logs."""
    seen: list[str] = []

    async def record(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        seen.append(ctx.params["name"])
        return await call_next(ctx)

    app = shop(middleware=[record])
    for arguments in ({"name": "nothing"}, {"name": "refund_payment"}, {"name": "call_tool"}, {}, {"name": 1}):
        assert (await call(app, "call_tool", arguments, dispatch=From(BOB)))["isError"]
    assert seen == ["call_tool"] * 5


async def test_middleware_may_still_change_the_request() -> None:
    async def one_more(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
        if ctx.method == "tools/call" and "number" in (ctx.params.get("arguments") or {}):
            arguments = {"number": ctx.params["arguments"]["number"] + 1}
            ctx = replace(ctx, params={**ctx.params, "arguments": arguments})
        return await call_next(ctx)

    app = shop(middleware=[one_more])
    result = await call(app, "call_tool", {"name": "show_payment", "arguments": {"number": 1}}, dispatch=From(BOB))
    assert text_of(result) == "payment 2"


@versions
async def test_the_list_has_what_is_always_listed_only_for_those_who_may_see_it(version: str) -> None:
    app = shop()
    app.add_tool(lambda: "x", name="for_ada", tags=["always-listed"], allow=lambda principal: principal == ADA)
    for principal, first in ((ADA, ["for_ada"]), (BOB, [])):
        listed = await ask(app, "tools/list", version=version, dispatch=From(principal))
        assert [tool["name"] for tool in listed["tools"]] == [*first, "search_tools", "describe_tool", "call_tool"]
        if version == LATEST:
            assert listed["cacheScope"] == "private"
