"""The command line as a whole: its start, its help, its exit statuses, its completion."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from ferrule.cli.exits import explain
from ferrule.cli.program import COMMANDS, load_command, program
from tests.cli.support import PROBE, environment, ferrule

MAX_MODULES = 140

_PROGRAM = """
import json, sys
from ferrule.cli import main
main(["--help"])
print("\\n" + json.dumps(sorted(sys.modules)))
"""


def test_help_is_quick_because_it_loads_little() -> None:
    """A command line is typed: 0.04 s of CPU on two cores with these modules, which are counted instead of seconds."""
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert len(modules) <= MAX_MODULES
    assert not {m for m in modules if m.startswith(("ferrule.cli.commands.", "ferrule.cli.publishing."))}
    assert not modules & {"msgspec", "anyio", "asyncio", "rich", "aiohttp", "uvicorn", "ferrule.client"}


_COMMAND = """
import json, sys
from ferrule.cli import main
status = main(sys.argv[1:])
print("\\n" + json.dumps([status, sorted(sys.modules)]))
"""


@pytest.mark.parametrize(
    ("arguments", "most"), [(("list", PROBE), 405), (("call", PROBE, "add", "a=1"), 425)], ids=["list", "call"]
)
def test_a_query_loads_little(arguments: tuple[str, ...], most: int, tmp_path: Path) -> None:
    """With the server 0.45 s of CPU on two cores: the modules of this process are half of it, and counted here."""
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND, *arguments], capture_output=True, text=True, check=True, env=environment()
    )
    status, modules = json.loads(done.stdout.splitlines()[-1])
    assert status == 0
    assert len(modules) <= most
    # HTTP, the server's side, tables for terminals, and what only a mistake, a picture or a recording needs.
    unused = {"aiohttp", "uvicorn", "rich", "ferrule.transports.http.client", "ferrule.app.server", "mimetypes",
              "ferrule.client.gateway", "ferrule.search.definitions", "tempfile", "difflib", "tomllib"}  # fmt: skip
    assert set(modules) & unused == set()


def test_every_command_of_the_table_exists_and_has_help() -> None:
    """The table is written by hand."""
    for name in COMMANDS:
        found = load_command(name)
        assert isinstance(found, click.Command)
        assert found.name == name
        assert found.help
    with click.Context(program) as ctx:
        assert program.list_commands(ctx) == list(COMMANDS)


def test_the_commands_are_listed_and_a_slip_is_understood() -> None:
    """The first thing that a newcomer types, and the second."""
    done = ferrule("--help")
    assert done.returncode == 0
    assert all(f"  {name} " in done.stdout for name in COMMANDS)
    done = ferrule("cal")
    assert (done.returncode, "Did you mean 'call'?" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (("list",), 2, "Missing argument"),
        (("list", "nothing_here.py"), 2, "There is no file"),
        (("list", PROBE, "--server", "x"), 2, "--server is for a configuration"),
        (("list", "localhost:8000/mcp"), 2, "write http:// or https:// before it"),
        (("list", "ws://x/mcp"), 2, "begins with http:// or https://"),
        (("list", "http://h:99999/"), 2, "Port out of range"),
        (("list", "HTTP://127.0.0.1:1/mcp"), 3, "Cannot connect to"),
        (("list", "no-such-program-at-all x"), 3, "there is no such program in PATH"),
        (("list", "http://127.0.0.1:9/mcp"), 3, "Cannot connect"),
        (("call", PROBE, "nothing"), 4, "-32602"),
        (("call", PROBE, "nothing", "a=1"), 2, "no tool 'nothing'"),
        (("call", PROBE, "fail", "why=rain"), 1, "the tool 'fail' failed"),
        (("call", PROBE, "greet"), 6, "elicitation"),
        (("call", PROBE, "linger", "record=/dev/null", "--timeout", "2"), 5, "no answer"),
        (("read", PROBE, "memo://"), 4, "error"),
        (("list", PROBE, "--mode", "2020-01-01"), 2, "mode"),
        (("list", PROBE, "--header", "nocolon"), 2, "Name: value"),
    ],
)
def test_the_exit_status_says_what_happened(arguments: tuple[str, ...], status: int, words: str) -> None:
    """Scripts decide by it."""
    done = ferrule(*arguments)
    assert (done.returncode, done.stdout if status != 1 else "") == (status, "")
    assert words.lower() in done.stderr.lower()
    assert "Traceback" not in done.stderr


def test_a_bug_of_ours_is_called_one() -> None:
    """The message says how to show the traceback."""
    assert explain(ZeroDivisionError("x"))[0] == 70


def test_a_file_is_no_connection(tmp_path: Path) -> None:
    """A script tries a connection again; a folder that is not there stays away."""
    done = ferrule("new", str(tmp_path / "file" / "project"), cwd=tmp_path)
    assert done.returncode == 0
    (tmp_path / "plain").write_text("", encoding="utf-8")
    done = ferrule("new", str(tmp_path / "plain" / "project"))
    assert (done.returncode, "plain" in done.stderr) == (2, True)
    assert explain(ConnectionRefusedError(111, "refused"))[0] == 3


@pytest.mark.parametrize(
    "what", ["list", "inspect", "inspect -o json", "doctor", "call -o json TARGET flood", "listen"]
)
def test_a_reader_that_has_seen_enough_is_no_error(what: str, tmp_path: Path) -> None:
    """``ferrule list … | head -1``: nothing on stderr, and no status of a failure, in the middle of a flood either."""
    source = tmp_path / "flood.py"
    source.write_text(
        "import sys\nfrom ferrule import MCPServer, Context\napp = MCPServer('flood')\n\n"
        "@app.tool\ndef flood() -> list[int]:\n    return list(range(200_000))\n\n"
        "@app.tool(description='d' * 100_000)\ndef wide() -> str:\n    return ''\n"
    )
    words = what.replace("TARGET", str(source)) if "TARGET" in what else f"{what} {source}"
    if what == "listen":
        words = f"listen {source} --for 0.2"
    done = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m ferrule {words} 2>err | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, env=environment(), check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "0"
    assert (tmp_path / "err").read_text().replace("listening to flood (2026-07-28)\n", "") == ""


def test_every_status_is_described() -> None:
    """Scripts decide by them, so the page and the code must agree."""
    from ferrule.cli import exits

    page = (Path(__file__).parents[2] / "docs" / "reference" / "cli.md").read_text()
    values = {value for name, value in vars(exits).items() if name.startswith("EXIT_")}
    assert len(values) == 9
    assert [value for value in values if f"\n| {value} |" not in page] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("dev", "worker", "completion")])
def test_every_help_has_an_example_that_means_something(name: str) -> None:
    """People read the example first; each option in it must exist."""
    found = load_command(name)
    assert found.epilog is not None
    lines = [line.strip() for line in found.epilog.splitlines() if line.strip().startswith("ferrule ")]
    assert lines
    known = {option for each in (found,) for param in each.params for option in (*param.opts, *param.secondary_opts)}
    used = {
        word.split("=")[0]
        for line in lines
        if f"ferrule {name} " in line
        for word in line.split()
        if word.startswith("--")
    }
    assert used <= known | {"--help"}


PAGES = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["reference/cli.md", "how-to/command-line.md"])
def test_every_command_on_the_pages_exists_with_its_options(page: str) -> None:
    """A page that shows an option of yesterday costs its reader an hour."""
    import re
    import shlex

    blocks = re.findall(r"```sh\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith("ferrule ")]
    assert len(lines) >= 10
    for line in lines:
        words = [word for word in shlex.split(line.partition(" | ")[0], comments=True) if word != ">"]
        found = load_command(words[1])
        if isinstance(found, click.Group):
            found = found.commands[words[2]]
        known = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
        assert {word.split("=")[0] for word in words[2:] if word.startswith("-")} <= known, line
