"""Results with types."""

# --8<-- [start:server]
from dataclasses import dataclass

from ferrule import Client, MCPServer

app = MCPServer("weather")


@dataclass
class Report:
    city: str
    celsius: float


@app.tool
def weather(city: str) -> Report:
    return Report(city, 21.5)


@app.tool
def cities() -> list[str]:
    return ["Basel", "Bergen"]


# --8<-- [end:server]


# --8<-- [start:client]
async def use(target) -> None:
    async with Client(target) as client:
        done = await client.call_tool("weather", {"city": "Basel"}, result_type=Report)
        report: Report = done.data  # a dataclass; msgspec, TypedDict and pydantic classes will do, too
        print(report.celsius)

        names = await client.call_tool("cities", result_type=list[str])  # unwrapped from {"result": …} in every era
        print(names.data)


# --8<-- [end:client]


# --8<-- [start:made]
async def without_classes(target) -> float:
    async with Client(target) as client:
        await client.list_tools()  # the client has seen the output schemas now
        done = await client.call_tool("weather", {"city": "Basel"})
        return done.data.celsius  # a frozen class, made once from the schema


# --8<-- [end:made]


# --8<-- [start:facade]
class Weather:
    """A facade of your own is a few lines, and type checkers see it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def weather(self, city: str) -> Report:
        """The report of one city."""
        done = await self._client.call_tool("weather", {"city": city}, result_type=Report, raise_on_error=True)
        return done.data


# --8<-- [end:facade]


async def check(mode: str) -> None:
    """In both eras."""
    import pytest

    from ferrule.errors import BadServerResponse

    await use(app)
    assert await without_classes(app) == 21.5
    async with Client(app, mode=mode) as client:
        assert await Weather(client).weather("Basel") == Report("Basel", 21.5)
        assert (await client.call_tool("cities", result_type=list[str])).data == ["Basel", "Bergen"]
        done = await client.call_tool("cities", result_type=list[int])
        with pytest.raises(BadServerResponse, match=r"The result of the tool 'cities' is not a list\[int\]"):
            _ = done.data
    async with Client(app, mode="2026-07-28") as client:
        assert (await client.call_tool("weather", {"city": "Basel"})).data == {"city": "Basel", "celsius": 21.5}
