"""ferrule.cli.publishing.manifests: what a manifest says of a server and its project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule import MCPServer
from ferrule.cli.exits import Quit
from ferrule.cli.loading import load_app
from ferrule.cli.publishing.manifest_members import check_manifest
from ferrule.cli.publishing.manifests import make_manifest, missing_and_more, python_range, semantic_version
from ferrule.cli.publishing.projects import read_project
from tests.cli.publishing.samples import PLAIN, PNG, PYPROJECT, SERVER, write


def manifest_of(root: Path, *, app: Any = None, author: str | None = None, **files: str) -> dict[str, Any]:
    """Return the manifest of a folder with server.py, or with the files that are given."""
    write(root, {"server.py": files.pop("server", SERVER), **{f"{name}.toml": text for name, text in files.items()}})
    project = read_project(str(root / "server.py"))
    app = load_app(root / "server.py", None) if app is None else app
    return make_manifest(project, app, entry_point="server.py", author=author, icon=None)


def test_all_that_a_project_says(tmp_path: Path) -> None:
    """Whole, so that a member more or less is seen."""
    assert manifest_of(tmp_path, pyproject=PYPROJECT) == {
        "manifest_version": "0.4",
        "name": "weather-mcp",
        "version": "1.3.0-rc.2",
        "description": "The weather, for models",
        "author": {"name": "Ada", "email": "ada@example.com"},
        "repository": {"type": "git", "url": "https://git.example.com/weather"},
        "homepage": "https://weather.example.com",
        "documentation": "https://weather.example.com/docs",
        "support": "https://git.example.com/weather/issues",
        "server": {
            "type": "uv",
            "entry_point": "server.py",
            "mcp_config": {
                "command": "uv",
                "args": ["run", "--no-dev", "--directory", "${__dirname}", "server.py"],
                "env": {
                    "WEATHER_API_KEY": "${user_config.api_key}",
                    "WEATHER_UNITS": "${user_config.units}",
                    "WEATHER_DAYS": "${user_config.days}",
                    "WEATHER_CITIES": "${user_config.cities}",
                    "WEATHER_CACHE": "${user_config.cache}",
                    "WEATHER_FAST": "${user_config.fast}",
                },
            },
        },
        "tools": [{"name": "forecast", "description": "The weather of the next days."}],
        "keywords": ["weather"],
        "license": "MIT",
        "compatibility": {"runtimes": {"python": ">=3.11 <4"}},
        "user_config": {
            "api_key": {
                "type": "string",
                "title": "Api key",
                "description": "Key of your account",
                "required": True,
                "sensitive": True,
            },
            "units": {
                "type": "string",
                "title": "Units",
                "description": "Units of the answers. One of: metric, imperial.",
                "required": False,
                "default": "metric",
            },
            "days": {
                "type": "number",
                "title": "Days",
                "description": "Days of a forecast",
                "required": False,
                "default": 7,
                "min": 1,
                "max": 14,
            },
            "cities": {
                "type": "string",
                "title": "Cities",
                "description": "Cities at the start. Several are separated by commas.",
                "required": False,
                "default": "Oslo,Rome",
            },
            "cache": {
                "type": "directory",
                "title": "Cache",
                "description": "Folder for downloads",
                "required": False,
            },
            "fast": {"type": "boolean", "title": "Fast", "description": "Fast", "required": False, "default": False},
        },
    }


def test_of_a_file_alone_the_server_says_it(tmp_path: Path) -> None:
    """Name, version and description of `MCPServer`; the author by an option."""
    made = manifest_of(tmp_path, author="Ada <ada@example.com>")
    assert (made["name"], made["version"], made["description"]) == ("weather", "1.2.0", "Weather of the next days")
    assert made["author"] == {"name": "Ada", "email": "ada@example.com"}
    with pytest.raises(Quit, match="--author"):
        manifest_of(tmp_path)


def test_a_plain_server_asks_for_nothing(tmp_path: Path) -> None:
    """No settings, no user_config; no version, no title."""
    made = manifest_of(tmp_path, server=PLAIN, author="Ada")
    assert "user_config" not in made
    assert made["server"]["mcp_config"]["env"] == {}
    assert (made["name"], made["version"], made["description"]) == ("plain", "0.0.0", "plain")
    assert "tools_generated" not in made


def test_tools_and_prompts_that_are_made_when_it_runs(tmp_path: Path) -> None:
    """A prompt has no text without its arguments, a search hides the tools, a low-level server lists none."""
    app = MCPServer("x", tool_search=True)
    app.tool(name="one")(lambda: "x")
    app.prompt(name="ask")(lambda: "x")
    made = manifest_of(tmp_path, app=app, author="Ada")
    assert (made["tools_generated"], made["prompts_generated"], "tools" in made) == (True, True, False)
    assert manifest_of(tmp_path, app=app.lowlevel, author="Ada")["tools_generated"] is True


def test_the_project_adds_and_replaces_members(tmp_path: Path) -> None:
    """What Ferrule cannot know: a policy, a client's version, a variable that the server reads by itself."""
    own = """
[tool.ferrule.bundle.manifest]
display_name = "Weather"
privacy_policies = ["https://weather.example.com/privacy"]
compatibility = {platforms = ["linux"]}
server.mcp_config.env = {TZ = "UTC"}
"""
    made = manifest_of(tmp_path, pyproject=PYPROJECT + own)
    assert made["display_name"] == "Weather"
    assert made["compatibility"] == {"runtimes": {"python": ">=3.11 <4"}, "platforms": ["linux"]}
    assert made["server"]["mcp_config"]["env"]["TZ"] == "UTC"
    assert made["server"]["mcp_config"]["env"]["WEATHER_DAYS"] == "${user_config.days}"


@pytest.mark.parametrize(
    ("python", "npm"),
    [
        (">=3.11", ">=3.11"),
        (">= 3.11 , < 4", ">=3.11 <4"),
        ("~=3.11", ">=3.11 <4"),
        ("~=3.11.2", ">=3.11.2 <3.12"),
        ("==3.12.*", ">=3.12 <3.13"),
        ("==3.12.1,!=3.13", "=3.12.1"),
        (">3.10,<=3.13", ">3.10 <=3.13"),
        ("", ">=3"),
    ],
)
def test_ranges_of_python(python: str, npm: str) -> None:
    """A comma makes Claude Desktop refuse the bundle."""
    assert python_range(python) == npm


@pytest.mark.parametrize(
    ("python", "semantic"),
    [
        ("1", "1.0.0"),
        ("1.2.3", "1.2.3"),
        ("1.2.3.4", "1.2.3+4"),
        ("1.2a1", "1.2.0-alpha.1"),
        ("v1.0rc2", "1.0.0-rc.2"),
        ("1.0.dev3", "1.0.0-dev.3"),
        ("1.0.post1", "1.0.0+post.1"),
        ("2026.01.05", "2026.1.5"),
        ("1.0+abc", "1.0.0+abc"),
        ("what", "what"),
    ],
)
def test_versions(python: str, semantic: str) -> None:
    """Hosts compare versions to offer an update."""
    assert semantic_version(python) == semantic


Change = Callable[[dict[str, Any]], object]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda made: made.update(licence="MIT"), "licence"),
        (lambda made: made.update(manifest_version="0.3"), "manifest_version"),
        (lambda made: made.pop("author"), "author"),
        (lambda made: made.update(homepage="weather.example.com"), "homepage"),
        (lambda made: made["author"].update(email="nobody"), "author.email"),
        (lambda made: made["server"].update(entry_point="other.py"), "'other.py' is not in the bundle"),
        (lambda made: made["server"]["mcp_config"]["args"].append("${user_config.x}"), "user_config.x"),
        (lambda made: made["user_config"]["days"].update(sensitive=True), "only a string"),
        (lambda made: made["user_config"]["cache"].update(multiple=True), "several values"),
        (lambda made: made["user_config"]["days"].update(enum=[1]), "enum"),
        (lambda made: made.update(icon="x.png"), "'x.png' is not in the bundle"),
        (lambda made: made.update(icon="server.py"), "no PNG"),
    ],
)
def test_a_wrong_manifest_is_found(tmp_path: Path, change: Change, said: str) -> None:
    """A host says only that the bundle is invalid."""
    made = manifest_of(tmp_path, pyproject=PYPROJECT)
    files = {"server.py": b"", "pyproject.toml": b"", "icon.png": PNG}
    assert check_manifest({**made, "icon": "icon.png"}, files) == []
    change(made)
    (problem,) = check_manifest(made, files)
    assert said in problem


def test_tools_are_compared() -> None:
    """In both directions."""
    assert missing_and_more({"tools": [{"name": "a"}, {"name": "b"}]}, ["b", "c"]) == (["a"], ["c"])
    assert missing_and_more({}, ["c"]) == ([], ["c"])
