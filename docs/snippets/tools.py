"""Tools."""

# --8<-- [start:code]
from dataclasses import dataclass
from typing import Annotated, Literal

from ferrule import Client, Field, MCPServer

app = MCPServer("places")


@dataclass
class Place:
    lat: float
    lon: float


@app.tool(annotations={"readOnlyHint": True})
def near(
    place: Place,
    radius_km: Annotated[float, Field("search radius", gt=0, le=50)] = 5,
    kind: Literal["cafe", "park"] = "cafe",
) -> list[str]:
    """Find places.

    Args:
        place: where to look.
        kind: what to look for.
    """
    return [f"{kind} at {place.lat}, {place.lon}"]


# --8<-- [end:code]


async def check(mode: str) -> None:
    """In both eras."""
    async with Client(app, mode=mode) as client:
        done = await client.call_tool("near", {"place": {"lat": 1, "lon": 2}})
        assert done.data == ["cafe at 1.0, 2.0"]
        wrong = await client.call_tool("near", {"place": {"lat": 1, "lon": 2}, "radius_km": 99})
        assert wrong.is_error
        assert "expected number <= 50" in wrong.text
