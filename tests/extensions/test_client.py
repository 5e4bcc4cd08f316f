"""The client's half of an extension: what it declares, takes and answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import pytest

from ferrule import Client, MCPServer
from ferrule.client.groups.group import ClientGroup
from ferrule.errors import ExtensionNotOffered
from ferrule.extensions.base import Extension, ExtensionMethod
from ferrule.extensions.client import ClientExtension
from ferrule.kernel.server import ServerRequestContext

pytestmark = pytest.mark.anyio

ID = "com.example/weather"
MOVED = "notifications/weather/moved"
ERAS = pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])


class Weather(Extension):
    """The server's half: a result kind, a notification and a question."""

    identifier: ClassVar[str] = ID
    in_handshake: ClassVar[bool] = True

    def methods(self) -> Mapping[str, ExtensionMethod]:
        return {"weather/now": ExtensionMethod(self.now), "weather/kind": ExtensionMethod(self.kind)}

    def result_types(self) -> Iterable[str]:
        return ["forecast"]

    async def now(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        await ctx.session.notify(MOVED, {"city": "Bern"})
        if ctx.session.can_send_request:
            asked = await ctx.session.dispatch.send_raw_request("weather/where", {"of": "you"}, None)
            return {"here": asked["here"]}
        return {"here": "?"}

    async def kind(self, ctx: ServerRequestContext[Any]) -> dict[str, Any]:
        return {"resultType": "forecast", "token": 7}


class WeatherClient(ClientExtension):
    """The client's half."""

    identifier: ClassVar[str] = ID

    def __init__(self, units: str = "celsius") -> None:
        self.units = units
        self.moved: list[str] = []

    def settings(self) -> Mapping[str, Any]:
        return {"units": self.units}

    def notifications(self) -> Mapping[str, Any]:
        return {MOVED: self._moved}

    def requests(self) -> Mapping[str, Any]:
        return {"weather/where": self._where}

    def result_types(self) -> Mapping[str, Any]:
        return {"forecast": self._finish}

    def outdates(self) -> Mapping[str, Iterable[str]]:
        return {MOVED: ["resources/read"]}

    def _moved(self, params: Mapping[str, Any]) -> None:
        self.moved.append(params["city"])

    async def _where(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"here": f"{params['of']} in Basel"}

    async def _finish(self, method: str, params: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
        return {"final": result["token"], "method": method}

    async def now(self) -> Any:
        return (await self.request("weather/now"))["here"]


@ERAS
async def test_a_client_declares_answers_and_takes_what_its_extension_defines(mode: str) -> None:
    """One object holds the client's half, as one holds the server's."""
    app: MCPServer[Any] = MCPServer("station", extensions=[Weather()])
    given = WeatherClient()
    async with Client(app, mode=mode, extensions=[given]) as client:
        weather = client.extension(WeatherClient)
        weather.moved = []
        assert weather is not given
        assert weather.client is client
        assert weather.server_settings == {}
        assert await weather.now() == ("?" if client.is_modern else "you in Basel")
        assert weather.moved == ["Bern"]
        if client.is_modern:
            assert await weather.request("weather/kind") == {"final": 7, "method": "weather/kind"}


async def test_each_client_of_a_group_has_a_copy() -> None:
    """The options of a group are given to each of its clients."""
    apps = {name: MCPServer(name, extensions=[Weather()]) for name in ("a", "b")}
    async with ClientGroup(apps, extensions=[WeatherClient()]) as group:
        copies = [(await group.client(name)).extension(WeatherClient) for name in apps]
        assert copies[0] is not copies[1]
        assert [each.client.known_as for each in copies] == ["a", "b"]


async def test_a_server_without_the_extension_is_not_asked() -> None:
    """A server answers an unknown method with an error that does not say what is missing."""
    async with Client(MCPServer("plain"), extensions=[WeatherClient()]) as client:
        with pytest.raises(ExtensionNotOffered, match="does not offer the extension"):
            await client.extension(WeatherClient).now()


async def test_a_notification_outdates_cached_results() -> None:
    """What an extension says about the server's state must reach the cache, too."""
    reads: list[int] = []
    app: MCPServer[Any] = MCPServer("station", extensions=[Weather()])

    @app.resource("data://x", ttl_ms=60_000)
    def data() -> str:
        reads.append(1)
        return "x"

    async with Client(app, extensions=[WeatherClient()]) as client:
        for _ in range(2):
            await client.read_resource("data://x")
        assert len(reads) == 1
        await client.extension(WeatherClient).now()
        await client.read_resource("data://x")
        assert len(reads) == 2


def test_two_extensions_cannot_take_the_same_method() -> None:
    """The second would replace the first in silence."""

    class Other(WeatherClient):
        identifier: ClassVar[str] = "com.example/other"

    with pytest.raises(ValueError, match="forecast is taken already"):
        Client(MCPServer("x"), extensions=[WeatherClient(), Other()])


def test_a_malformed_identifier_is_refused() -> None:
    """The grammar is that of the server's half."""
    with pytest.raises(ValueError, match="is not an extension identifier"):

        class Wrong(ClientExtension):
            identifier: ClassVar[str] = "weather"


async def test_a_subclass_is_found_by_the_class_of_its_author() -> None:
    """As on the server."""

    class Warmer(WeatherClient):
        """A change of one program."""

    async with Client(MCPServer("x", extensions=[Weather()]), extensions=[Warmer()]) as client:
        assert client.extension(WeatherClient) is client.extension(Warmer)
        with pytest.raises(KeyError):
            client.extension(int)
