"""``ferrule list``: what a server has."""

from __future__ import annotations

from typing import Any

import click

from ferrule.cli.completion.known import remember
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.openapi.descriptions import (
    DescriptionOptions,
    choice_options,
    chosen_operations,
    include_line,
    is_description,
    read_target_description,
    tags_of,
)
from ferrule.cli.output import print_json, print_rows, print_text, say
from ferrule.protocol.capabilities import SKILLS_EXTENSION, extension_settings

__all__ = ["command", "read_lists"]

KINDS = ("tools", "resources", "templates", "prompts", "skills")


_EXAMPLES = """\b
Examples:
  ferrule list server.py
  ferrule list cursor:weather tools
  ferrule list https://tools.example/mcp -o json | jq '.tools[].name'
  ferrule list server.py skills
  ferrule list openapi.json
  ferrule list openapi.json --include 'tag:orders'
"""


@click.command("list", epilog=_EXAMPLES)
@connection_options
@click.argument("kinds", nargs=-1, type=click.Choice(KINDS))
@click.option("--json", "as_json", is_flag=True, help="The same as -o json.")
@choice_options
def command(
    connection: ConnectionOptions,
    kinds: tuple[str, ...],
    as_json: bool,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
) -> None:
    """List the tools, resources, templates, prompts and skills of the server TARGET (all, or the KINDS named).

    If a server offers a search in place of a long list, the tools behind the search are listed too. For an OpenAPI
    description: the operations that --include names (without it, all) as tools, the skipped and repaired ones with the
    reason, and the size of the list for a model. Nothing is started or called for it.
    """
    is_json = as_json or connection.is_json
    options = DescriptionOptions(include=include, exclude=exclude)
    if is_description(connection.target, is_asked=options.are_given):
        if kinds:
            raise click.UsageError("An OpenAPI description has operations only; leave out the KINDS")
        _list_description(connection.target, options, is_json)
        return
    if options.are_given:
        raise click.UsageError("--include and --exclude are for an OpenAPI description")
    connection.run(_list(connection, kinds or KINDS, is_json))


async def _list(connection: ConnectionOptions, kinds: tuple[str, ...], as_json: bool) -> None:
    from ferrule.client.groups.behind_search import tools_behind_search

    async with connection.client() as client:
        found = await read_lists(client, kinds)
        remember(connection.target, found)
        behind = await tools_behind_search(client, found.get("tools", []))
    if as_json:
        print_json(found if behind is None else {**found, "behindSearch": behind.tools})
        return
    if not any(found.values()):
        say("the server has nothing of that kind")
    for kind, items in found.items():
        _print(kind, items)
        if kind == "tools" and behind is not None:
            rows = [
                (each["name"], _found_parameters(each), _first_line(each.get("description"))) for each in behind.tools
            ]
            print_rows(f"Behind search_tools ({behind.total})", ("NAME", "PARAMETERS", "DESCRIPTION"), rows)
            if len(behind.tools) < behind.total:
                say(f"{behind.total - len(behind.tools)} more are not shown")


def _list_description(target: str, options: DescriptionOptions, as_json: bool) -> None:
    from ferrule.cli.openapi.describing import picture_of

    description = read_target_description(target)
    if options.include:
        chosen = chosen_operations(description, target, options, f"ferrule list {target}")
    else:
        every = DescriptionOptions(include=["*"], exclude=options.exclude)
        chosen = chosen_operations(description, target, every, "") if description.operations else []
    picture = picture_of(description, chosen)
    if as_json:
        print_json(picture)
        return
    print_text(f"{description.title} {description.version} (OpenAPI {description.openapi})")
    print_text("")
    rows: list[tuple[Any, ...]] = [
        (each["name"], each["method"], each["path"], each["title"] or "") for each in picture["operations"]
    ]
    print_rows(f"Operations ({len(rows)})", ("NAME", "METHOD", "PATH", "TITLE"), rows)
    rows = [(each["method"], each["path"], each["reason"]) for each in picture["skipped"]]
    print_rows(f"Skipped ({len(rows)})", ("METHOD", "PATH", "WHY"), rows)
    rows = [(each["name"], "; ".join(each["notes"])) for each in picture["repaired"]]
    print_rows(f"Repaired ({len(rows)})", ("NAME", "WHAT"), rows)
    if not options.include:
        rows = [(tag, count, f'"tag:{tag}"') for tag, count in tags_of(chosen).most_common()]
        print_rows("Tags", ("TAG", "OPERATIONS", "PATTERN"), rows)
    size = picture["size"]
    print_text(f"The list of these tools: {size['bytes']:,} bytes, about {size['tokens']:,} tokens.")
    if size["isSearched"]:
        text = (
            f"A model sees a search in its place: {size['searchBytes']:,} bytes, about {size['searchTokens']:,} tokens."
        )
        print_text(text)
    if options.include and chosen:
        print_text(f"Exactly these: {include_line(chosen)}")
    elif chosen:
        print_text('All of them: include="*"; a tag: include="tag:NAME"; one: include="METHOD /path"')


async def read_lists(client: Any, kinds: tuple[str, ...] = KINDS) -> dict[str, list[Any]]:
    """Return the lists that the server announces, by kind; a kind that it does not have is empty."""
    capabilities = client.server_capabilities
    has_skills = extension_settings(capabilities, SKILLS_EXTENSION)
    calls = {
        "tools": (capabilities.tools, client.list_tools),
        "resources": (capabilities.resources, client.list_resources),
        "templates": (capabilities.resources, client.list_resource_templates),
        "prompts": (capabilities.prompts, client.list_prompts),
        "skills": (has_skills, lambda: _skills_of(client)),
    }
    found: dict[str, list[Any]] = {}
    for kind in kinds:
        announced, ask = calls[kind]
        if kind == "skills" and announced is None and kinds == KINDS:
            continue  # few servers have them
        found[kind] = [] if announced is None else await _or_nothing(ask)
    return found


async def _skills_of(client: Any) -> list[Any]:
    """Return the entries of skills; their files are not read."""
    return [skill.entry for skill in await client.list_skills()]


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
    elif kind == "skills":
        rows = [(skill.uri, _files(skill), _first_line(skill.frontmatter["description"])) for skill in items]
        print_rows(f"Skills ({len(items)})", ("URI", "FILES", "DESCRIPTION"), rows)
    else:
        rows = [
            (item.uri if kind == "resources" else item.uri_template, item.mime_type or "", _first(item))
            for item in items
        ]
        title = "Resources" if kind == "resources" else "Resource templates"
        print_rows(f"{title} ({len(items)})", ("URI", "TYPE", "DESCRIPTION"), rows)


def _files(skill: Any) -> str:
    return skill.resources if isinstance(skill.resources, str) else str(len(skill.resources))


def _parameters(schema: Any) -> str:
    required: list[str] = schema.get("required") or []
    properties: dict[str, Any] = schema.get("properties") or {}
    return " ".join(name if name in required else f"[{name}]" for name in properties)


def _found_parameters(tool: dict[str, Any]) -> str:
    from ferrule.search.definitions import shown_arguments

    required, optional = shown_arguments(tool)
    return " ".join([*required, *(f"[{name}]" for name in optional)])


def _first_line(value: Any) -> str:
    return value.strip().partition("\n")[0] if isinstance(value, str) else ""


def _prompt_arguments(prompt: Any) -> str:
    parts: list[Any] = prompt.arguments or []
    return " ".join(str(part.name) if part.required else f"[{part.name}]" for part in parts)


def _first(item: Any) -> str:
    """Return the first line of a description, or the title."""
    text: str = (item.description or item.title or "").strip()
    return text.partition("\n")[0]
