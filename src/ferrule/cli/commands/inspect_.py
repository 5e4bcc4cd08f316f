"""``ferrule inspect``: everything that a server says about itself, and what is questionable about it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, cast

import click

from ferrule.checks.rules.names import name_problems
from ferrule.cli.arguments import read_json_option
from ferrule.cli.commands.list_ import read_lists
from ferrule.cli.completion.known import remember
from ferrule.cli.completion.names import complete_tool
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.inspecting import TokenCost, as_models_see, cost_of
from ferrule.cli.output import print_json, print_rows, print_text, say

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule inspect server.py
  ferrule inspect server.py --strict
  ferrule inspect server.py --call search --arguments '{"words": "brass"}'
"""


@click.command("inspect", epilog=_EXAMPLES)
@connection_options
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@click.option(
    "--call",
    "tool",
    metavar="TOOL",
    shell_complete=complete_tool,
    help="Also call this tool, and estimate the tokens of its result.",
)
@click.option("--arguments", metavar="JSON", help="For --call.")
@click.option("--strict", is_flag=True, help="Exit with 1 if a name or a schema is questionable.")
def command(connection: ConnectionOptions, as_json: bool, tool: str | None, arguments: str | None, strict: bool) -> int:
    """Show all that the server TARGET announces.

    Identity, capabilities in each revision, lists, names that hosts refuse, schemas that model APIs refuse, and what
    the tool list (and with --call a result) costs in tokens as JSON and as TOON. Token counts are estimates without
    any model's tokenizer: within some 20 % for text in Latin script.
    """
    picture = connection.run(_inspect(connection, tool, read_json_option(arguments)))
    if as_json or connection.is_json:
        print_json(picture)
    else:
        _print(picture)
    return EXIT_FAILED if strict and picture["problems"] else EXIT_OK


async def _inspect(connection: ConnectionOptions, tool: str | None, arguments: dict[str, Any]) -> dict[str, Any]:
    from ferrule.app.signatures.schema_profile import schema_hints, schema_problems
    from ferrule.wire.codec import to_builtins

    revisions = await _capabilities(connection)
    async with connection.client() as client:
        lists = await read_lists(client)
        remember(connection.target, lists)
        picture: dict[str, Any] = {
            "server": to_builtins(client.server_info) if client.server_info is not None else None,
            "instructions": client.instructions,
            "revisions": revisions,
            **{kind: to_builtins(items) for kind, items in lists.items()},
        }
        result = None if tool is None else await client.call_tool(tool, arguments)
    problems: list[dict[str, str]] = []
    for each in lists["tools"]:
        found = name_problems(each.name) + schema_problems(dict(each.input_schema))
        if each.output_schema is not None:
            found += [f"output schema {line}" for line in schema_problems(dict(each.output_schema), output=True)]
        problems += [{"tool": each.name, "problem": line} for line in found]
    picture["problems"] = problems
    picture["hints"] = [
        {"tool": each.name, "hint": line} for each in lists["tools"] for line in schema_hints(dict(each.input_schema))
    ]
    seen = as_models_see(lists["tools"])
    picture["cost"] = {
        "is_estimate": True,
        "tools": asdict(cost_of(seen)),
        "each": {each["name"]: asdict(cost_of(each)) for each in seen},
    }
    if result is not None:
        value = result.structured_content if result.has_structured_content else result.text
        picture["cost"]["result"] = asdict(cost_of(value))
    return picture


async def _capabilities(connection: ConnectionOptions) -> dict[str, Any]:
    """Return revision → capabilities, or the reason why the revision cannot be used."""
    from ferrule.protocol.errors import FerruleError
    from ferrule.wire.codec import to_builtins
    from ferrule.wire.revisions import REVISIONS

    found: dict[str, Any] = {}
    for version in reversed(list(REVISIONS)):
        try:
            async with connection.client(mode=version) as client:
                spoken = client.protocol_version
                same = spoken == version
                found[version] = to_builtins(client.server_capabilities) if same else f"it answers with {spoken}"
        except (FerruleError, OSError) as error:
            found[version] = str(error).partition("\n")[0]
    return found


def _print(picture: dict[str, Any]) -> None:
    server: dict[str, Any] = picture["server"] or {}
    print_text(f"{server.get('name', 'a server without a name')} {server.get('version', '')}".rstrip())
    if picture["instructions"]:
        print_text(f"  {picture['instructions']}")
    print_text("")
    rows = [
        (version, f"({found})" if isinstance(found, str) else _words(found))
        for version, found in picture["revisions"].items()
    ]
    print_rows("Capabilities by revision", ("REVISION", "CAPABILITIES"), rows)
    for kind, label in (("tools", "name"), ("resources", "uri"), ("templates", "uriTemplate"), ("prompts", "name")):
        items = picture[kind]
        rows = [(each[label], (each.get("description") or "").partition("\n")[0]) for each in items]
        print_rows(f"{kind.capitalize()} ({len(items)})", (label.removesuffix("Template").upper(), "DESCRIPTION"), rows)
    rows = [(each["tool"], each["problem"]) for each in picture["problems"]]
    print_rows(f"Questionable ({len(rows)})", ("TOOL", "WHY"), rows)
    if picture["hints"]:
        rows = [(each["tool"], each["hint"]) for each in picture["hints"]]
        print_rows(f"Hints ({len(rows)})", ("TOOL", "HINT"), rows)
    cost = picture["cost"]
    rows = [("tool list", TokenCost(**cost["tools"]).words())]
    dearest = sorted(cost["each"].items(), key=lambda item: -item[1]["json_tokens"])[:5]
    rows += [(name, TokenCost(**found).words()) for name, found in dearest]
    if "result" in cost:
        rows.append(("the result", TokenCost(**cost["result"]).words()))
    print_rows("What it costs a model (estimated)", ("WHAT", "SIZE"), rows)
    if cost["tools"].get("toon_bytes") is None:
        say("what TOON would cost is shown with the extra: pip install 'ferrule[toon]'")
    if not picture["problems"]:
        say("nothing questionable was found")


def _words(capabilities: dict[str, Any]) -> str:
    """``tools(listChanged) logging``"""
    made: list[str] = []
    for name, bundle in capabilities.items():
        facts = cast("dict[str, Any]", bundle) if isinstance(bundle, dict) else {}
        inner = " ".join(key for key, value in facts.items() if value or name == "extensions")  # {} is a yes there
        made.append(f"{name}({inner})" if inner else name)
    return " ".join(made) or "none"
