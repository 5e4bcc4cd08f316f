"""Servers and projects of which the tests make bundles."""

from __future__ import annotations

import subprocess
from pathlib import Path

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8

SERVER = '''\
"""The weather."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from ferrule import Field, MCPServer, Setting

@dataclass
class Settings:
    api_key: Annotated[str, Setting("Key of your account", secret=True)]
    units: Annotated[Literal["metric", "imperial"], Setting("Units of the answers")] = "metric"
    days: Annotated[int, Setting("Days of a forecast"), Field(ge=1, le=14)] = 7
    cities: Annotated[list[str], Setting("Cities at the start")] = ("Oslo", "Rome")
    cache: Annotated[Path | None, Setting("Folder for downloads", directory=True)] = None
    fast: bool = False


app = MCPServer("weather", version="1.2", description="Weather of the next days")
settings = app.declare_settings(Settings, prefix="WEATHER_")


@app.tool
def forecast(city: str) -> str:
    """The weather of the next days.

    More about it.
    """
    return f"{settings.value.days} days of rain in {city}"


if __name__ == "__main__":
    app.run()
'''

PLAIN = """\
from ferrule import MCPServer

app = MCPServer("plain")


@app.tool
def add(a: int, b: int) -> int:
    \"\"\"Add.\"\"\"
    return a + b
"""

PYPROJECT = """\
[project]
name = "weather-mcp"
version = "1.3rc2"
description = "The weather, for models"
requires-python = ">=3.11, <4,!=3.12.1"
license = "MIT"
authors = [{name = "Ada", email = "ada@example.com"}, {name = "Eve"}]
keywords = ["weather"]
readme = "README.md"
dependencies = ["ferrule[auth]>=0.1", "httpx"]

[project.urls]
Homepage = "https://weather.example.com"
"Source Code" = "https://git.example.com/weather"
Issues = "https://git.example.com/weather/issues"
Documentation = "https://weather.example.com/docs"
"""


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    """Write files below a folder and return it."""
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def add_to_git(root: Path, *paths: str) -> None:
    """Make a repository in which git tracks these paths."""
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    subprocess.run(["git", "-C", str(root), "add", "-f", *paths], check=True)
