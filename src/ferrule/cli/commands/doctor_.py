"""``ferrule doctor``: what works, what fails, and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import click

from ferrule.cli.configured.servers import has_several, servers_of
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.doctor.findings import Finding, Report
from ferrule.cli.output import print_json, print_rows, print_text
from ferrule.cli.targets import read_choice, with_variables

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule doctor server.py
  ferrule doctor claude-desktop:weather
  ferrule doctor mcp.json
  ferrule doctor https://tools.example/mcp --origin https://app.example
"""


@click.command("doctor", epilog=_EXAMPLES)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option("--origin", metavar="URL", help="Also check whether web pages of this origin may use it.")
@click.option("--slow-after", type=float, default=5.0, show_default=True, metavar="SECONDS", help="A start is slow.")
@click.option("--wait", "wait_s", type=float, default=4.0, show_default=True, metavar="SECONDS", help="For a stream.")
def command(connection: ConnectionOptions, as_json: bool, origin: str | None, slow_after: float, wait_s: float) -> int:
    """Check what works with the server TARGET, what fails, and why.

    It connects with every revision and transport that the server may support. A process is started as hosts do: with
    few variables of this shell, and those of --env. The servers of a configuration are checked one after the other. The
    exit status is 1 if a check fails.
    """
    is_json = as_json or connection.is_json
    show = _silent if is_json else _show
    checks = _Checks(origin, slow_after, wait_s)
    if has_several(connection.target):
        return _examine_each(connection, checks, show, is_json)
    report = Report(show)
    connection.run(checks.examine(connection, report))
    if is_json:
        print_json([asdict(found) for found in report.findings])
    return report.status


class _Checks:
    """The options of the checks."""

    def __init__(self, origin: str | None, slow_after_s: float, wait_s: float) -> None:
        self._origin = origin
        self._slow_after_s = slow_after_s
        self._wait_s = wait_s

    async def examine(self, connection: ConnectionOptions, report: Report) -> None:
        """Check one server."""
        choice = read_choice(connection.target)
        choice = replace(choice, target=with_variables(choice.target, connection.variables))
        limit_s = min(connection.timeout_s, 30.0)
        options = {**connection.client_options(), "connect_timeout_s": limit_s, "timeout_s": limit_s}
        if choice.is_http:
            from ferrule.cli.doctor.web import examine_url

            await examine_url(report, choice, options, origin=self._origin, wait_s=self._wait_s)
        else:
            from ferrule.cli.doctor.process import examine_process

            await examine_process(report, choice, options, self._slow_after_s)


def _examine_each(
    connection: ConnectionOptions, checks: _Checks, show: Callable[[Finding], None], is_json: bool
) -> int:
    """Check the servers of a configuration one after the other, and return the exit status."""
    reports: dict[str, Report] = {}
    servers = servers_of(connection)
    for number, server in enumerate(servers, 1):
        if not is_json:
            print_text(f"{server.name} ({number} of {len(servers)})")
        report = reports[server.name] = Report(show)
        if server.connection is not None:
            connection.run(checks.examine(server.connection, report))
        elif server.is_disabled:
            report.add("disabled", "note", server.problem)
        else:
            report.add("bad-entry", "fail", server.problem, "Correct the entry in the configuration.")
        if not is_json:
            print_text("")
    if is_json:
        print_json(
            {"servers": {name: [asdict(found) for found in report.findings] for name, report in reports.items()}}
        )
    else:
        rows = [(name, _verdict(report)) for name, report in reports.items()]
        print_rows(f"Servers ({len(rows)})", ("NAME", "RESULT"), rows)
    return max(report.status for report in reports.values())


def _verdict(report: Report) -> str:
    """Return the result of one server in a few words."""
    worst = [found.code for found in report.findings if found.level == "fail"]
    if worst:
        return f"FAIL: {', '.join(worst)}"
    warned = [found.code for found in report.findings if found.level == "warn"]
    if warned:
        return f"WARN: {', '.join(warned)}"
    return "disabled" if report.has("disabled") else "ok"


def _show(finding: Finding) -> None:
    for line in finding.lines():
        click.echo(line)


def _silent(finding: Finding) -> None:
    pass
