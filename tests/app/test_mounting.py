"""Mounting: one index, the same cost at any depth, and nothing that gets lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import pytest

from ferrule import Context, Header, MCPServer
from ferrule.app.errors import RegistrationError
from ferrule.protocol.errors import InvalidParams
from tests.app.rounds.driving import Dispatch
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
