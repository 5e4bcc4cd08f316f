"""``ferrule new``: a project that works, with a test that can fail."""

from __future__ import annotations

import re
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from ferrule.cli.openapi.descriptions import (
    DescriptionOptions,
    absolute_server,
    choice_options,
    chosen_operations,
    read_target_description,
    usable_operations,
)
from ferrule.cli.output import say

__all__ = ["command"]

_SERVER: Final = '''\
"""{title}: an MCP server."""

from __future__ import annotations

from ferrule import Context, MCPServer, ToolError

app = MCPServer("{name}", version="0.1.0", instructions="What this server is for, in a sentence for the model.")


@app.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


@app.tool
async def countdown(start: int, ctx: Context) -> str:
    """Count down to zero and say so at each step."""
    if start > 10:
        raise ToolError("Ten is enough; ask for less.")  # the model reads this
    for done in range(start):
        await ctx.progress(done + 1, start, f"{{start - done - 1}} to go")
    return "lift-off"


@app.resource("{name}://about")
def about() -> str:
    """What this server is."""
    return "A server made with ferrule new."


if __name__ == "__main__":
    app.run("stdio")
'''

_TEST: Final = '''\
"""The server as a client sees it, in both eras of the protocol, without a process or a port."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ferrule import Client
from ferrule.testing import load_conversation, run_conversation, runs_of
from server import app

ERAS = ["2026-07-28", "2025-11-25"]


def call(era: str, tool: str, **arguments: Any) -> Any:
    """One call, from a client of that era."""

    async def main() -> Any:
        async with Client(app, mode=era) as client:
            return await client.call_tool(tool, arguments)

    return asyncio.run(main())


@pytest.mark.parametrize("era", ERAS)
def test_add(era: str) -> None:
    assert call(era, "add", a=2, b=40).data == 42


@pytest.mark.parametrize("era", ERAS)
def test_too_long_a_countdown_is_refused(era: str) -> None:
    result = call(era, "countdown", start=11)
    assert result.is_error
    assert "Ten is enough" in result.text


CONVERSATION = load_conversation(Path(__file__).with_name("add.conv"))


@pytest.mark.parametrize(("revision", "carrier"), runs_of(CONVERSATION))
def test_the_messages_of_a_call(revision: str, carrier: str) -> None:
    """Every revision, byte for byte; `ferrule trace` records more of them."""
    asyncio.run(run_conversation(CONVERSATION, app.lowlevel, revision=revision, carrier=carrier))
'''

_CONVERSATION: Final = """\
# What a client sends and what must come back.
revisions: all

> {"id": 1, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 2, "b": 40}}}
< {"id": 1, "result": {"content": [{"type": "text", "text": "42"}], "...": true}}
"""

_PYPROJECT: Final = """\
[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["ferrule>=0.1,<0.2"]

[dependency-groups]
dev = ["pytest>=8"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""

_README: Final = """\
# {title}

    pip install -e . pytest         # or: uv sync
    ferrule call server.py add a=2 b=40
    python -m pytest
    ferrule run server.py --http --reload
    ferrule install claude-desktop server.py
"""


_EXAMPLES = """\b
Examples:
  ferrule new weather && cd weather && python -m pytest
  ferrule new --from openapi.json --include 'tag:orders' server.py
"""


@click.command("new", epilog=_EXAMPLES)
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", help="The server's name; the folder's name if not given.")
@click.option(
    "--from", "source", metavar="OPENAPI", help="An OpenAPI description; FOLDER is then the .py file to make from it."
)
@click.option("--base-url", metavar="URL", help="With --from: the base URL of the API; the description's if not given.")
@choice_options
def command(
    folder: Path,
    name: str | None,
    source: str | None,
    base_url: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> None:
    """Make a project in FOLDER: a server, its tests in both eras, pyproject.toml and README.md.

    With --from, FOLDER is a Python file: a server with one typed function for each operation of an OpenAPI description
    that --include names. Rename, describe, join and remove the functions.

    Existing files are never overwritten.
    """
    options = DescriptionOptions(base_url=base_url, include=include, exclude=exclude)
    if source is not None:
        _make_file(source, folder, options)
        return
    if options.are_given:
        raise click.UsageError("--base-url, --include and --exclude are for --from OPENAPI")
    if folder.is_file():
        raise click.UsageError(f"{folder} is a file")
    title = name or folder.resolve().name
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "server"
    if not slug[0].isalpha():
        slug = f"server-{slug}"
    files = {
        "server.py": _SERVER.format(name=slug, title=title.replace("\\", "").replace('"', "")),
        "tests/test_server.py": _TEST,
        "tests/add.conv": _CONVERSATION,
        "pyproject.toml": _PYPROJECT.format(name=slug),
        "README.md": _README.format(title=title),
        ".gitignore": "__pycache__/\n.venv/\n",
    }
    taken = [path for path in files if (folder / path).exists()]
    if taken:
        raise click.UsageError(f"{folder} has {', '.join(taken)} already; nothing was written")
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    say(f"made {folder}: {', '.join(files)}")
    has_pytest = find_spec("pytest") is not None
    steps = [f"cd {shlex.quote(str(folder))}", "ferrule call server.py add a=2 b=40"]
    steps += ["python -m pytest"] if has_pytest else ["pip install pytest", "python -m pytest"]
    say(f"next: {' && '.join(steps)}")


def _make_file(source: str, path: Path, options: DescriptionOptions) -> None:
    from ferrule.cli.openapi.generating import server_file
    from ferrule.expose import APIClient

    if path.suffix != ".py":
        raise click.UsageError(f"With --from the last argument is a Python file to write, not {path}")
    if path.exists():
        raise click.UsageError(f"{path} is there already; nothing was written")
    description = read_target_description(source)
    chosen = chosen_operations(description, source, options, f"ferrule new --from {shlex.quote(source)} {path}")
    base_url = options.base_url or absolute_server(description)
    if base_url is None:
        raise click.UsageError("The description does not say where the API is: add --base-url https://…")
    try:
        APIClient(base_url)
    except ValueError as error:
        raise click.UsageError(str(error).replace("base_url", "--base-url")) from error
    usable, skipped = usable_operations(chosen)
    text = server_file(description, usable, base_url=base_url, is_url_from_document=options.base_url is None)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    for operation, reason in skipped:
        say(f"left out {operation.label}: {reason}")
    say(f"made {path}: {len(usable)} functions. Rename them, describe them, remove those that are not needed")
    say(f"next: ferrule list {shlex.quote(str(path))}")
