"""An extension of your own."""

# --8<-- [start:code]
from collections.abc import Mapping
from typing import Any, ClassVar

from ferrule import Client, MCPServer
from ferrule.extensions.base import Extension, ExtensionMethod


class Weather(Extension):
    """One method, for clients that declare the extension."""

    identifier: ClassVar[str] = "com.example/weather"

    def settings(self) -> Mapping[str, Any]:
        return {"units": "celsius"}

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {"com.example/now": ExtensionMethod(self.now)}

    async def now(self, ctx) -> dict[str, Any]:
        return {"celsius": 21.5, "city": ctx.params["city"]}


app = MCPServer("station", extensions=[Weather()])
# --8<-- [end:code]


# --8<-- [start:client]
from ferrule.extensions.client import ClientExtension


class WeatherClient(ClientExtension):
    """Declares the extension, and calls its method."""

    identifier: ClassVar[str] = "com.example/weather"

    async def now(self, city: str) -> dict[str, Any]:
        return await self.request("com.example/now", {"city": city})


async def use(target) -> dict[str, Any]:
    async with Client(target, extensions=[WeatherClient()]) as client:
        return await client.extension(WeatherClient).now("Basel")


# --8<-- [end:client]


async def check(mode: str) -> None:
    """Declared, not declared, and added twice."""
    import pytest

    from ferrule import MCPError

    assert (await use(app))["celsius"] == 21.5
    async with Client(app, mode=mode) as client:
        if mode == "auto":
            assert client.server_capabilities["extensions"] == {"com.example/weather": {"units": "celsius"}}
            with pytest.raises(MCPError) as caught:
                await client.request("com.example/now", {"city": "Basel"})
            assert caught.value.code == -32021
    with pytest.raises(ValueError, match=r"has the extension com.example/weather already"):
        app.add_extension(Weather())
    with pytest.raises(ValueError, match="is not an extension identifier"):

        class Wrong(Extension):
            identifier: ClassVar[str] = "weather"
