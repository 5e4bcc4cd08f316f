"""Mounting: one index, the same cost at any depth, and nothing that gets lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import pytest

from ferrule import Context, Header, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.protocol.errors import InvalidParams
from tests.app.rounds.driving import Call, Dispatch, always, served
from tests.app.support import ask, call, text_of

pytestmark = pytest.mark.anyio


def shop(name: str = "shop", **options: Any) -> MCPServer:
    app = MCPServer(name, **options)

    @app.tool(tags=["buying"])
    async def order(product: str, ctx: Context) -> str:
        return f"{product} {ctx.lifespan}"

    @app.prompt
    def thanks(style: str) -> str:
        return style

    @app.complete("thanks", "style")
    def styles(typed: str) -> list[str]:
        return ["warm", "cool"]

    @app.resource("data://stock")
    def stock() -> str:
        return "all"

    @app.resource("data://stock/{product}")
    def one(product: str) -> str:
        return product

    return app


async def test_everything_is_served_under_the_prefix():
    app = MCPServer("host")
    app.mount(shop(), prefix="shop")
    assert [tool.name for tool in app.list_tools()] == ["shop_order"]
    assert text_of(await call(app, "shop_order", {"product": "x"})) == "x None"
    got = await ask(app, "prompts/get", {"name": "shop_thanks", "arguments": {"style": "warm"}})
    assert got["messages"][0]["content"]["text"] == "warm"
    assert (await ask(app, "resources/read", {"uri": "data://shop/stock"}))["contents"][0]["text"] == "all"
    (contents,) = (await ask(app, "resources/read", {"uri": "data://shop/stock/pin"}))["contents"]
    assert (contents["uri"], contents["text"]) == ("data://shop/stock/pin", "pin")
    params = {"ref": {"type": "ref/prompt", "name": "shop_thanks"}, "argument": {"name": "style", "value": ""}}
    assert (await ask(app, "completion/complete", params))["completion"]["values"] == ["warm", "cool"]
    listed = await ask(app, "tools/list")
    assert [tool["name"] for tool in listed["tools"]] == ["shop_order"]


async def test_changes_follow_through_every_level():
    inner, middle, outer = shop(), MCPServer("middle"), MCPServer("outer")
    middle.mount(inner, prefix="in")
    outer.mount(middle, prefix="mid")

    @inner.tool
    async def late() -> str:
        return "late"

    assert text_of(await call(outer, "mid_in_late")) == "late"
    inner.disable(tool="late")
    with pytest.raises(InvalidParams):
        await call(outer, "mid_in_late")
    inner.enable(tool="late")
    assert text_of(await call(outer, "mid_in_late")) == "late"
    inner.remove_tool("late")
    assert [tool.name for tool in outer.list_tools()] == ["mid_in_order"]
    outer.disable(tag="buying")
    assert outer.list_tools() == []
    assert [tool.name for tool in inner.list_tools()] == ["order"]


async def test_messages_name_the_tool_as_it_is_called():
    app = MCPServer("host")
    app.mount(shop(), prefix="shop")
    assert "shop_order" in text_of(await call(app, "shop_order", {}))


async def test_a_guard_set_after_mounting_guards_the_copy():
    """A copy without its guard would be a hole, whatever came first."""
    inner, middle, app = MCPServer("inner"), MCPServer("middle"), MCPServer("app")
    middle.mount(inner)
    app.mount(middle)

    @inner.tool(allow=lambda principal: principal == "ada")
    async def secret() -> str:
        return "s"

    async def names(principal: str) -> list[str]:
        listed = await ask(app, "tools/list", dispatch=Dispatch(principal=principal))
        return [tool["name"] for tool in listed["tools"]]

    assert await names("ada") == ["secret"]
    assert await names("bob") == []


async def test_lifespans_nest_and_each_sees_its_own_state():
    order: list[str] = []

    def lifespan(name: str) -> Any:
        @asynccontextmanager
        async def live(app: MCPServer[Any]) -> AsyncGenerator[str]:
            order.append(f"{name} in")
            yield name
            order.append(f"{name} out")

        return live

    inner, middle, outer = shop(lifespan=lifespan("inner")), shop("m"), shop("o", lifespan=lifespan("outer"))
    middle.mount(inner, prefix="in")
    outer.mount(middle, prefix="mid")
    async with outer.started():
        for name, state in [("order", "outer"), ("mid_order", "outer"), ("mid_in_order", "inner")]:
            assert (await outer.call_tool(name, {"product": "x"})).content[0].text == f"x {state}"
    assert order == ["outer in", "inner in", "inner out", "outer out"]


def noting(name: str, seen: list[Any]) -> Any:
    """A middleware that notes what it sees, as which server and with which state."""

    async def middleware(ctx: Any, call_next: Any) -> Any:
        params = ctx.params
        asked = params.get("ref", params)
        seen.append((name, ctx.method, asked.get("name") or asked.get("uri"), ctx.lifespan_context))
        return await call_next(ctx)

    return middleware


def living(state: str) -> Any:
    @asynccontextmanager
    async def live(app: MCPServer[Any]) -> AsyncGenerator[str]:
        yield state

    return live


COMPLETE = {"ref": {"type": "ref/prompt", "name": "mid_in_thanks"}, "argument": {"name": "style", "value": ""}}


@pytest.mark.parametrize(
    ("method", "params", "names"),
    [
        ("tools/call", {"name": "mid_in_order", "arguments": {"product": "x"}}, ("mid_in_order", "in_order", "order")),
        (
            "prompts/get",
            {"name": "mid_in_thanks", "arguments": {"style": "x"}},
            ("mid_in_thanks", "in_thanks", "thanks"),
        ),
        ("resources/read", {"uri": "data://mid/in/stock"}, ("data://mid/in/stock", "data://in/stock", "data://stock")),
        (
            "resources/read",
            {"uri": "data://mid/in/stock/pin"},
            ("data://mid/in/stock/pin", "data://in/stock/pin", "data://stock/pin"),
        ),
        ("completion/complete", COMPLETE, ("mid_in_thanks", "in_thanks", "thanks")),
    ],
)
async def test_each_server_on_the_way_has_its_own_middleware_under_its_own_names(method, params, names):
    """A rate limit or an audit of the mounted server holds wherever it is mounted."""
    seen: list[Any] = []
    inner = shop("inner", middleware=[noting("inner 1", seen), noting("inner 2", seen)], lifespan=living("I"))
    middle, outer = MCPServer("middle", middleware=[noting("middle", seen)]), shop("o", middleware=[noting("o", seen)])
    middle.mount(inner, prefix="in")
    outer.mount(middle, prefix="mid")
    async with outer.started() as state:
        await ask(outer, method, params, state=state)
    assert seen == [
        ("o", method, names[0], {}),
        ("middle", method, names[1], {}),
        ("inner 1", method, names[2], "I"),
        ("inner 2", method, names[2], "I"),
    ]


async def test_a_mounted_servers_middleware_does_not_see_what_is_not_its_own():
    seen: list[Any] = []
    app = shop("host")
    app.mount(shop(middleware=[noting("guest", seen)]), prefix="in")
    assert text_of(await call(app, "order", {"product": "x"})) == "x None"
    for method in ("tools/list", "prompts/list", "resources/list"):
        await ask(app, method)
    assert seen == []


async def test_a_mounted_servers_middleware_may_refuse_rewrite_and_replace():
    async def judge(ctx: Any, call_next: Any) -> Any:
        product = ctx.params["arguments"]["product"]
        if product == "bomb":
            raise InvalidParams("not sold")
        if product == "gift":
            return {"content": [{"type": "text", "text": "wrapped"}]}
        return await call_next(replace(ctx, params={**ctx.params, "arguments": {"product": product.upper()}}))

    app = MCPServer("host")
    app.mount(shop(middleware=[judge]), prefix="in")
    with pytest.raises(InvalidParams, match="not sold"):
        await call(app, "in_order", {"product": "bomb"})
    assert text_of(await call(app, "in_order", {"product": "gift"})) == "wrapped"
    assert text_of(await call(app, "in_order", {"product": "pin"})) == "PIN None"


async def test_a_question_goes_through_a_mounted_servers_middleware():
    """The round's state is sealed for the call that the client made, whatever the way to the body."""
    seen: list[Any] = []
    inner, app = MCPServer("inner", middleware=[noting("inner", seen)]), served()

    @inner.tool
    async def body(ctx: Context) -> str:
        return f"{(await ctx.elicit('How many?', int)).data}"

    app.mount(inner, prefix="in")
    result = await Call(app, name="in_body").finish(always(3))
    assert result["content"][0]["text"] == "3"
    assert [name for _, _, name, _ in seen] == ["body", "body"]


async def test_a_function_that_uses_a_mounted_resource_passes_its_middleware():
    """It is asked for the resource, and the function goes on with its own request."""
    seen: list[Any] = []
    app = MCPServer("host")
    app.mount(shop(middleware=[noting("guest", seen)]), prefix="in")

    @app.tool
    async def use(ctx: Context) -> str:
        found = await ctx.read_resource("data://in/stock")
        return f"{found.contents[0].text} {ctx.method}"

    assert text_of(await call(app, "use")) == "all tools/call"
    assert [(method, name) for _, method, name, _ in seen] == [("resources/read", "data://stock")]


async def test_completers_see_the_state_of_the_server_that_they_belong_to():
    inner, outer = MCPServer("inner", lifespan=living("inner")), MCPServer("outer", lifespan=living("outer"))

    @inner.prompt
    def thanks(style: str, to: str) -> str:
        return style

    @inner.complete("thanks", "style")
    def styles(typed: str, ctx: Context) -> list[str]:
        return [ctx.lifespan]

    outer.mount(inner, prefix="in")

    @outer.complete("in_thanks", "to")
    def people(typed: str, ctx: Context) -> list[str]:
        return [ctx.lifespan]

    async with outer.started() as state:
        for argument, found in (("style", "inner"), ("to", "outer")):
            params = {"ref": {"type": "ref/prompt", "name": "in_thanks"}, "argument": {"name": argument, "value": ""}}
            assert (await ask(outer, "completion/complete", params, state=state))["completion"]["values"] == [found]


async def test_mirrored_headers_come_along():
    inner, app = MCPServer("inner"), MCPServer("app")

    @inner.tool
    async def where(region: Annotated[str, Header("Region")]) -> str:
        return region

    app.mount(inner, prefix="in")
    assert list(app.lowlevel.param_headers) == ["in_where"]
    inner.remove_tool("where")
    assert app.lowlevel.param_headers == {}


@pytest.mark.parametrize("prefix", ["", "a/b", "ü", "x" * 65])
def test_a_prefix_is_part_of_names(prefix):
    with pytest.raises(RegistrationError):
        MCPServer("x").mount(shop(), prefix=prefix)


def test_what_cannot_be_mounted_is_refused():
    app, other = shop(), shop()
    with pytest.raises(RegistrationError, match="already"):
        app.mount(other)
    with pytest.raises(RegistrationError, match="itself"):
        app.mount(app, prefix="x")
    app.mount(other, prefix="x")
    with pytest.raises(RegistrationError, match="itself"):
        other.mount(app, prefix="x")
