"""The server's half of an extension: what it declares, serves and refuses, in both eras."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from ferrule import Client, Context, MCPError, MCPServer
from ferrule.errors import MethodNotFound
from ferrule.extensions.base import Extension, ExtensionMethod, ExtensionNotification
from ferrule.kernel.server import Server, ServerRequestContext
from ferrule.protocol.caching import CacheHint
from ferrule.wire.struct import WireStruct

pytestmark = pytest.mark.anyio

ID = "com.example/weather"
ERAS = pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])


class City(WireStruct):
    """Params with one field."""

    city: str


class Weather(Extension):
    """A method for those who declare it, an open and cacheable one, and a notification."""

    identifier: ClassVar[str] = ID
    in_handshake: ClassVar[bool] = True

    def __init__(self) -> None:
        self.taken: list[str] = []

    def settings(self) -> Mapping[str, Any]:
        return {"units": "celsius"}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {
            "weather/now": ExtensionMethod(self.now, City),
            "weather/open": ExtensionMethod(self.open, needs_opt_in=False, cacheable=True),
        }

    def notifications(self) -> Mapping[str, ExtensionNotification]:
        return {"notifications/weather/moved": ExtensionNotification(self.moved, City)}

    async def now(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"city": ctx.params.city, "declared": self.client_settings(ctx)}

    async def open(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        self.require(ctx)
        return {}

    async def moved(self, ctx: ServerRequestContext[Any]) -> None:
        self.taken.append(ctx.params.city)


def server(**options: Any) -> tuple[MCPServer[Any], Weather]:
    weather = Weather()
    app: MCPServer[Any] = MCPServer("station", extensions=[weather], **options)

    @app.tool
    async def units(ctx: Context) -> str:
        found = Weather.of(ctx)
        assert found is weather
        return f"{found.is_declared(ctx)}"

    return app, weather


@ERAS
async def test_an_extension_is_announced_and_negotiated_in_both_eras(mode: str) -> None:
    """Hosts of the handshake era declare extensions in ``initialize``, and read there what the server has."""
    app, weather = server()
    async with Client(app, mode=mode, extensions={ID: {"lang": "de"}}) as client:
        assert client.server_capabilities["extensions"] == {ID: {"units": "celsius"}}
        found = await client.request("weather/now", {"city": "Basel"})
        assert (found["city"], found["declared"]) == ("Basel", {"lang": "de"})
        assert (await client.call_tool("units")).text == "True"
        await client.session.channel.notify("notifications/weather/moved", {"city": "Bern"})
        await client.session.channel.notify("notifications/weather/moved", {"town": "Bern"})
        await client.request("weather/now", {"city": "Basel"})
    assert weather.taken == ["Bern"]


async def test_an_extension_without_a_handshake_form_is_announced_to_modern_clients_only() -> None:
    """Most extensions are defined on the modern era; a legacy client must not be led to try them."""

    class Modern(Extension):
        identifier: ClassVar[str] = "com.example/modern"

    app: MCPServer[Any] = MCPServer("x", extensions=[Modern()])
    async with Client(app, mode="2025-11-25") as client:
        assert "extensions" not in client.server_capabilities


@ERAS
async def test_require_refuses_with_the_error_of_the_era(mode: str) -> None:
    """-32021 is an error of the modern era; for a legacy client there is no such method."""
    app, _ = server()
    async with Client(app, mode=mode) as client:
        assert (await client.call_tool("units")).text == "False"
        for method in ("weather/now", "weather/open"):
            with pytest.raises(MCPError) as caught:
                await client.request(method, {"city": "Basel"})
            assert caught.value.code == (-32021 if client.is_modern else MethodNotFound.default_code)


@pytest.mark.parametrize(
    ("hints", "ttl_ms"), [({}, 0), ({"*": CacheHint(7)}, 7), ({"*": CacheHint(7), "weather/open": CacheHint(9)}, 9)]
)
async def test_a_cacheable_method_has_the_hints_of_the_server(hints: dict[str, CacheHint], ttl_ms: int) -> None:
    """Cache hints are mandatory in results that extend ``CacheableResult``."""
    app, _ = server(cache_hints=hints)
    async with Client(app, extensions={ID: {}}) as client:
        assert (await client.request("weather/open"))["ttlMs"] == ttl_ms


def test_what_another_extension_takes_is_refused() -> None:
    """Two extensions with the same notification would replace each other in silence."""

    class Other(Weather):
        identifier: ClassVar[str] = "com.example/other"

        def methods(self) -> Mapping[str, ExtensionMethod]:
            return {}

    low: Server[Any] = Server("x")
    Weather().install(low)
    with pytest.raises(ValueError, match=r"notifications/weather/moved is served already"):
        Other().install(low)
    with pytest.raises(KeyError):
        Other.of(low)


def test_an_extension_is_found_by_the_class_of_its_author() -> None:
    """A program may have a subclass of it, of which the author's tools know nothing."""

    class Warmer(Weather):
        """A change of one program."""

    low: Server[Any] = Server("x")
    warmer = Warmer()
    warmer.install(low)
    assert Weather.of(low) is Warmer.of(low) is warmer
