"""``ferrule publish --check``: the ``server.json`` of a server, and what the MCP registry would refuse in it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ferrule.cli.doctor.findings import Finding, Report
from ferrule.cli.exits import EXIT_USAGE, Quit
from ferrule.cli.output import print_text, say
from ferrule.cli.targets import complete_target, split_path

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule publish --check server.py
  ferrule publish --check server.py:app --write
  ferrule publish --check server.py --schema server.schema.json > server.json
"""


@click.command("publish", epilog=_EXAMPLES)
@click.argument("target", shell_complete=complete_target)
@click.option("--check", is_flag=True, help="Make server.json and judge it. Needed: nothing is ever uploaded.")
@click.option("--write", is_flag=True, help="Write server.json beside pyproject.toml, unless a check fails.")
@click.option(
    "--schema",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="A copy of the registry's schema, which is applied, too.",
)
def command(target: str, check: bool, write: bool, schema: Path | None) -> int:
    """Make the server.json of the MCP registry of the Python file TARGET and its pyproject.toml, and judge it.

    The document goes to stdout, the findings to stderr. The exit status is 1 if the registry would refuse it.
    Nothing is uploaded: mcp-publisher of the registry does that.
    """
    if not check:
        raise click.UsageError("Only --check is here: it makes and judges server.json. mcp-publisher uploads it")
    from ferrule.app.server import MCPServer
    from ferrule.cli.loading import load_app
    from ferrule.cli.projects import project_of
    from ferrule.cli.publishing.checks import judge, judge_by_schema
    from ferrule.cli.publishing.server_json import server_json

    path, attribute = split_path(target)
    if path is None:
        raise click.UsageError(f"There is no file {target!r} in {Path.cwd()}")
    app = load_app(path, attribute or None)
    if not isinstance(app, MCPServer):
        raise Quit(EXIT_USAGE, f"{target} is a low-level server; server.json is made of an MCPServer")
    try:
        project = project_of(path)
        document = server_json(app, project)
        folder = path.resolve().parent if project is None else project.folder
        file = folder / "server.json"
        report = Report(_show)
        judge(report, document, app, project, file if file.is_file() else None)
        if schema is not None:
            judge_by_schema(report, document, schema)
    except ValueError as error:
        raise Quit(EXIT_USAGE, str(error)) from error
    text = json.dumps(document, indent=2, ensure_ascii=False)
    print_text(text)
    if write and report.status == 0:
        file.write_text(f"{text}\n", encoding="utf-8")
        say(f"written: {file}")
    elif write:
        say("nothing was written: a check failed")
    return report.status


def _show(finding: Finding) -> None:
    for line in finding.lines():
        say(line)
