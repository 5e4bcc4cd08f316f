"""State between calls."""

# --8<-- [start:handles]
from dataclasses import dataclass

from ferrule import Client, Context, Handles, MCPServer, PerPrincipal

app = MCPServer("shop")  # store="redis://…" or "sqlite:///…" where several processes serve


@dataclass
class Basket:
    items: list[str]


baskets = Handles("basket", Basket, ttl_s=3600)


@app.tool
async def open_basket(ctx: Context) -> str:
    """Open a basket. Pass the handle to `add`; it lives for an hour after its last use."""
    return await baskets.create(ctx, Basket([]))


@app.tool
async def add(basket: str, item: str, ctx: Context) -> int:
    """Put an item into a basket."""
    found = await baskets.get(ctx, basket)
    found.items.append(item)
    await baskets.put(ctx, basket, found)
    return len(found.items)


# --8<-- [end:handles]


# --8<-- [start:principal]
settings = PerPrincipal("settings", dict[str, str], ttl_s=30 * 86_400)


@app.tool
async def prefer(metal: str, ctx: Context) -> str:
    """Remember a metal for the authenticated user."""
    known = await settings.get(ctx) or {}
    await settings.put(ctx, {**known, "metal": metal})
    return f"{ctx.principal}: {metal}"


# --8<-- [end:principal]


# --8<-- [start:session]
@app.tool
async def again(ctx: Context) -> int:
    """Count the calls of one legacy session; a modern client has none."""
    ctx.session_state["calls"] = ctx.session_state.get("calls", 0) + 1
    return ctx.session_state["calls"]


# --8<-- [end:session]


async def check(mode: str) -> None:
    """In both eras, and by whom."""
    from ferrule.transports.asgi import HttpContext
    from tests.auth.support import Relay, serving

    async with Client(app, mode=mode) as client:
        handle = (await client.call_tool("open_basket")).text
        for number in (1, 2):
            assert (await client.call_tool("add", {"basket": handle, "item": "ring"})).data == number
        stolen = await client.call_tool("add", {"basket": "basket_x", "item": "ring"})
        assert stolen.text == "The basket handle is unknown or has expired; begin a new one."
        counted = [await client.call_tool("again") for _ in range(2)]
        if mode == "legacy":
            assert [done.data for done in counted] == [1, 2]
        else:
            assert all(done.is_error for done in counted)
        assert (await client.call_tool("prefer", {"metal": "brass"})).is_error  # no user is authenticated

    async def authenticate(context: HttpContext) -> str:
        return context.headers["x-user"]

    relay = Relay()
    async with serving(relay) as port:
        endpoint = relay.app = app.asgi(loopback=True, authenticate=authenticate)
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            Client(url, headers={"x-user": "ada"}, mode=mode, proxy=None) as ada,
            Client(url, headers={"x-user": "bob"}, mode=mode, proxy=None) as bob,
        ):
            assert (await ada.call_tool("prefer", {"metal": "brass"})).text == "ada: brass"
            handle = (await ada.call_tool("open_basket")).text
            assert (await bob.call_tool("add", {"basket": handle, "item": "ring"})).is_error
        await endpoint.aclose()
