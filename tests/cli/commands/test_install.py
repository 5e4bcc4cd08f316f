"""``ferrule install``: every host's configuration keeps what it does not concern, and every change can be undone."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.hosts.places import HOSTS, read_servers
from ferrule.protocol.jsonc import parse_jsonc
from tests.cli.hosts.samples import OTHERS
from tests.cli.support import PROBE, ferrule

CONFIGS = Path(__file__).parents[1] / "configs"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the folders of hosts differ between platforms")

PLACES = {
    "claude-desktop": ".config/Claude/claude_desktop_config.json",
    "claude-code": ".claude.json",
    "cursor": ".cursor/mcp.json",
    "vscode": ".config/Code/User/mcp.json",
    "windsurf": ".codeium/windsurf/mcp_config.json",
    "gemini-cli": ".gemini/settings.json",
}


def put(home: Path, host: str) -> tuple[Path, bytes]:
    """The sample configuration of a host, in its place."""
    sample = (CONFIGS / f"{host}.json").read_bytes()
    path = home / PLACES[host]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(sample)
    return path, sample


def install(home: Path, *arguments: str, status: int = 0) -> str:
    """Run it; what it said."""
    done = ferrule("install", *arguments, home=home)
    assert done.returncode == status, done.stderr
    return done.stdout + done.stderr


def test_every_host_of_the_table_has_a_sample() -> None:
    """A new host needs one: here, or with the formats that are tested without processes."""
    assert set(PLACES) == {path.stem for path in CONFIGS.glob("*.json")}
    assert set(PLACES) | set(OTHERS) == set(HOSTS)


@pytest.mark.parametrize("host", sorted(PLACES))
def test_a_file_goes_in_and_out_and_every_other_byte_stays(tmp_path: Path, host: str) -> None:
    """Comments, order, unknown keys, indentation, line ends and a byte order mark are the user's."""
    path, sample = put(tmp_path, host)
    key = HOSTS[host].key
    install(tmp_path, host, PROBE)
    made = path.read_bytes()
    before, after = (parse_jsonc(data.decode()) for data in (sample, made))
    entry = after[key].pop("probe")
    assert (entry["command"], entry["args"]) == (sys.executable, ["-m", "ferrule", "run", PROBE])
    assert after == before
    assert json.dumps(after) == json.dumps(before)  # order included
    kept = made.decode().splitlines(keepends=True)
    changed = [line for line in sample.decode().splitlines(keepends=True) if line not in kept]
    assert len(changed) <= 2  # the last member gets a comma; an object on one line is that line
    if b"\r\n" in sample:
        assert made.count(b"\r\n") == made.count(b"\n")
    assert read_servers(path, key)["probe"]["command"] == sys.executable
    # What was installed really starts.
    assert ferrule("call", f"{host}:probe", "add", "a=40", home=tmp_path).stdout == "42\n"
    install(tmp_path, host, "--undo")
    assert path.read_bytes() == sample


@pytest.mark.parametrize("host", sorted(PLACES))
def test_undo_after_others_have_changed_the_file_takes_back_only_its_own(tmp_path: Path, host: str) -> None:
    """A host writes its own settings into the same file all day."""
    path, sample = put(tmp_path, host)
    install(tmp_path, host, PROBE, "--name", "mine")
    text = path.read_bytes().decode()
    path.write_bytes(text.replace("{", '{"theirs": 1, ', 1).encode())
    install(tmp_path, host, "--undo", "--name", "mine")
    assert path.read_bytes().decode().replace('"theirs": 1, ', "", 1).split() == sample.decode().split()


@pytest.mark.parametrize("host", sorted(PLACES))
def test_a_url_is_spelled_as_the_host_spells_it(tmp_path: Path, host: str) -> None:
    """Or bridged, where a host starts processes only."""
    path, _ = put(tmp_path, host)
    install(tmp_path, host, "https://tools.example/mcp", "--header", "X-Team: a")
    entry: dict[str, Any] = parse_jsonc(path.read_bytes().decode())[HOSTS[host].key]["tools"]
    headers = {"headers": {"X-Team": "a"}}
    expected: dict[str, Any] = {
        "claude-code": {"type": "http", "url": "https://tools.example/mcp", **headers},
        "cursor": {"url": "https://tools.example/mcp", **headers},
        "vscode": {"type": "http", "url": "https://tools.example/mcp", **headers},
        "windsurf": {"serverUrl": "https://tools.example/mcp", **headers},
        "gemini-cli": {"httpUrl": "https://tools.example/mcp", **headers},
        "claude-desktop": {
            "command": sys.executable,
            "args": ["-m", "ferrule", "run", "https://tools.example/mcp", "--header", "X-Team: a"],
        },
    }
    assert entry == expected[host]


def test_a_dry_run_shows_the_change_and_makes_none(tmp_path: Path) -> None:
    """Neither in the configuration nor in the journal."""
    path, sample = put(tmp_path, "cursor")
    shown = install(tmp_path, "cursor", PROBE, "--dry-run")
    assert '+\t\t"probe": {' in shown
    assert path.read_bytes() == sample
    install(tmp_path, "cursor", "--undo", status=2)


def test_a_file_that_is_not_there_is_made_and_undone_again(tmp_path: Path) -> None:
    """The first server of a user."""
    path = tmp_path / PLACES["claude-desktop"]
    install(tmp_path, "claude-desktop", PROBE, "--name", "first")
    assert list(json.loads(path.read_text())["mcpServers"]) == ["first"]
    install(tmp_path, "claude-desktop", "--undo")
    assert not path.exists()


def test_what_is_already_so_is_left_alone(tmp_path: Path) -> None:
    """Twice is once, and the undo is of the first."""
    path, sample = put(tmp_path, "cursor")
    install(tmp_path, "cursor", PROBE)
    made = path.read_bytes()
    assert "nothing to change" in install(tmp_path, "cursor", PROBE)
    assert path.read_bytes() == made
    install(tmp_path, "cursor", PROBE, "--env", "KEY=1")  # another entry replaces it
    assert parse_jsonc(path.read_text())["mcpServers"]["probe"]["env"] == {"KEY": "1"}
    install(tmp_path, "cursor", "--undo")
    assert path.read_bytes() == made
    install(tmp_path, "cursor", "--undo")
    assert path.read_bytes() == sample


def test_a_server_is_removed(tmp_path: Path) -> None:
    """Also one that another program has added; the removal can be undone."""
    path, sample = put(tmp_path, "vscode")
    install(tmp_path, "vscode", "--remove", "--name", "github")
    assert list(parse_jsonc(path.read_bytes().decode())["servers"]) == ["db"]
    install(tmp_path, "vscode", "--undo")
    assert path.read_bytes() == sample


def test_a_malformed_file_is_left_alone(tmp_path: Path) -> None:
    """With the place of the mistake."""
    path, _ = put(tmp_path, "cursor")
    path.write_text('{"mcpServers": {"a": }}')
    assert "line 1, column" in install(tmp_path, "cursor", PROBE, status=2)
    assert path.read_text() == '{"mcpServers": {"a": }}'


def test_a_project_has_a_configuration_of_its_own(tmp_path: Path) -> None:
    """Which can be kept with the source."""
    install(tmp_path, "vscode", PROBE, "--project", str(tmp_path / "work"))
    found = json.loads((tmp_path / "work" / ".vscode" / "mcp.json").read_text())
    assert found["servers"]["probe"]["type"] == "stdio"
    assert "no configuration per project" in install(tmp_path, "windsurf", PROBE, "--project", status=2)


def test_any_file_with_the_common_form_will_do(tmp_path: Path) -> None:
    """For hosts that are not in the table."""
    install(tmp_path, "json", PROBE, "--file", str(tmp_path / "mcp.json"))
    assert ferrule("call", str(tmp_path / "mcp.json"), "add", "a=1", home=tmp_path).stdout == "3\n"
    assert "json needs --file" in install(tmp_path, "json", PROBE, status=2)


def test_a_server_goes_from_one_host_to_another(tmp_path: Path) -> None:
    """``ferrule install vscode cursor:weather`` keeps command, arguments and environment."""
    put(tmp_path, "cursor")
    os.environ["WEATHER_KEY"] = "k"
    try:
        install(tmp_path, "vscode", "cursor:weather")
    finally:
        del os.environ["WEATHER_KEY"]
    found = json.loads((tmp_path / PLACES["vscode"]).read_text())["servers"]["weather"]
    assert found == {"type": "stdio", "command": "uvx", "args": ["weather"], "env": {"KEY": "${env:WEATHER_KEY}"}}


def test_links_and_permissions_survive_and_the_journal_is_private(tmp_path: Path) -> None:
    """People keep their configuration in a repository and link it."""
    real = tmp_path / "dotfiles" / "cursor.json"
    real.parent.mkdir()
    real.write_bytes((CONFIGS / "cursor.json").read_bytes())
    real.chmod(0o640)
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").symlink_to(real)
    install(tmp_path, "cursor", PROBE)
    assert (tmp_path / ".cursor" / "mcp.json").is_symlink()
    assert b"probe" in real.read_bytes()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    journal = tmp_path / ".local" / "state" / "ferrule" / "installs.json"
    assert stat.S_IMODE(journal.stat().st_mode) == 0o600


def test_a_server_of_the_old_sdk_is_installed_with_its_runner(tmp_path: Path) -> None:
    """``--compat PACKAGE``: uvx installs the server and ferrule-compat, and runs its command."""
    shown = install(tmp_path, "cursor", "--compat", "mcp-dice==0.1.2", "--print")
    assert '"mcp-dice": {' in shown
    start = ["--from", "mcp-dice==0.1.2", "--with", "ferrule-compat", "ferrule-compat"]
    path = tmp_path / ".cursor" / "mcp.json"
    install(tmp_path, "cursor", "--compat", "mcp-dice==0.1.2")
    entry = json.loads(path.read_text())["mcpServers"]["mcp-dice"]
    assert Path(entry["command"]).name == "uvx"
    assert entry["args"] == [*start, "mcp-dice"]
    install(tmp_path, "cursor", "--compat", "mcp-dice==0.1.2", "dice-script --sides '6 8'", "--name", "dice")
    entry = json.loads(path.read_text())["mcpServers"]["dice"]
    assert entry["args"] == [*start, "dice-script", "--sides", "6 8"]
