"""``ferrule check``: rules for a server that need no model."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import click

from ferrule.checks.judge import CheckSettings, check, make_settings, rule_code
from ferrule.checks.picture import ServerPicture
from ferrule.checks.rules.model_apis import MODEL_APIS
from ferrule.checks.table import RULES, SEVERITIES, RuleFinding
from ferrule.checks.tokens import tokens_of_tool
from ferrule.cli.checking.reading import read_picture
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.output import print_json, print_text, say
from ferrule.wire.json_types import is_list, is_object

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule check server.py
  ferrule check server.py --budget 8000 --api openai --disable F15,hints-missing
  ferrule check "uvx mcp-server-time" --format sarif > check.sarif
  ferrule check server.py --fail-on warning
  ferrule check --explain F12
  ferrule check --explain all
"""
_KEYS = frozenset({"disable", "only", "severity", "api", "budget", "tool-budget", "fail-on"})
_FORMS = {"severity": "a table", "fail-on": "a text", "budget": "a number", "tool-budget": "a number"}


def _explain(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
    """Print a rule, or all of them, and end."""
    if value is None or ctx.resilient_parsing:
        return
    try:
        codes = list(RULES) if value.lower() == "all" else [rule_code(value)]
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    for code in codes:
        rule = RULES[code]
        if len(codes) > 1:
            print_text(f"{rule.code}  {rule.severity:8} {rule.name:24} {rule.title}")
        else:
            print_text(f"{rule.code} {rule.name} ({rule.severity})\n{rule.title}.\n\nWhy:  {rule.why}\nDo:   {rule.do}")
    ctx.exit()


@click.command("check", epilog=_EXAMPLES)
@connection_options
@click.option(
    "--explain",
    metavar="RULE",
    is_eager=True,
    expose_value=False,
    callback=_explain,
    help="Explain a rule, such as F12, or `all`, and end.",
)
@click.option("--disable", multiple=True, metavar="RULE,…", help="Leave out rules, by number or name.")
@click.option("--only", multiple=True, metavar="RULE,…", help="Judge these rules only.")
@click.option(
    "--severity", multiple=True, metavar="RULE=LEVEL", help="error, warning or note in place of the rule's own."
)
@click.option(
    "--api",
    "apis",
    multiple=True,
    type=click.Choice(list(MODEL_APIS)),
    help="A model API that the server is meant for: what it refuses is an error.",
)
@click.option(
    "--budget", type=click.IntRange(min=1), metavar="TOKENS", help="The most that the list of tools may cost."
)
@click.option("--tool-budget", type=click.IntRange(min=1), metavar="TOKENS", help="The most that one tool may cost.")
@click.option(
    "--fail-on", type=click.Choice([*SEVERITIES, "never"]), help="From which severity on the exit status is 1."
)
@click.option("--format", "form", type=click.Choice(["text", "json", "sarif"]), help="The same as -o, and SARIF 2.1.0.")
def command(
    connection: ConnectionOptions,
    disable: tuple[str, ...],
    only: tuple[str, ...],
    severity: tuple[str, ...],
    apis: tuple[str, ...],
    budget: int | None,
    tool_budget: int | None,
    fail_on: str | None,
    form: str | None,
) -> int:
    """Judge what the server TARGET (or a snapshot) says about itself: names, descriptions, schemas, hidden text, cost.

    No tool is called and no model is asked. The exit status is 1 if a finding is an error (--fail-on changes that).
    Settings may stand in [tool.ferrule.check] of pyproject.toml in this folder; options add to them.
    """
    stored = _stored()
    severities = {**stored.get("severity", {}), **_levels(severity)}
    try:
        settings = make_settings(
            disable=[*stored.get("disable", ()), *_split(disable)],
            only=_split(only) or stored.get("only", ()),
            severities=severities,
            apis=apis or stored.get("api", ()),
            tool_budget=tool_budget or stored.get("tool-budget"),
            list_budget=budget or stored.get("budget"),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    threshold = fail_on or stored.get("fail-on", "error")
    picture = connection.run(read_picture(connection, pages=True))
    findings = check(picture, settings)
    shape = form or connection.output
    if shape == "sarif":
        _print_sarif(connection.target, findings)
    elif shape == "json":
        print_json(_as_json(picture, findings, settings))
    else:
        _print(picture, findings)
    fails = () if threshold == "never" else SEVERITIES[: SEVERITIES.index(threshold) + 1]
    return EXIT_FAILED if any(found.severity in fails for found in findings) else EXIT_OK


def _split(given: tuple[str, ...]) -> list[str]:
    return [part for text in given for part in text.replace(",", " ").split()]


def _levels(given: tuple[str, ...]) -> dict[str, str]:
    made: dict[str, str] = {}
    for text in _split(given):
        rule, sign, level = text.partition("=")
        if not sign:
            raise click.UsageError(f"--severity is written RULE=LEVEL, such as F12=error, not {text!r}")
        made[rule] = level
    return made


def _stored() -> dict[str, Any]:
    """Return ``[tool.ferrule.check]`` of ``pyproject.toml`` in this folder, with lists where lists belong."""
    path = Path("pyproject.toml")
    if not path.is_file():
        return {}
    try:
        found: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: {error}") from error
    for part in ("tool", "ferrule", "check"):
        found = found.get(part) if is_object(found) else None
    if not is_object(found):
        return {}
    for key, value in found.items():
        if key not in _KEYS:
            raise click.UsageError(
                f"{path}: [tool.ferrule.check] {key} = {value!r} is none of {', '.join(sorted(_KEYS))}"
            )
        wanted = _FORMS.get(key, "a list of texts")
        if not _has_form(value, wanted):
            raise click.UsageError(f"{path}: [tool.ferrule.check] {key} = {value!r} is not {wanted}")
    if found.get("fail-on", "error") not in (*SEVERITIES, "never"):
        raise click.UsageError(f"{path}: fail-on is one of {', '.join(SEVERITIES)}, never")
    return found


def _has_form(value: Any, wanted: str) -> bool:
    if wanted == "a list of texts":
        return is_list(value) and all(isinstance(each, str) for each in value)
    return type(value) is {"a table": dict, "a text": str, "a number": int}[wanted]  # a truth value is an int, too


def _as_json(picture: ServerPicture, findings: list[RuleFinding], settings: CheckSettings) -> dict[str, Any]:
    costs = {str(tool.get("name", "")): tokens_of_tool(tool) for tool in picture.tools}
    return {
        "server": {"name": picture.name, "version": picture.version, "protocolVersion": picture.protocol_version},
        "findings": [
            {
                "code": found.code,
                "rule": RULES[found.code].name,
                "severity": found.severity,
                "kind": found.kind,
                "name": found.name,
                "path": found.path,
                "message": found.message,
            }
            for found in findings
        ],
        "counts": {level: sum(found.severity == level for found in findings) for level in SEVERITIES},
        "tokens": {"isEstimate": True, "list": sum(costs.values()), "budget": settings.list_budget, "tools": costs},
    }


def _print_sarif(target: str, findings: list[RuleFinding]) -> None:
    from ferrule import __version__
    from ferrule.checks.sarif import sarif_of
    from ferrule.cli.targets import split_path

    path, _ = split_path(target)
    file = None if path is None or path.is_absolute() else path.as_posix()
    print_json(sarif_of(findings, version=__version__, file=file))


def _print(picture: ServerPicture, findings: list[RuleFinding]) -> None:
    for found in findings:
        print_text(f"{found.code} {found.severity:7} {found.place}: {found.message}")
    if findings:
        print_text("")
    cost = sum(map(tokens_of_tool, picture.tools))
    name = f"{picture.name} {picture.version}".strip() or "the server"
    print_text(f"{name}: {len(picture.tools)} tools, about {cost:,} tokens of definitions")
    for tool in sorted(picture.tools, key=tokens_of_tool, reverse=True)[:3]:
        print_text(f"  {tokens_of_tool(tool):6,} {tool.get('name', '')}")
    counts = [
        f"{number} {level}{'' if number == 1 else 's'}"
        for level in SEVERITIES
        if (number := sum(found.severity == level for found in findings))
    ]
    print_text(f"found: {', '.join(counts) or 'nothing'}")
    if findings:
        say(f"what a rule means: ferrule check --explain {findings[0].code}")
