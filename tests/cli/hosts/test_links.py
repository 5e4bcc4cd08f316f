"""ferrule.cli.hosts.links: links that hosts understand, without any value of a secret."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from ferrule.cli import main


def links(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[dict[str, str], dict[str, Any]]:
    """The links by host, and the common entry for other hosts."""
    assert main(["install", "--links", *arguments]) == 0
    text = capsys.readouterr().out
    found = dict(re.findall(r"^\[!\[(.*?)\]\(https://\S+?\)\]\((https://\S+)\)$", text, re.MULTILINE))
    return found, json.loads(text.partition("```json")[2].partition("```")[0])["mcpServers"]


def fields(link: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(link).query).items()}


def unpacked(link: str) -> Any:
    return json.loads(base64.b64decode(fields(link)["config"]))


def test_a_command_with_a_secret(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host gets its own placeholder; the value of this shell is nowhere."""
    monkeypatch.setenv("WEATHER_KEY", "the-value")
    found, common = links(capsys, "uvx weather-mcp --fast", "--env", "WEATHER_KEY", "--name", "weather & co")
    assert list(found) == ["Add to Cursor", "Install in VS Code", "Install in Goose", "Add to LM Studio"]
    started = {"command": "uvx", "args": ["weather-mcp", "--fast"]}
    cursor, code, goose, studio = found.values()
    assert fields(cursor)["name"] == "weather & co"
    assert unpacked(cursor) == {**started, "env": {"WEATHER_KEY": "${env:WEATHER_KEY}"}}
    assert unpacked(studio) == {**started, "env": {"WEATHER_KEY": "<WEATHER_KEY>"}}
    assert json.loads(fields(code)["config"]) == {
        "type": "stdio", **started, "env": {"WEATHER_KEY": "${input:WEATHER_KEY}"},
    }  # fmt: skip
    assert json.loads(fields(code)["inputs"]) == [
        {"type": "promptString", "id": "WEATHER_KEY", "description": "WEATHER_KEY", "password": True}
    ]
    assert parse_qsl(urlsplit(goose).query) == [
        ("cmd", "uvx"), ("arg", "weather-mcp"), ("arg", "--fast"), ("env", "WEATHER_KEY=WEATHER_KEY"),
        ("id", "weather & co"), ("name", "weather & co"), ("description", "weather & co"),
    ]  # fmt: skip
    assert common == {"weather & co": {**started, "env": {"WEATHER_KEY": "<WEATHER_KEY>"}}}
    assert "the-value" not in json.dumps([found, common])


def test_a_url_with_a_token(capsys: pytest.CaptureFixture[str]) -> None:
    url = "https://tools.example/mcp"
    found, _ = links(capsys, url, "--header", "Authorization: Bearer ${TOOLS_TOKEN}", "--header", "X-Region: eu")
    cursor, code, goose, studio = found.values()
    region = {"X-Region": "eu"}
    assert unpacked(cursor) == {"url": url, "headers": {"Authorization": "Bearer ${env:TOOLS_TOKEN}", **region}}
    assert unpacked(studio)["headers"] == {"Authorization": "Bearer <TOOLS_TOKEN>", **region}
    assert json.loads(fields(code)["config"])["headers"]["Authorization"] == "Bearer ${input:TOOLS_TOKEN}"
    assert [each["id"] for each in json.loads(fields(code)["inputs"])] == ["TOOLS_TOKEN"]
    assert dict(parse_qsl(urlsplit(goose).query))["type"] == "streamable_http"


def test_a_file_stands_for_the_command_of_its_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A path of this machine is of no use elsewhere; required settings are asked for with their descriptions."""
    (tmp_path / "pyproject.toml").write_text(
        "[project]\nname = 'weather-mcp'\ndescription = 'Weather'\nscripts = {weather = 'server:main'}\n"
    )
    (tmp_path / "server.py").write_text(
        "from dataclasses import dataclass\nfrom typing import Annotated\nfrom ferrule import MCPServer, Setting\n"
        "@dataclass\nclass Settings:\n"
        "    key: Annotated[str, Setting('Key of your account', secret=True)]\n"
        "    city: Annotated[str, Setting('Where you live')]\n"
        "    days: int = 7\n"
        "app = MCPServer('weather')\napp.declare_settings(Settings, prefix='W_')\n"
    )
    found, common = links(capsys, str(tmp_path / "server.py"))
    started = {"command": "uvx", "args": ["--from", "weather-mcp", "weather"]}
    assert common == {"weather-mcp": {**started, "env": {"W_KEY": "<W_KEY>", "W_CITY": "<W_CITY>"}}}
    inputs = json.loads(fields(found["Install in VS Code"])["inputs"])
    assert [(each["description"], each["password"]) for each in inputs] == [
        ("Key of your account", True),
        ("Where you live", False),
    ]  # fmt: skip
    assert str(tmp_path) not in json.dumps([found, common])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["uvx x", "--env", "KEY=value"], "hold no values: write --env KEY"),
        (["https://x.example/mcp", "--header", "Authorization: Bearer abc"], "holds a value"),
        (["https://x.example/mcp", "--header", "X-Api-Key: abc"], "holds a value"),
        (["https://x.example/mcp?api_key=abc"], "the URL holds a secret"),
        (["https://me:pass@x.example/mcp"], "holds"),
        (["uvx x --token abc"], "--token holds a value"),
        (["uvx x --api-key=abc"], "--api-key holds a value"),
        (["uvx x", "more"], "takes the server alone"),
    ],
)
def test_a_value_does_not_get_into_a_link(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "--links", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert words in " ".join(found.err.split())


def test_a_file_without_a_project_needs_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "server.py"
    path.write_text("from ferrule import MCPServer\napp = MCPServer('s')\n")
    assert main(["install", "--links", str(path)]) == 2
    assert "uvx weather-mcp" in " ".join(capsys.readouterr().err.split())
