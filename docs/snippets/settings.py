"""Settings of a server, declared once."""

# --8<-- [start:server]
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ferrule import Field, MCPServer, Setting


@dataclass
class Settings:
    api_key: Annotated[str, Setting("Key of your weather account", secret=True)]
    units: Annotated[Literal["metric", "imperial"], Setting("Units of the answers")] = "metric"
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    cache: Annotated[Path | None, Setting("Folder for downloads", directory=True)] = None


app = MCPServer("weather")
settings = app.declare_settings(Settings, prefix="WEATHER_")


@app.tool
def forecast(city: str) -> str:
    """The weather of the next days."""
    return f"{settings.value.days} days of rain in {city}"


# --8<-- [end:server]


# --8<-- [start:test]
async def test_forecast() -> None:
    from ferrule import Client

    with settings.use(Settings(api_key="test", days=2)):
        async with Client(app) as client:
            result = await client.call_tool("forecast", {"city": "Oslo"})
            assert result.text == "2 days of rain in Oslo"


# --8<-- [end:test]


async def check(mode: str) -> None:
    """In both eras; and what a start without the key says."""
    from ferrule import Client
    from ferrule.app.settings import DeclaredSettings
    from ferrule.errors import SettingsError

    await test_forecast()
    with settings.use(Settings(api_key="test")):
        async with Client(app, mode=mode) as client:
            assert (await client.call_tool("forecast", {"city": "Oslo"})).text == "7 days of rain in Oslo"
    problem = ""
    try:
        _ = DeclaredSettings("weather", Settings, prefix="WEATHER_", environ={"WEATHER_DAYS": "99"}).value
    except SettingsError as error:
        problem = str(error)
    assert problem.splitlines() == [
        "weather cannot start: its settings are missing or wrong",
        "- WEATHER_API_KEY is not set: Key of your weather account",
        "- WEATHER_DAYS is wrong: expected integer <= 14",
    ]
