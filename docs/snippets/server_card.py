"""A server card: published, found and compared."""

# --8<-- [start:server]
from ferrule import MCPServer

app = MCPServer("weather", version="1.2.0", title="Weather", description="Weather of the cities of the world")
app.card(name="com.example/weather", url="https://weather.example.com/mcp")
# --8<-- [end:server]

# --8<-- [start:client]
from ferrule import Client, discover


async def weather_of(site: str) -> str:
    """Call the first weather server that a site publishes."""
    for server in await discover(site):
        if server.card is not None and server.card.name.endswith("/weather"):
            async with Client(server.address()) as client:
                return client.server_info.name
    return "no weather here"


# --8<-- [end:client]

# --8<-- [start:more]
from ferrule.extensions.cards import CardHeader, CatalogEntry

maps = MCPServer("maps", version="2.0.0")
maps.card(
    url="https://example.com/maps",
    repository="https://github.com/example/maps",
    headers=[CardHeader(name="X-Api-Key", description="Key of your account", is_required=True, is_secret=True)],
    entries=[
        CatalogEntry(
            identifier="urn:air:example.com:mcp:weather",
            type="application/mcp-server-card+json",
            url="https://weather.example.com/mcp/server-card",
        )
    ],
)
# --8<-- [end:more]


async def check(mode: str) -> None:
    """In both eras: what is published, and that the live server says the same."""
    import json
    from typing import Any

    from ferrule.extensions.cards import ServerCard, differences
    from ferrule.wire.codec import decoder

    async def get(server: MCPServer[Any], path: str) -> bytes:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": path, "headers": [(b"host", b"x")], "query_string": b""}
        await server.asgi()(scope, lambda: None, send)  # type: ignore[arg-type, return-value]
        assert sent[0]["status"] == 200
        return sent[1]["body"]

    card = decoder(ServerCard)(await get(app, "/mcp/server-card"))
    assert card.name == "com.example/weather"
    async with Client(app, mode=mode) as client:
        assert client.server_info is not None
        assert differences(card, client.server_info, url="https://weather.example.com/mcp") == []
    catalog = json.loads(await get(maps, "/.well-known/ai-catalog.json"))
    assert [entry["identifier"] for entry in catalog["entries"]] == [
        "urn:air:example.com:mcp:maps",
        "urn:air:example.com:mcp:weather",
    ]
