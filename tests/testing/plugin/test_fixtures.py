"""The pytest plugin in projects of its users: fixtures in both eras, no collision, and no cost where it is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SERVER = """\
from ferrule import MCPServer

def make():
    app = MCPServer("calculator")

    @app.tool
    def add(a: int, b: int) -> int:
        '''Add.'''
        return a + b

    return app

app = make()
"""
TESTS = """\
import pytest
from ferrule.testing import check_tools_sync

def test_add(client):
    assert client.call_tool("add", {"a": 2, "b": 40}).text == "42"

def test_schemas(client):
    assert check_tools_sync(client) > 5

def test_order(client, calls):
    client.call_tool("add", {"a": 1, "b": 1})
    calls.assert_exactly("add")

@pytest.mark.anyio
async def test_in_a_loop(async_client):
    async with async_client as client:
        assert (await client.call_tool("add", {"a": 1, "b": 1})).data == 2
"""
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
ALONE = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
"""Without the entry points of this environment, which may have the plugin already."""


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run pytest in a project with this plugin and anyio's."""
    plugins = ("-p", "ferrule.testing.plugin", "-p", "anyio.pytest_plugin")
    return subprocess.run([*PYTEST, *plugins, *options], cwd=folder, capture_output=True, text=True, env=ALONE)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a server and its tests."""
    (tmp_path / "calculator.py").write_text(SERVER, encoding="utf-8")
    (tmp_path / "test_calculator.py").write_text(TESTS, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("server", ["calculator.py:app", "calculator:make"])
def test_fixtures_in_both_eras(project: Path, server: str) -> None:
    """Beside anyio's plugin, which runs the coroutine; a function makes a server for each test."""
    (project / "pytest.ini").write_text(f"[pytest]\nferrule_server = {server}\n", encoding="utf-8")
    done = run(project)
    assert "10 passed" in done.stdout, done.stdout + done.stderr


ASKING = """\
from ferrule import Context, MCPServer

app = MCPServer("asking")

@app.tool
async def delete(ctx: Context) -> str:
    '''Delete.'''
    return "deleted" if await ctx.confirm("Delete it?") else "kept"
"""
ANSWERED = """\
import pytest

def answer(yes):
    return {"elicitation_handler": lambda params: {"confirm": yes}}

@pytest.mark.parametrize(("client_options", "said"), [(answer(True), "deleted"), (answer(False), "kept")])
def test_what_the_user_says(client, said):
    assert client.call_tool("delete").text == said

@pytest.mark.parametrize("client_options", [answer(True)])
@pytest.mark.anyio
async def test_in_a_loop(async_client):
    async with async_client as client:
        assert (await client.call_tool("delete")).text == "deleted"
"""


def test_clients_answer_questions(tmp_path: Path) -> None:
    """By an option that a test, or a fixture of the project, gives to the clients."""
    (tmp_path / "asking.py").write_text(ASKING, encoding="utf-8")
    (tmp_path / "test_asking.py").write_text(ANSWERED, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nferrule_server = asking.py:app\n", encoding="utf-8")
    done = run(tmp_path, "-k", "not trio")
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_revisions_are_chosen(project: Path) -> None:
    """In the configuration."""
    (project / "pytest.ini").write_text("[pytest]\nferrule_server = calculator.py:app\nferrule_modes = 2025-06-18\n")
    done = run(project, "-vv", "-k", "add")
    assert "test_add[2025-06-18] PASSED" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("calculator.py", "FILE:NAME"),
        ("nothing.py:app", "no file"),
        ("calculator.py:nope", "has no 'nope'"),
        ("calculator.py:MCPServer", "no server|TypeError|missing"),
        ("nothing:app", "No module"),
    ],
)
def test_a_wrong_server(project: Path, server: str, words: str) -> None:
    """The error says what to write."""
    import re

    (project / "pytest.ini").write_text(f"[pytest]\nferrule_server = {server}\n", encoding="utf-8")
    done = run(project, "-k", "add")
    assert done.returncode == 1
    assert re.search(words, done.stdout), done.stdout


def test_a_project_without_the_option_is_left_alone(tmp_path: Path) -> None:
    """Its own ``client`` and ``server`` are its own, and nothing of the library is loaded but a few modules."""
    (tmp_path / "conftest.py").write_text("import pytest\n@pytest.fixture\ndef client():\n    return 'mine'\n")
    (tmp_path / "test_x.py").write_text(
        "import pytest, sys\ndef test_mine(client):\n    assert client == 'mine'\n"
        "def test_light():\n    loaded = sorted(m for m in sys.modules if m.split('.')[0] in ('ferrule', 'msgspec'))\n"
        "    ours = [m for m in loaded if m.startswith('ferrule')]\n"
        "    assert ours == ['ferrule', 'ferrule._version', 'ferrule.testing', 'ferrule.testing.plugin'], ours\n"
        "    assert 'msgspec' not in loaded\n"
        "@pytest.mark.parametrize('name', ['server', 'async_client', 'calls', 'mcp_mode'])\n"
        "def test_no_fixture(request, name):\n"
        "    with pytest.raises(pytest.FixtureLookupError):\n        request.getfixturevalue(name)\n"
    )
    done = run(tmp_path, "-p", "no:anyio.pytest_plugin")
    assert "6 passed" in done.stdout, done.stdout + done.stderr


def test_the_entry_point_names_the_plugin(project_root: Path) -> None:
    """pytest finds it by this line in any environment with the distribution."""
    import tomllib

    found = tomllib.loads((project_root / "pyproject.toml").read_text(encoding="utf-8"))
    assert found["project"]["entry-points"]["pytest11"] == {"ferrule": "ferrule.testing.plugin"}
