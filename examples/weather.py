"""The weather of 43 cities by month, from a file: tools with typed answers, resources, a prompt that completes.

python examples/weather.py                        shows it in both eras
python examples/weather.py stdio                  serves over stdin and stdout
python examples/weather.py http --port 8000       serves http://127.0.0.1:8000/mcp
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

from ferrule import Client, Field, MCPServer, ToolError
from ferrule.types import PromptReference

app = MCPServer("weather", version="1.0", instructions="Monthly climate normals; no forecasts.")

Month = Annotated[int, Field("1 for January to 12 for December", ge=1, le=12)]


@dataclass(frozen=True)
class Climate:
    """An average month."""

    city: str
    country: str
    month: int
    mean_c: float
    rain_mm: float


def load() -> dict[str, list[Climate]]:
    """City → its twelve months."""
    cities: dict[str, list[Climate]] = {}
    with open(Path(__file__).parent / "data" / "climate.csv", encoding="utf-8", newline="") as file:
        for city, country, month, mean_c, rain_mm in list(csv.reader(file))[1:]:
            cities.setdefault(city, []).append(Climate(city, country, int(month), float(mean_c), float(rain_mm)))
    return cities


CITIES = load()


@app.tool(annotations={"readOnlyHint": True})
async def climate(city: str, month: Month) -> Climate:
    """What the weather of a city is like in a month."""
    if city not in CITIES:  # an error that the model can correct: say how
        near = get_close_matches(city, CITIES, n=3, cutoff=0.5)
        raise ToolError(f"No data for {city!r}. {'Did you mean ' + ' or '.join(near) if near else 'Read climate://'}?")
    return CITIES[city][month - 1]


@app.tool(annotations={"readOnlyHint": True})
async def warmest(month: Month, count: Annotated[int, Field(ge=1, le=20)] = 3) -> list[Climate]:
    """The warmest cities in a month, warmest first."""
    return sorted((months[month - 1] for months in CITIES.values()), key=lambda it: -it.mean_c)[:count]


@app.resource("climate://", mime_type="text/plain")
async def cities() -> str:
    """The cities, one a line."""
    return "\n".join(CITIES)


@app.resource("climate://{city}")
async def year(city: str) -> list[Climate] | None:
    """The twelve months of a city."""
    return CITIES.get(city)


@app.prompt
async def pack(city: str, days: str = "7") -> str:
    """Ask what to take along."""
    return f"Read climate://{city} and tell me what to pack for {days} days there next month."


@app.complete(pack, "city")
async def city_names(typed: str) -> list[str]:
    """Cities that begin like this."""
    return [city for city in CITIES if city.lower().startswith(typed.lower())]


async def show(client: Client) -> None:
    """Call everything once."""
    oslo = await client.call_tool("climate", {"city": "Oslo", "month": 1}, result_type=Climate)
    print(f"  Oslo in January:  {oslo.data.mean_c} °C and {oslo.data.rain_mm} mm")
    july = await client.call_tool("warmest", {"month": 7}, result_type=list[Climate])
    print(f"  warmest in July:  {', '.join(it.city for it in july.data)}")
    print(f"  a typing mistake: {(await client.call_tool('climate', {'city': 'Tokio', 'month': 1})).text}")
    print(f"  climate://Lima:   {(await client.read_resource('climate://Lima')).contents[0].text[:60]} …")
    print(f"  cities in Mo…:    {(await client.complete(PromptReference('pack'), 'city', 'mo')).values}")


if __name__ == "__main__":
    from showing import main

    main(app, show)
