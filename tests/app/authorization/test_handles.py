"""State between calls, in both eras."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from ferrule import Context, MCPServer
from ferrule.app.authorization.handles import Handles, PerPrincipal
from ferrule.app.rounds.settings import RoundsSettings
from ferrule.stores.blobs import MemoryBlobs
from tests.app.support import EVERY_REVISION, From, call, text_of

pytestmark = pytest.mark.anyio


@dataclass
class Cart:
    items: list[str]


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def app(now) -> MCPServer:
    app = MCPServer("x", mask_errors=False)
    app.lowlevel.attachments[RoundsSettings].blobs = MemoryBlobs(clock=lambda: now[0])
    carts = Handles("cart", Cart, ttl_s=60)
    others = Handles("other", Cart, ttl_s=60)
    favourites = PerPrincipal("favourites", list[str], ttl_s=60)

    @app.tool
    async def begin(ctx: Context) -> str:
        return await carts.create(ctx, Cart(["pin"]))

    @app.tool
    async def add(cart: str, item: str, ctx: Context) -> str:
        found = await carts.get(ctx, cart)
        found.items.append(item)
        await carts.put(ctx, cart, found)
        return ",".join(found.items)

    @app.tool
    async def drop(cart: str, ctx: Context) -> str:
        await carts.forget(ctx, cart)
        return "dropped"

    @app.tool
    async def confuse(cart: str, ctx: Context) -> str:
        return str(await others.get(ctx, cart))

    @app.tool
    async def like(item: str, ctx: Context) -> str:
        liked = [*(await favourites.get(ctx) or []), item]
        await favourites.put(ctx, liked)
        return ",".join(liked)

    return app


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_a_handle_works_in_every_revision(app, version):
    cart = text_of(await call(app, "begin", version=version))
    assert cart.startswith("cart_")
    assert len(cart) > 36  # at least the entropy of a UUID (2026-07-28, "Tools")
    await call(app, "add", {"cart": cart, "item": "bolt"}, version=version)
    assert text_of(await call(app, "add", {"cart": cart, "item": "nut"}, version=version)) == "pin,bolt,nut"


async def test_unknown_expired_dropped_and_foreign_handles_have_one_error(app, now):
    """Else the answer would tell an attacker which handles exist."""
    ada = From("ada")
    texts = []

    async def tried(cart: str, dispatch: Any, tool: str = "add") -> None:
        result = await call(app, tool, {"cart": cart, **({"item": "x"} if tool == "add" else {})}, dispatch=dispatch)
        assert result["isError"] is True
        texts.append(text_of(result).replace("other", "cart"))

    await tried("cart_made_up", ada)
    cart = text_of(await call(app, "begin", dispatch=ada))
    await tried(cart, From("bob"))
    await tried(cart, From(None))
    await tried(cart, ada, "confuse")
    await call(app, "drop", {"cart": cart}, dispatch=ada)
    await tried(cart, ada)
    cart = text_of(await call(app, "begin", dispatch=ada))
    now[0] = 61
    await tried(cart, ada)
    assert len(set(texts)) == 1


async def test_a_value_per_principal(app):
    assert text_of(await call(app, "like", {"item": "a"}, dispatch=From("ada"))) == "a"
    assert text_of(await call(app, "like", {"item": "b"}, dispatch=From("bob"))) == "b"
    assert text_of(await call(app, "like", {"item": "c"}, dispatch=From({"sub": "ada"}))) == "a,c"


async def test_an_anonymous_sender_has_no_value(app):
    """It raises; it never keeps one value for all strangers."""
    result = await call(app, "like", {"item": "a"})
    assert "NoSession" in text_of(result)


async def test_a_value_that_no_longer_fits_counts_as_expired(app, caplog):
    """A changed class after a deployment."""
    cart = text_of(await call(app, "begin"))
    blobs = app.lowlevel.attachments[RoundsSettings].blobs
    (key,) = blobs._blobs
    await blobs.put(key, b'{"wrong":1}', ttl_s=9)
    assert (await call(app, "add", {"cart": cart, "item": "x"}))["isError"] is True
    assert "no longer fits" in caplog.text


async def test_without_a_store_there_is_an_error():
    app = MCPServer("x", store=None, mask_errors=False)
    carts = Handles("cart", Cart, ttl_s=60)

    @app.tool
    async def begin(ctx: Context) -> str:
        return await carts.create(ctx, Cart([]))

    assert "store" in text_of(await call(app, "begin"))
