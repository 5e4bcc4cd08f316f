"""A project in a folder: server, pyproject.toml and README."""

from __future__ import annotations

from pathlib import Path

SERVER = """\
from dataclasses import dataclass
from typing import Annotated, Literal
from ferrule import MCPServer, Setting
from ferrule.types import Icon

@dataclass
class Settings:
    key: Annotated[str, Setting("Key of your account", secret=True)]
    days: Annotated[int, Setting("Days of a forecast")] = 7
    units: Literal["metric", "imperial"] = "metric"
    folder: str = ""

app = MCPServer("weather", version="1.2.0", title="Weather", description="Weather of the cities of the world")
app.declare_settings(Settings, prefix="W_")
"""
CARD = 'app.card(name="io.github.me/weather", url="https://weather.example.com/mcp")\n'
PYPROJECT = """\
[project]
name = "weather-mcp"
version = "1.2.0"
description = "A server for weather"
readme = "README.md"

[project.scripts]
weather-mcp = "server:main"

[project.urls]
Homepage = "https://weather.example.com"
"Source Code" = "https://github.com/me/weather"
"""
README = "# Weather\n\n<!-- mcp-name: io.github.me/weather -->\n"


def made_project(
    folder: Path, *, server: str = SERVER + CARD, pyproject: str | None = PYPROJECT, readme: str | None = README
) -> Path:
    """Write the files and return that of the server."""
    folder.mkdir(exist_ok=True)
    if pyproject is not None:
        (folder / "pyproject.toml").write_text(pyproject)
    if readme is not None:
        (folder / "README.md").write_text(readme)
    path = folder / "server.py"
    path.write_text(server)
    return path
