"""ferrule.cli.publishing.trials: values as a host fills them in, and a server that does not start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.exits import EXIT_FAILED, EXIT_NO_CONNECTION, Quit
from ferrule.cli.publishing import trials
from ferrule.cli.publishing.trials import filled_config, host_command, start_bundle
from tests.cli.publishing.samples import PLAIN, SERVER, write
from tests.cli.publishing.test_bundles import bundle_of

OPTIONS: dict[str, Any] = {
    "key": {"type": "string", "required": True},
    "few": {"type": "number", "required": True, "min": 2.5},
    "yes": {"type": "boolean", "default": True},
    "list": {"type": "string", "default": "a,b"},
    "place": {"type": "directory", "required": True},
    "file": {"type": "file", "required": True},
    "left": {"type": "string"},
}


def test_values_as_a_host_has_them(tmp_path: Path) -> None:
    """Defaults as text, placeholders for what is required, nothing for the rest."""
    manifest: dict[str, Any] = {"user_config": OPTIONS}
    values = filled_config(manifest, {"list": "c"}, tmp_path)
    place, file = values.pop("place"), values.pop("file")
    assert values == {"key": "placeholder", "few": "2.5", "yes": "true", "list": "c"}
    assert (Path(place).is_dir(), Path(file).is_file()) == (True, True)


def test_the_command_of_a_host(tmp_path: Path) -> None:
    """What the user did not give stays as it is: so hosts leave it, and declared settings understand it."""
    start = {
        "command": "${HOME}/uv",
        "args": ["run", "${__dirname}${/}x", "${user_config.a}"],
        "env": {"A": "<${user_config.a}>", "B": "${user_config.b}"},
        "platform_overrides": {sys.platform: {"command": "uv"}, "other": {"command": "x"}},
    }
    command, environment = host_command({"server": {"mcp_config": start}}, tmp_path, {"a": "1"})
    assert command == ["uv", "run", f"{tmp_path}{os.sep}x", "1"]
    assert environment == {"A": "<1>", "B": "${user_config.b}"}


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Nothing is installed: the server starts with the Python of the tests. The commands that would have installed."""
    ran: list[list[str]] = []
    monkeypatch.setattr(trials, "_uv", lambda: None)
    monkeypatch.setattr(trials, "_run", lambda command, folder: ran.append(command))
    monkeypatch.setattr(trials, "_python_of", lambda environment: sys.executable)
    return ran


def test_a_started_server_is_asked_for_its_tools(tmp_path: Path, here: list[list[str]]) -> None:
    """With the placeholder of its key, and its default values."""
    started = start_bundle(bundle_of(write(tmp_path, {"server.py": SERVER}) / "server.py"), {})
    assert (started.name, started.tools, started.installer) == ("weather", ("forecast",), "pip")
    assert [command[-1].partition(">")[0] for command in here][1:] == ["ferrule"]


def test_a_server_that_does_not_start_is_quoted_without_its_secrets(tmp_path: Path, here: list[list[str]]) -> None:
    """What the author must see is on its stderr."""
    source = SERVER.replace(
        '"""The weather."""', "import os, sys\nprint(os.environ.get('WEATHER_API_KEY'), file=sys.stderr)"
    )
    bundle = bundle_of(write(tmp_path, {"server.py": source}) / "server.py")
    with pytest.raises(Quit, match="WEATHER_DAYS is wrong") as failed:
        start_bundle(bundle, {"days": "99", "api_key": "real-key"})
    assert failed.value.status == EXIT_NO_CONNECTION
    assert "real-key" not in str(failed.value)


def test_what_the_host_does_not_have_is_missing_here_too(
    tmp_path: Path, here: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the variables of this shell nor the files beside the packed ones."""
    monkeypatch.setenv("ONLY_HERE", "1")
    for line in ("import os; os.environ['ONLY_HERE']", "open(__file__.replace('server.py', 'beside.txt')).close()"):
        write(tmp_path, {"server.py": f"{PLAIN}\n{line}\n", "beside.txt": ""})
        bundle = bundle_of(tmp_path / "server.py")
        with pytest.raises(Quit, match=r"KeyError|FileNotFoundError"):
            start_bundle(bundle, {})


def test_an_environment_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last lines of the installer."""
    program = "import sys; sys.exit('no such package')"
    with pytest.raises(Quit, match="could not be made:\n  no such package") as failed:
        trials._run([sys.executable, "-c", program], tmp_path)  # pyright: ignore[reportPrivateUsage]
    assert failed.value.status == EXIT_FAILED
    with pytest.raises(Quit, match="could not be made"):
        trials._run([str(tmp_path / "nothing")], tmp_path)  # pyright: ignore[reportPrivateUsage]

    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("uv", 900)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(Quit, match="within 900 s"):
        trials._run(["uv"], tmp_path)  # pyright: ignore[reportPrivateUsage]


def test_uv_installs_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As hosts do it; the server is then started by it, too."""
    ran: list[list[str]] = []
    monkeypatch.setattr(trials, "_uv", lambda: "/opt/uv")
    monkeypatch.setattr(trials, "_run", lambda command, folder: ran.append(command))
    assert trials._install(tmp_path) == "uv"  # pyright: ignore[reportPrivateUsage]
    assert ran == [["/opt/uv", "sync", "--no-dev", "--directory", str(tmp_path)]]
    command = ["uv", "run", "--no-dev", "--directory", "D", "server.py"]
    runnable = trials._runnable  # pyright: ignore[reportPrivateUsage]
    assert runnable(command, tmp_path, "uv") == ["/opt/uv", *command[1:]]
    assert runnable(["node", "x.js"], tmp_path, "pip") == ["node", "x.js"]
    assert runnable(command, tmp_path, "pip")[1:] == ["server.py"]
    with pytest.raises(Quit, match="uv is needed"):
        runnable(["uv", "tool", "run", "x"], tmp_path, "pip")
