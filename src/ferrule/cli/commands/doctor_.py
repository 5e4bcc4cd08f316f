"""``ferrule doctor``: what works, what fails, and why."""

from __future__ import annotations

from dataclasses import asdict

import click

from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.doctor.findings import Finding, Report
from ferrule.cli.output import print_json
from ferrule.cli.targets import read_choice

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule doctor server.py
  ferrule doctor claude-desktop:weather
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
    few variables of this shell. The exit status is 1 if a check fails.
    """
    is_json = as_json or connection.is_json
    report = Report(_silent if is_json else _show)
    choice = read_choice(connection.target)
    options = connection.client_options()
    options.update(connect_timeout_s=min(connection.timeout_s, 30.0), timeout_s=min(connection.timeout_s, 30.0))

    async def examine() -> None:
        if choice.is_http:
            from ferrule.cli.doctor.web import examine_url

            await examine_url(report, choice, options, origin=origin, wait_s=wait_s)
        else:
            from ferrule.cli.doctor.process import examine_process

            await examine_process(report, choice, options, slow_after)

    connection.run(examine())
    if is_json:
        print_json([asdict(found) for found in report.findings])
    return report.status


def _show(finding: Finding) -> None:
    for line in finding.lines():
        click.echo(line)


def _silent(finding: Finding) -> None:
    pass
