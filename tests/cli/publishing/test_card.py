"""``ferrule card``: of a file, of a URL, of a domain."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli import main
from ferrule.extensions.cards.discovery import DiscoveredServer
from ferrule.wire.codec import convert
from ferrule.wire.types.cards import ServerCard
from tests.extensions.cards.support import CARD

SERVER = "from ferrule import MCPServer\napp = MCPServer('weather', version='1.2')\n"


def card(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """Exit status, printed JSON (``None`` without) and the text for people."""
    status = main(["card", *arguments])
    out, err = capsys.readouterr()
    return status, json.loads(out) if out else None, err


@pytest.fixture
def server(tmp_path: Path) -> Path:
    path = tmp_path / "server.py"
    path.write_text(SERVER + "app.card(url='https://weather.example.com/mcp')\n")
    return path


def test_of_a_file(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What would be served, without serving it."""
    status, made, err = card(capsys, str(server))
    assert (status, err) == (0, "")
    assert made["name"] == "com.example.weather/weather"
    assert made["remotes"][0]["url"] == "https://weather.example.com/mcp"
    assert "2026-07-28" in made["remotes"][0]["supportedProtocolVersions"]
    _, other, _ = card(capsys, f"{server}:app", "--url", "https://other.example/mcp")
    assert other["remotes"][0]["url"] == "https://other.example/mcp"
    _, catalog, _ = card(capsys, str(server), "--catalog")
    assert catalog["entries"][0]["url"] == "https://weather.example.com/mcp/server-card"


def test_of_a_file_without_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ``app.card()`` would publish, and that it is missing."""
    path = tmp_path / "server.py"
    path.write_text(SERVER)
    status, made, err = card(capsys, str(path))
    assert status == 0
    assert made["remotes"][0]["url"] == "http://127.0.0.1:8000/mcp"
    assert "app.card()" in err


def test_of_a_url_and_of_a_domain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A URL without card is looked up in the catalog of its site."""
    good = DiscoveredServer("urn:air:example.com:mcp:weather", convert(CARD, ServerCard))
    bad = DiscoveredServer("urn:air:example.com:mcp:gone", None, problem="There is no card at https://example.com/x")

    async def read_card(url: str) -> DiscoveredServer | None:
        return good if url == "https://weather.example.com/mcp" else None

    async def discover(site: str) -> list[DiscoveredServer]:
        return [bad] if "bad" in site else [good, bad]

    monkeypatch.setattr("ferrule.extensions.cards.discovery.read_card", read_card)
    monkeypatch.setattr("ferrule.extensions.cards.discovery.discover", discover)
    assert card(capsys, "https://weather.example.com/mcp") == (0, CARD, "")
    for target in ("example.com", "https://example.com"):
        status, rows, _ = card(capsys, target)
        assert status == 0
        assert rows[0]["address"] == "https://weather.example.com/mcp"
        assert rows[1] == {"identifier": bad.identifier, "problem": bad.problem}
    assert card(capsys, "bad.example.com")[0] == 1


@pytest.mark.parametrize("arguments", [["nothing"], ["example.com", "--catalog"], ["https://x.example", "--url", "y"]])
def test_wrong_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert card(capsys, *arguments)[0] == 2


def test_a_site_without_catalog_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """With the reason in one sentence: here a port of this machine where nothing listens."""
    status, made, err = card(capsys, "http://127.0.0.1:9/mcp")
    assert (status, made) == (3, None)
    assert "Traceback" not in err
