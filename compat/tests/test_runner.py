"""The command ``ferrule-compat``: files, modules, console scripts, and what it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from compat.tests.support import SERVERS, SOURCES, command
from ferrule import Client, StdioServer

ONLY_DEFINED = """
from mcp.server.fastmcp import FastMCP
import sys
mcp = FastMCP("defined")
@mcp.tool()
def arguments() -> str:
    return " ".join(sys.argv[1:])
"""


def ran(*arguments: str, path: str = SOURCES, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The runner with empty input."""
    return subprocess.run(
        command(*arguments),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path},
    )


def package_in(folder: Path, scripts: str, body: str) -> None:
    """An installed package with console scripts."""
    (folder / "weather_server.py").write_text(body)
    metadata = folder / "weather_pack-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: weather-pack\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


@pytest.mark.anyio
async def test_a_file_that_only_defines_its_server_is_served(tmp_path: Path) -> None:
    """As the old SDK's own `mcp run FILE` did; arguments reach the server."""
    file = tmp_path / "defined.py"
    file.write_text(ONLY_DEFINED)
    program, *rest = command(str(file), "--fast", "x")
    async with Client(StdioServer(program, rest, env={"PYTHONPATH": SOURCES})) as client:
        assert (await client.call_tool("arguments", {})).content[0].text == "--fast x"


@pytest.mark.anyio
async def test_a_module_is_run(tmp_path: Path) -> None:
    """`-m`, as Python's own."""
    folder = tmp_path / "pack"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "__main__.py").write_text((SERVERS / "low.py").read_text())
    program, *rest = command("-m", "pack")
    environment = {"PYTHONPATH": os.pathsep.join([str(tmp_path), SOURCES])}
    async with Client(StdioServer(program, rest, env=environment)) as client:
        assert client.server_info is not None
        assert client.server_info.name == "low"


@pytest.mark.parametrize("name", ["weather", "weather-pack"])
def test_a_console_script_is_run_by_its_name_or_that_of_its_package(tmp_path: Path, name: str) -> None:
    """It gets its own arguments; its return value is the exit status."""
    body = "import sys\ndef main():\n    import mcp.server.fastmcp\n    print(sys.argv)\n    return 3\n"
    package_in(tmp_path, "weather = weather_server:main", body)
    done = ran(name, "--port", "1", path=os.pathsep.join([str(tmp_path), SOURCES]))
    assert (done.stdout.strip(), done.returncode) == (f"['{name}', '--port', '1']", 3)


def test_several_scripts_of_a_package_and_near_names_are_told(tmp_path: Path) -> None:
    """A user rarely knows the name of the command."""
    package_in(tmp_path, "weather = weather_server:main\nclimate = weather_server:main", "")
    path = os.pathsep.join([str(tmp_path), SOURCES])
    done = ran("weather-pack", path=path)
    assert (done.returncode, "several commands: climate, weather" in done.stderr) == (2, True)
    assert "Did you mean weather?" in ran("wether", path=path).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "usage: ferrule-compat COMMAND"),
        (("no-such-server-anywhere",), "has no command 'no-such-server-anywhere'"),
        (("nowhere/server.py",), "There is no file nowhere/server.py"),
        (("-m",), "-m needs the name of a module"),
        (("--port",), "There is no option --port"),
    ],
)
def test_a_wrong_usage_says_what_is_wrong(arguments: tuple[str, ...], words: str) -> None:
    """Status 2, and nothing on stdout."""
    done = ran(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_help_and_version() -> None:
    """As of any command."""
    assert "ferrule-compat -m MODULE" in ran("--help").stderr
    assert ran("--version").stdout.startswith("ferrule-compat ")


SHOP = SERVERS.parents[2] / "docs" / "snippets" / "coming_from"


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize(
    ("file", "is_run"), [("names_before.py", True), ("names_import.py", False), ("names_after.py", False)]
)
async def test_the_columns_of_the_page_for_moving_are_the_same_server(file: str, is_run: bool, mode: str) -> None:
    """Unchanged through the runner, with its imports changed, and written for Ferrule."""
    program, *rest = command(str(SHOP / file)) if is_run else [sys.executable, str(SHOP / file)]
    async with Client(StdioServer(program, rest, env={"PYTHONPATH": SOURCES}), mode=mode) as client:
        price = next(tool for tool in await client.list_tools() if tool.name == "price")
        assert price.input_schema["required"] == ["size"]
        assert price.input_schema["properties"]["count"]["description"] == "how many"
        result = await client.call_tool("price", {"size": "S", "count": 2})
        assert json.loads(result.content[0].text or "") == {"cents": 1800}
        assert (await client.call_tool("order", {"size": "S"})).content[0].text == "S by Ada"
        assert "No size L." in ((await client.call_tool("price", {"size": "L"})).content[0].text or "")
        assert json.loads((await client.read_resource("shop://sizes")).contents[0].text or "") == ["M", "S"]
