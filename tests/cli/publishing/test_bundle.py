"""``ferrule bundle``: as a command, with npm's own validator and in an empty environment."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule import Client, StdioServer
from ferrule.cli import main
from ferrule.cli.publishing import trials
from ferrule.cli.publishing.trials import StartedBundle
from tests.cli.publishing.samples import PLAIN, PNG, PYPROJECT, SERVER, write
from tests.wheels import make_wheel

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "bundle"


def bundle(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr."""
    status = main(["bundle", *arguments])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write(tmp_path, {"server.py": SERVER}))
    return tmp_path


def test_without_a_start(server: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path on stdout, for scripts; that nothing was tried on stderr."""
    status, out, err = bundle(capsys, "server.py", "--author", "Ada", "--no-start")
    assert (status, out) == (0, "weather-1.2.0.mcpb\n")
    assert "not tried" in err
    with zipfile.ZipFile(server / "weather-1.2.0.mcpb") as archive:
        assert json.loads(archive.read("manifest.json"))["name"] == "weather"
    first = (server / "weather-1.2.0.mcpb").read_bytes()
    assert bundle(capsys, "server.py", "--author", "Ada", "--no-start", "-o", "out/b.mcpb")[0] == 0
    assert (server / "out" / "b.mcpb").read_bytes() == first


def test_it_is_tried_before_it_is_written(
    server: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that does not work is no file; tools that exist only when it runs are said to the host."""
    given: dict[str, str] = {}

    def start(made: Any, values: dict[str, str]) -> StartedBundle:
        given.update(values)
        return StartedBundle(name="weather", tools=tuple(values["api_key"].split()), installer="uv")

    monkeypatch.setattr(trials, "start_bundle", start)
    status, out, err = bundle(capsys, "server.py", "--author", "Ada", "--set", "api_key=other")
    assert (status, out) == (1, "")
    assert "does not list forecast" in err
    assert list(server.glob("*.mcpb")) == []
    monkeypatch.setenv("WEATHER_API_KEY", "forecast other")
    status, _, err = bundle(capsys, "server.py", "--author", "Ada", "--set", "api_key")
    assert (status, "(other): tools_generated is set" in err) == (0, True)
    with zipfile.ZipFile(server / "weather-1.2.0.mcpb") as archive:
        assert json.loads(archive.read("manifest.json"))["tools_generated"] is True
        assert all(b"forecast other" not in archive.read(name) for name in archive.namelist())


def test_the_example(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The folder that the page shows."""
    made = tmp_path / "notes.mcpb"
    assert bundle(capsys, str(EXAMPLE), "--no-start", "-o", str(made))[0] == 0
    with zipfile.ZipFile(made) as archive:
        names = archive.namelist()
        manifest = json.loads(archive.read("manifest.json"))
    assert names == ["manifest.json", ".python-version", "README.md", "pyproject.toml", "server.py"]
    assert manifest["user_config"]["folder"]["type"] == "directory"
    assert manifest["server"]["mcp_config"]["env"]["NOTES_FOLDER"] == "${user_config.folder}"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["other.py"], "no file or folder"),
        (["server.py", "--author", "Ada", "--set", "api_key"], "WEATHER_API_KEY is not set here"),
        (["server.py", "--author", "Ada", "--set", "key=x"], "no setting 'key'; it has api_key"),
        (["server.py", "--author", "Ada", "--with", "no.whl"], "no wheel"),
        (["server.py", "--author", "Ada", "--with", "../ferrule"], "uv build"),
        (["server.py", "--author", "<ada@example.com>"], "is no author"),
        (["server.py"], "--author"),
    ],
)
@pytest.mark.usefixtures("server")
def test_wrong_usage(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is installed, and nothing is written."""
    monkeypatch.delenv("WEATHER_API_KEY", raising=False)
    status, out, err = bundle(capsys, *arguments)
    assert (status, out) == (2, "")
    assert said in err


def validate(program: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run npm's ``mcpb validate`` on the manifest in a folder."""
    command = [*program, "validate", str(folder / "manifest.json")]
    return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=100, cwd=folder)


@pytest.mark.slow
@pytest.mark.peer
def test_npm_accepts_it_and_it_works_in_an_empty_environment(
    tmp_path: Path, peer_mcpb: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a person who installs it has: the file, a key, and an environment that is made of its requirements."""
    monkeypatch.delenv("WEATHER_API_KEY", raising=False)
    files: dict[str, str | bytes] = {
        "pyproject.toml": PYPROJECT.replace("[auth]", "").replace(', "httpx"', ""), "README.md": "",
        "src/parcel_two/__init__.py": "", "src/parcel_two/words.py": "RAIN = 'days of rain'\n", "icon.png": PNG,
        "src/parcel_two/server.py": SERVER.replace("days of rain", "{RAIN}").replace(
            '"""The weather."""', "from .words import RAIN\n"
        ),
    }  # fmt: skip
    root = write(tmp_path / "project", files)
    wheel = make_wheel(tmp_path)
    kept = tmp_path / "kept"
    start = trials.start_bundle
    monkeypatch.setattr(trials, "start_bundle", lambda made, values: start(made, values, folder=kept))
    target, made = str(root / "src/parcel_two/server.py"), tmp_path / "made.mcpb"
    status, out, err = bundle(capsys, target, "-o", str(made), "--with", str(wheel), "--set", "api_key=k")
    assert (status, out) == (0, f"{made}\n"), err
    assert "started, 1 tool listed" in err

    manifest = json.loads((kept / "manifest.json").read_text())
    done = validate(peer_mcpb, kept)
    assert done.returncode == 0, done.stdout
    assert "Manifest schema validation passes" in done.stdout

    command, environment = trials.host_command(manifest, kept, {"api_key": "k", "days": "3"})
    python = kept / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    hosted = StdioServer(str(python), [command[-1]], env=environment, cwd=kept)

    async def call() -> None:
        async with Client(hosted, mode="legacy") as client:
            assert (await client.call_tool("forecast", {"city": "Oslo"})).text == "3 days of rain in Oslo"

    anyio.run(call)


@pytest.mark.peer
@pytest.mark.parametrize("change", [{}, {"x": 1}, {"homepage": "nowhere"}, {"version": None}, {"icon": "no.png"}])
def test_npm_and_our_check_agree(tmp_path: Path, peer_mcpb: list[str], change: dict[str, Any]) -> None:
    """Our check is our own, so that no Node is needed to make a bundle."""
    from ferrule.cli.publishing.manifest_members import check_manifest
    from tests.cli.publishing.test_bundles import bundle_of

    made = bundle_of(write(tmp_path / "p", {"pyproject.toml": PYPROJECT, "server.py": PLAIN}))
    manifest = {key: value for key, value in {**made.manifest, **change}.items() if value is not None}
    write(tmp_path, {**made.files, "manifest.json": json.dumps(manifest)})
    done = validate(peer_mcpb, tmp_path)
    assert (done.returncode == 0) == (check_manifest(manifest, made.files) == []) == (not change), done.stdout
