"""``ferrule list``: what a server has."""

from __future__ import annotations

from typing import Any

import click

from ferrule.cli.connect import ConnectionOptions, connection_options, run_async
from ferrule.cli.output import print_json, print_rows, say

__all__ = ["command", "read_lists"]

KINDS = ("tools", "resources", "templates", "prompts")


_EXAMPLES = """\b
Examples:
  ferrule list server.py
  ferrule list cursor:weather tools
  ferrule list https://tools.example/mcp -o json | jq '.tools[].name'
"""


@click.command("list", epilog=_EXAMPLES)
@connection_options
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
def command(connection: ConnectionOptions, kinds: tuple[str, ...], as_json: bool) -> None:
    """List what the server TARGET has: tools, resources, templates, prompts (all, or the KINDS named)."""
    run_async(_list(connection, kinds or KINDS, as_json or connection.is_json))


async def _list(connection: ConnectionOptions, kinds: tuple[str, ...], as_json: bool) -> None:
    async with connection.client() as client:
        found = await read_lists(client, kinds)
    if as_json:
        print_json(found)
        return
    if not any(found.values()):
        say("the server has nothing of that kind")
    for kind, items in found.items():
        _print(kind, items)


async def read_lists(client: Any, kinds: tuple[str, ...] = KINDS) -> dict[str, list[Any]]:
    """Return the lists that the server announces, by kind; a kind that it does not have is empty."""
    capabilities = client.server_capabilities
    calls = {
        "tools": (capabilities.tools, client.list_tools),
        "resources": (capabilities.resources, client.list_resources),
        "templates": (capabilities.resources, client.list_resource_templates),
        "prompts": (capabilities.prompts, client.list_prompts),
    }
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        announced, ask = calls[kind]
        found[kind] = [] if announced is None else await _or_nothing(ask)
    return found


async def _or_nothing(ask: Any) -> list[Any]:
    from ferrule.protocol.errors import RemoteError
    from ferrule.wire.jsonrpc import JsonRpcErrorCode

    try:
        items: list[Any] = await ask()
    except RemoteError as error:
        if error.code != JsonRpcErrorCode.METHOD_NOT_FOUND:
            raise
        return []
    return items


def _print(kind: str, items: list[Any]) -> None:
    if kind == "tools":
        rows = [(tool.name, _parameters(tool.input_schema), _first(tool)) for tool in items]
        print_rows(f"Tools ({len(items)})", ("NAME", "PARAMETERS", "DESCRIPTION"), rows)
    elif kind == "prompts":
        rows = [(prompt.name, _prompt_arguments(prompt), _first(prompt)) for prompt in items]
        print_rows(f"Prompts ({len(items)})", ("NAME", "ARGUMENTS", "DESCRIPTION"), rows)
    else:
        rows = [
            (item.uri if kind == "resources" else item.uri_template, item.mime_type or "", _first(item))
            for item in items
        ]
        title = "Resources" if kind == "resources" else "Resource templates"
        print_rows(f"{title} ({len(items)})", ("URI", "TYPE", "DESCRIPTION"), rows)


def _parameters(schema: Any) -> str:
    required: list[str] = schema.get("required") or []
    properties: dict[str, Any] = schema.get("properties") or {}
    return " ".join(name if name in required else f"[{name}]" for name in properties)


def _prompt_arguments(prompt: Any) -> str:
    parts: list[Any] = prompt.arguments or []
    return " ".join(str(part.name) if part.required else f"[{part.name}]" for part in parts)


def _first(item: Any) -> str:
    """Return the first line of a description, or the title."""
    text: str = (item.description or item.title or "").strip()
    return text.partition("\n")[0]
