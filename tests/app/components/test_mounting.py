"""Mounting: one index, the same cost at any depth, and nothing that gets lost on the way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Annotated, Any

import pytest

from ferrule import Context, Header, MCPServer, proxy
from ferrule.app.errors import RegistrationError
from ferrule.kernel.changes.bus import ListenFilter
from ferrule.protocol.errors import InvalidParams
from ferrule.protocol.inbound import MirroredHeaders
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
    """A middleware that records the requests, with their server and their lifespan state."""

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
    """Middleware gets the read of the resource, and the function keeps its own request."""
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
    assert list(app.lowlevel.attachments.made(MirroredHeaders).params) == ["in_where"]
    inner.remove_tool("where")
    assert app.lowlevel.attachments.made(MirroredHeaders).params == {}


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


def nested(depth: int) -> tuple[MCPServer, MCPServer, str]:
    """A guest at this depth, its outermost host, and the prefix that its names have there."""
    guest = host = shop()
    names: list[str] = []
    for level in range(depth):
        host, inner = MCPServer(f"host {level}"), host
        host.mount(inner, prefix=f"l{level}")
        names.insert(0, f"l{level}")
    return guest, host, "_".join(names)


def names_of(app: MCPServer) -> list[str]:
    return [tool.name for tool in app.list_tools()]


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_component_that_the_parent_disabled_stays_hidden(depth: int):
    """By name and by tag: added, removed, disabled and enabled again, the component comes back hidden."""
    for by_name in (True, False):
        guest, host, prefix = nested(depth)
        hidden = f"{prefix}_order"
        if by_name:
            host.disable(tool=hidden)
        else:
            host.disable(tag="buying")
        guest.add_tool(lambda: "x", name="more")
        guest.disable(tool="order")
        guest.enable(tool="order")
        assert names_of(host) == [f"{prefix}_more"]
        with pytest.raises(InvalidParams):
            await call(host, hidden, {"product": "x"})
        guest.remove_tool("order")

        async def order(product: str) -> str:
            return product

        guest.add_tool(order, tags=["buying"])
        assert hidden not in names_of(host)
        if by_name:
            host.enable(tool=hidden)
        else:
            host.enable(tag="buying")
        assert text_of(await call(host, hidden, {"product": "x"})) == "x"


async def test_what_the_guest_disabled_the_host_cannot_show():
    """Each server on the way decides for itself; the component is shown where all of them show it."""
    guest, host, prefix = nested(2)
    guest.disable(tool="order")
    host.enable(tool=f"{prefix}_order")
    assert names_of(host) == []
    host.disable(tool=f"{prefix}_order")
    guest.enable(tool="order")
    assert names_of(host) == []
    host.enable(tool=f"{prefix}_order")
    assert names_of(host) == [f"{prefix}_order"]


def test_a_tag_that_the_host_disabled_hides_what_a_guest_adds_later():
    """For every kind of component."""
    guest, host, prefix = nested(1)
    host.disable(tag="beta")
    guest.add_tool(lambda: "x", name="t", tags=["beta"])
    guest.add_prompt(lambda: "x", name="p", tags=["beta"])
    guest.add_resource("data://new", lambda: "x", tags=["beta"])
    guest.add_resource("new://{x}", lambda x: x, tags=["beta"])
    assert names_of(host) == [f"{prefix}_order"]
    assert [prompt.name for prompt in host.list_prompts()] == [f"{prefix}_thanks"]
    assert len(host.list_resources()) == len(host.list_resource_templates()) == 1


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_what_the_host_removed_stays_away_and_other_changes_go_on(depth: int):
    """Also after the mounted server registers it again; removing it in the parent does not change that server."""
    guest, host, prefix = nested(depth)
    host.remove_tool(f"{prefix}_order")
    guest.add_tool(lambda: "x", name="more")
    guest.remove_tool("order")
    guest.add_tool(lambda: "y", name="order")
    guest.disable(tool="more")
    guest.enable(tool="more")
    assert names_of(host) == [f"{prefix}_more"]
    assert names_of(guest) == ["more", "order"]
    host.add_tool(lambda: "z", name=f"{prefix}_order")
    guest.remove_tool("order")
    assert text_of(await call(host, f"{prefix}_order", {})) == "z"


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_clash_that_arises_later_is_refused_whole_and_other_changes_go_on(depth: int):
    """The name is taken in the host: the guest does not get it either, nor does another host of the guest."""
    guest, host, prefix = nested(depth)
    other = MCPServer("other")
    other.mount(guest, prefix="o")
    host.add_tool(lambda: "x", name=f"{prefix}_taken")
    host.add_prompt(lambda: "x", name=f"{prefix}_taken")
    for add in (guest.add_tool, guest.add_prompt):
        with pytest.raises(RegistrationError, match=f"{prefix}_taken"):
            add(lambda: "y", name="taken")
    guest.add_tool(lambda: "y", name="free")
    assert names_of(guest) == ["order", "free"]
    assert names_of(other) == ["o_order", "o_free"]
    assert names_of(host) == [f"{prefix}_order", f"{prefix}_taken", f"{prefix}_free"]
    assert [prompt.name for prompt in guest.list_prompts()] == ["thanks"]


def test_names_that_collide_after_prefixing_are_refused_before_anything_is_mounted():
    """Of every kind; ``a`` with ``b_t`` and ``a_b`` with ``t`` make one name."""
    for kind in range(4):
        host, one, two = MCPServer("host"), MCPServer("one"), MCPServer("two")
        two.add_tool(lambda: "x", name="before")
        if kind < 2:
            for app, name in ((one, "b_t"), (two, "t")):
                (app.add_tool, app.add_prompt)[kind](lambda: "x", name=name)
            host.mount(one, prefix="a")
            with pytest.raises(RegistrationError, match="a_b_t"):
                host.mount(two, prefix="a_b")
        else:
            for app in (one, two):
                if kind == 2:
                    app.add_resource("data://x", lambda: "x")
                else:
                    app.add_resource("data://{x}", lambda x: x)
            host.mount(one, prefix="a")
            with pytest.raises(RegistrationError, match="data://a/"):
                host.mount(two, prefix="a")
        assert not any(tool.name.endswith("before") for tool in host.list_tools())
        two.add_tool(lambda: "x", name="after")
        assert not any(tool.name.endswith("after") for tool in host.list_tools())


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
async def test_updates_of_a_guests_resources_reach_the_hosts_subscribers(depth: int, mode: str):
    """Under the parent's URI, published by the mounted server or by one of its functions."""
    from ferrule import Client

    guest, host, prefix = nested(depth)

    @guest.tool
    async def restock(ctx: Context) -> str:
        await ctx.notify_resource_updated("data://stock")
        return ctx.app.name

    uri = f"data://{prefix.replace('_', '/')}/stock"
    async with Client(host, mode=mode) as client:
        assert uri in [str(resource.uri) for resource in await client.list_resources()]
        async with client.listen(uris=[uri]) as changes:
            guest.notify_resource_updated("data://stock")
            assert (await anext(changes)).uri == uri
            assert (await client.call_tool(f"{prefix}_restock")).text == "shop"
            assert (await anext(changes)).uri == uri


@pytest.mark.parametrize("depth", [1, 2, 3])
async def test_a_context_belongs_to_the_server_of_its_function(depth: int):
    """``ctx.app`` and what it uses by name are the guest's; the host's own are the host's, also from each other."""
    guest, host, prefix = nested(depth)

    @guest.tool
    async def inner(ctx: Context) -> str:
        stock = (await ctx.read_resource("data://stock")).contents[0].text
        return f"{ctx.app.name} {stock} {text_of_result(await ctx.call_tool('who'))}"

    @guest.tool
    async def who(ctx: Context) -> str:
        return ctx.app.name

    @guest.resource("who://am/i")
    async def whose(ctx: Context) -> str:
        return ctx.app.name

    @guest.prompt
    async def whose_prompt(ctx: Context) -> str:
        return ctx.app.name

    @host.tool
    async def outer(ctx: Context) -> str:
        used = text_of_result(await ctx.call_tool(f"{prefix}_who"))
        return f"{ctx.app.name} {used} {ctx.app.name}"

    def text_of_result(result: Any) -> str:
        return result.content[0].text

    assert text_of(await call(host, f"{prefix}_inner", {})) == "shop all shop"
    assert text_of(await call(host, "outer", {})) == f"{host.name} shop {host.name}"
    assert text_of(await call(guest, "who", {})) == "shop"
    path = prefix.replace("_", "/")
    assert (await ask(host, "resources/read", {"uri": f"who://{path}/am/i"}))["contents"][0]["text"] == "shop"
    got = await ask(host, "prompts/get", {"name": f"{prefix}_whose_prompt", "arguments": {}})
    assert got["messages"][0]["content"]["text"] == "shop"


async def test_a_list_that_is_being_read_may_lose_its_members():
    """The next page begins at the right place after members were removed or hidden."""
    guest = MCPServer("many")
    for number in range(30):
        guest.add_tool(lambda: "x", name=f"t{number:02}")
    host = MCPServer("host", page_size=10)
    host.mount(guest, prefix="m")
    first = await ask(host, "tools/list")
    for number in (3, 9, 10, 11):
        guest.remove_tool(f"t{number:02}")
    guest.disable(tool="t12")
    second = await ask(host, "tools/list", {"cursor": first["nextCursor"]})
    assert [tool["name"] for tool in second["tools"]] == [f"m_t{number}" for number in range(13, 23)]


async def test_an_update_in_a_mounted_server_matches_every_spelling():
    """The host's subscriber escapes what the guest's author wrote."""
    guest, host = MCPServer("guest"), MCPServer("host")
    guest.resource("data://café menu")(lambda: "x")
    host.mount(guest, prefix="shop")
    with host.lowlevel.bus.listen(ListenFilter(uris=["data://shop/caf%C3%A9%20menu"])) as heard:
        guest.notify_resource_updated("data://café menu")
        assert [event.params["uri"] for event in heard.drain()] == ["data://shop/café menu"]


def test_only_what_has_components_can_be_mounted() -> None:
    """A proxy and a low-level server have none, and the error names the alternative."""
    host: MCPServer[None] = MCPServer("host")
    guest: Any
    for guest in (proxy(shop()), shop().lowlevel):
        with pytest.raises(RegistrationError, match="Only an MCPServer can be mounted, not a Server"):
            host.mount(guest)
    assert not host.mounts
