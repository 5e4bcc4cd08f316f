"""ferrule.cli.hosts.places: each host finds its file, takes an entry in its own form, and gives all others back."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli import main
from ferrule.cli.hosts.formats import format_of
from ferrule.cli.hosts.places import HOSTS, read_servers
from ferrule.cli.targets import read_choice
from tests.cli.hosts.samples import OTHERS
from tests.cli.support import PROBE

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the folders of hosts differ between platforms")
HOST = pytest.mark.parametrize("host", sorted(OTHERS))
DOCS = {"command": "npx", "args": ["-y", "docs"], "env": {"TOKEN": "t"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CODEX_HOME", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def put(home: Path, host: str) -> Path:
    """The file of a person, in its place."""
    place, text = OTHERS[host]
    path = home / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert HOSTS[host].path() == path
    return path


@HOST
def test_an_entry_goes_in_and_out_and_all_other_text_stays(home: Path, host: str) -> None:
    """The command is absolute; the undo and the removal restore every byte."""
    path = put(home, host)
    before = path.read_bytes()
    assert main(["install", host, PROBE, "--env", "KEY=v"]) == 0
    text = path.read_text()
    assert [line for line in OTHERS[host][1].splitlines() if line not in text] in ([], ["    }"], [_last(host)])
    document = format_of(path).parse(text)
    entry = document[HOSTS[host].key]["probe"]
    plain = read_servers(path, HOSTS[host].key)["probe"]
    assert (plain["command"], plain["args"]) == (sys.executable, ["-m", "ferrule", "run", PROBE])
    assert plain["env"] == {"KEY": "v"}
    assert ("cmd" if host == "goose" else "command") in entry
    assert main(["install", host, PROBE, "--env", "KEY=other"]) == 0
    assert read_servers(path, HOSTS[host].key)["probe"]["env"] == {"KEY": "other"}
    assert main(["install", host, "--undo"]) == 0
    assert path.read_text() == text
    assert main(["install", host, "--remove", "--name", "probe"]) == 0
    assert format_of(path).parse(path.read_text()) == format_of(path).parse(before.decode())
    if host in ("codex", "goose"):
        assert path.read_bytes() == before
    for _ in range(2):
        assert main(["install", host, "--undo"]) == 0
    assert path.read_bytes() == before


def _last(host: str) -> str:
    """The line that gets a comma, in a JSON file whose last member has none."""
    return next((line for line in OTHERS[host][1].splitlines() if '"docs"' in line), "")


@HOST
def test_its_servers_are_targets(home: Path, host: str) -> None:
    """``ferrule list codex:docs`` starts what the host would start."""
    put(home, host)
    choice = read_choice(f"{host}:docs")
    server: Any = choice.target
    assert (server.server.command, list(server.server.args)) == ("npx", ["-y", "docs"])
    assert server.server.env == {"TOKEN": "t"}
    assert list(read_servers(HOSTS[host].path(), HOSTS[host].key)) == ["docs"]


@HOST
def test_a_server_goes_to_another_host(home: Path, host: str) -> None:
    """Without what only the first host understands."""
    put(home, host)
    for other in {"cursor", *OTHERS} - {host}:
        assert main(["install", other, f"{host}:docs"]) == 0
        found = read_servers(HOSTS[other].path(), HOSTS[other].key)["docs"]
        assert {key: found.get(key) for key in DOCS} == DOCS
    assert set(read_servers(HOSTS["cursor"].path())["docs"]) == set(DOCS)


@HOST
def test_a_url_is_spelled_as_the_host_spells_it(home: Path, host: str) -> None:
    path = put(home, host)
    assert main(["install", host, "https://tools.example/mcp", "--header", "X-Team: a", "--name", "tools"]) == 0
    headers = {"X-Team": "a"}
    common = {"url": "https://tools.example/mcp", "headers": headers}
    expected: dict[str, Any] = {
        "codex": {"url": "https://tools.example/mcp", "http_headers": headers},
        "copilot-cli": {"type": "http", **common, "tools": ["*"]},
        "zed": common,
        "lm-studio": common,
        "antigravity": {"serverUrl": "https://tools.example/mcp", "headers": headers},
        "antigravity-cli": {"serverUrl": "https://tools.example/mcp", "headers": headers},
        "goose": {
            "type": "streamable_http", "enabled": True, "name": "tools", "description": "", "timeout": 300,
            "uri": "https://tools.example/mcp", "headers": headers,
        },
    }  # fmt: skip
    assert format_of(path).parse(path.read_text())[HOSTS[host].key]["tools"] == expected[host]
    target: Any = read_choice(f"{host}:tools").target
    assert (target.url, dict(target.headers)) == ("https://tools.example/mcp", headers)


@HOST
def test_the_first_server_of_a_user(home: Path, host: str) -> None:
    """The file is made, and removed by the undo."""
    path = home / OTHERS[host][0]
    assert main(["install", host, PROBE]) == 0
    assert list(read_servers(path, HOSTS[host].key)) == ["probe"]
    assert main(["install", host, "--undo"]) == 0
    assert not path.exists()


@HOST
def test_print_shows_the_entry_and_changes_nothing(home: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(home, host)
    before = path.read_bytes()
    assert main(["install", host, PROBE, "--print"]) == 0
    shown = format_of(path).parse(capsys.readouterr().out)
    assert list(shown) == [HOSTS[host].key]
    assert list(shown[HOSTS[host].key]) == ["probe"]
    assert path.read_bytes() == before
    assert not (home / ".local").exists()  # nor the journal


@HOST
def test_a_malformed_file_is_left_alone(home: Path, host: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = put(home, host)
    path.write_text("{ [ : broken")
    assert main(["install", host, PROBE]) == 2
    assert "was left alone" in capsys.readouterr().err
    assert path.read_text() == "{ [ : broken"
    assert main(["list", f"{host}:docs"]) == 2


def test_codex_takes_no_token_in_its_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It names the variable that has one; read back, the variable is used."""
    path = put(home, "codex")
    url = "https://tools.example/mcp"
    assert main(["install", "codex", url, "--header", "Authorization: Bearer secret"]) == 2
    assert "no token in its file" in capsys.readouterr().err
    assert "secret" not in path.read_text()
    assert main(["install", "codex", url, "--header", "Authorization: Bearer ${TOOLS_TOKEN}"]) == 0
    assert 'bearer_token_env_var = "TOOLS_TOKEN"' in path.read_text()
    headers = read_servers(path, "mcp_servers")["tools"]["headers"]
    assert headers == {"Authorization": "Bearer ${TOOLS_TOKEN}"}


def test_variables_move_the_folders(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "c"))
    monkeypatch.setenv("COPILOT_HOME", str(home / "p"))
    assert HOSTS["codex"].path() == home / "c" / "config.toml"
    assert HOSTS["copilot-cli"].path() == home / "p" / "mcp-config.json"


@pytest.mark.parametrize(
    ("platform", "zed", "goose"),
    [
        ("darwin", ".config/zed/settings.json", ".config/goose/config.yaml"),
        ("win32", "AppData/Roaming/Zed/settings.json", "AppData/Roaming/Block/goose/config/config.yaml"),
    ],
)
def test_other_platforms_have_other_folders(
    home: Path, monkeypatch: pytest.MonkeyPatch, platform: str, zed: str, goose: str
) -> None:
    monkeypatch.setattr("ferrule.cli.hosts.places.sys.platform", platform)
    monkeypatch.delenv("APPDATA", raising=False)
    assert HOSTS["zed"].path() == home / zed
    assert HOSTS["goose"].path() == home / goose


def test_projects_have_files_of_their_own(tmp_path: Path) -> None:
    found = {name: HOSTS[name].path(tmp_path) for name in ("codex", "copilot-cli", "zed", "antigravity-cli")}
    assert [str(path.relative_to(tmp_path)) for path in found.values()] == [
        ".codex/config.toml", ".github/mcp.json", ".zed/settings.json", ".agents/mcp_config.json",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="no configuration per project"):
        HOSTS["goose"].path(tmp_path)
