"""A server that is ready to be given to others: its settings, its card and its package are declared in one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from ferrule import Field, MCPServer, Setting


@dataclass
class Settings:
    """What the person who installs the server is asked for."""

    api_key: Annotated[str, Setting("Key of your tide-table account", secret=True)]
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    units: Annotated[Literal["metres", "feet"], Setting("Units of the heights")] = "metres"


app = MCPServer("tides", version="1.0.0", title="Tides", description="When the sea comes and goes")
app.card(name="com.example/tides", url="https://tides.example.com/mcp")
settings = app.declare_settings(Settings, prefix="TIDES_")


@app.tool
def tides(harbour: str) -> str:
    """The high waters of the next days in a harbour."""
    value = settings.value
    return f"{value.days} days of high water in {harbour}, in {value.units}"


def main() -> None:
    """Serve over stdio: the command ``tides-mcp`` of the package."""
    app.run()


if __name__ == "__main__":
    main()
