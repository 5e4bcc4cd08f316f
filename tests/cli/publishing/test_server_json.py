"""ferrule.cli.publishing.server_json: the document that the registry gets, made of server and project."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import MCPServer
from ferrule.cli.loading import load_app
from ferrule.cli.projects import project_of
from ferrule.cli.publishing.server_json import SCHEMA, claimed_name, server_json
from ferrule.extensions.cards import CardHeader
from ferrule.types import Icon
from tests.cli.publishing import registry_schema
from tests.cli.publishing.support import PYPROJECT, SERVER, made_project

VALIDATOR = jsonschema_rs.validator_for(registry_schema.SCHEMA, validate_formats=True)


def test_a_package_with_a_url(tmp_path: Path) -> None:
    """All that server, settings, card and project say, and no secret."""
    path = made_project(tmp_path)
    assert server_json(load_app(path, None), project_of(path)) == {
        "$schema": SCHEMA,
        "name": "io.github.me/weather",
        "title": "Weather",
        "description": "Weather of the cities of the world",
        "version": "1.2.0",
        "websiteUrl": "https://weather.example.com",
        "repository": {"url": "https://github.com/me/weather", "source": "github"},
        "packages": [
            {
                "registryType": "pypi",
                "registryBaseUrl": "https://pypi.org",
                "identifier": "weather-mcp",
                "version": "1.2.0",
                "runtimeHint": "uvx",
                "transport": {"type": "stdio"},
                "environmentVariables": [
                    {
                        "name": "W_KEY", "description": "Key of your account", "isRequired": True, "isSecret": True,
                        "format": "string",
                    },
                    {
                        "name": "W_DAYS", "description": "Days of a forecast", "isRequired": False, "isSecret": False,
                        "format": "number", "default": "7",
                    },
                    {
                        "name": "W_UNITS", "description": "Units", "isRequired": False, "isSecret": False,
                        "format": "string", "default": "metric", "choices": ["metric", "imperial"],
                    },
                    {
                        "name": "W_FOLDER", "description": "Folder", "isRequired": False, "isSecret": False,
                        "format": "string", "default": "",
                    },
                ],
            }
        ],
        "remotes": [{"type": "streamable-http", "url": "https://weather.example.com/mcp"}],
    }  # fmt: skip


def test_a_server_without_a_package() -> None:
    """It is only reached by its URL."""
    app = MCPServer("maps", version="2.0", description="Maps")
    app.card(url="https://maps.example.com/mcp", headers=[CardHeader(name="X-Key", is_secret=True)])
    made = server_json(app, None)
    assert made["name"] == "com.example.maps/maps"
    assert made["remotes"] == [
        {
            "type": "streamable-http",
            "url": "https://maps.example.com/mcp",
            "headers": [{"name": "X-Key", "isSecret": True}],
        }
    ]
    assert "packages" not in made


@pytest.mark.parametrize(
    ("server", "readme", "source", "name"),
    [
        ("io.github.me/weather", "", "https://github.com/other/x", "io.github.me/weather"),
        ("weather", "mcp-name: com.example/weather", "https://github.com/other/x", "com.example/weather"),
        ("Weather", "", "https://github.com/me/x.git", "io.github.me/weather"),
        ("weather", "", "https://gitlab.com/me/x", "weather"),
    ],
)
def test_where_the_name_is_from(tmp_path: Path, server: str, readme: str, source: str, name: str) -> None:
    """The server's own, the one that the README claims, one of the repository; else none that the registry takes."""
    pyproject = PYPROJECT.replace("https://github.com/me/weather", source)
    path = made_project(tmp_path, pyproject=pyproject, readme=readme)
    project = project_of(path)
    assert server_json(MCPServer(server), project)["name"] == name
    assert claimed_name(project) == (name if readme else None)


def test_what_the_server_leaves_out_is_the_projects(tmp_path: Path) -> None:
    made = server_json(MCPServer("weather"), project_of(made_project(tmp_path)))
    assert made["description"] == "A server for weather"
    assert made["version"] == "1.2.0"
    assert "title" not in made
    assert "environmentVariables" not in made["packages"][0]


def test_a_default_that_is_secret_is_in_no_document(tmp_path: Path) -> None:
    text = SERVER.replace("secret=True)]\n", 'secret=True)] = "demo-key"\n')
    made: Any = server_json(load_app(made_project(tmp_path, server=text), None), None)
    assert "demo-key" not in str(made)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=130)
LONG_URL = f"https://{'x' * 300}"
ICONS = st.builds(
    Icon,
    st.sampled_from(
        ["https://x.example/i.png", "http://x.example/i.png", "data:image/png;base64,AA==", "https://" + "x" * 300]
    ),
    st.sampled_from([None, "image/png", "image/gif", "IMAGE/PNG"]),
    st.sampled_from([None, ["48x48"], ["any"], ["48"], []]),
    st.sampled_from([None, "light", "dark"]),
)


@given(
    title=st.none() | TEXTS, description=st.none() | TEXTS, icons=st.lists(ICONS, max_size=3), has_card=st.booleans()
)
def test_any_server_makes_a_document_that_fits_the_schema(
    title: str | None, description: str | None, icons: list[Icon], has_card: bool
) -> None:
    """What the schema does not take is shortened or left out, so that the registry does not refuse the rest."""
    app: MCPServer[Any] = MCPServer(
        "weather", title=title, description=description, icons=icons, website_url="https://x.example", version="1.2"
    )
    name = "com.example/weather"
    if has_card:
        app.card(name=name, url="https://x.example/mcp", headers=[CardHeader(name="X-Key", is_secret=True)])
    document = {**server_json(app, None), "name": name}
    VALIDATOR.validate(document)


def test_the_document_of_a_project_fits_the_schema(tmp_path: Path) -> None:
    """With a package, its settings and a URL."""
    path = made_project(tmp_path)
    VALIDATOR.validate(server_json(load_app(path, None), project_of(path)))
