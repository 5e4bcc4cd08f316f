"""``ferrule list``: what a server has."""

from __future__ import annotations

from typing import Any

import click

from ferrule.cli.completion.known import remember
from ferrule.cli.configured.servers import ServerOutcome, ask_each, has_several, servers_of, status_of
from ferrule.cli.connect import ConnectionOptions, connection_options
from ferrule.cli.exits import EXIT_OK
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
  ferrule list mcp.json
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
) -> int:
    """List the tools, resources, templates, prompts and skills of the server TARGET (all, or the KINDS named).

    Of a configuration with several servers: those of each, after the state of each. The exit status is 3 if one of
    them cannot be used.

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
        return EXIT_OK
    if options.are_given:
        raise click.UsageError("--include and --exclude are for an OpenAPI description")
    if has_several(connection.target):
        return connection.run(_list_each(connection, kinds or KINDS, is_json))
    connection.run(_list(connection, kinds or KINDS, is_json))
    return EXIT_OK


class _Listed:
    """The lists of one server.

    Attributes:
        lists: kind → items.
        behind: the tools behind its search; ``None`` without one.
        name, version, protocol_version: who it is, and the revision that was used.
    """

    def __init__(self, client: Any, lists: dict[str, list[Any]], behind: Any) -> None:
        info = client.server_info
        self.lists = lists
        self.behind = behind
        self.name = "" if info is None else info.name
        self.version = "" if info is None else info.version
        self.protocol_version: str = client.protocol_version

    def as_json(self) -> dict[str, Any]:
        return self.lists if self.behind is None else {**self.lists, "behindSearch": self.behind.tools}


async def _read(connection: ConnectionOptions, client: Any, kinds: tuple[str, ...]) -> _Listed:
    found = await read_lists(client, kinds)
    remember(connection.target, found)
    tools = found.get("tools", [])
    behind = None
    if any(tool.name == "search_tools" for tool in tools):  # most servers have no search: the import is saved
        from ferrule.client.groups.behind_search import tools_behind_search

        behind = await tools_behind_search(client, tools)
    return _Listed(client, found, behind)


async def _list(connection: ConnectionOptions, kinds: tuple[str, ...], as_json: bool) -> None:
    async with connection.client() as client:
        found = await _read(connection, client, kinds)
    if as_json:
        print_json(found.as_json())
        return
    if not any(found.lists.values()):
        say("the server has nothing of that kind")
    _print_lists(found)


async def _list_each(connection: ConnectionOptions, kinds: tuple[str, ...], as_json: bool) -> int:
    async def read(one: ConnectionOptions, client: Any) -> _Listed:
        return await _read(one, client, kinds)

    outcomes = await ask_each(servers_of(connection), read, connection.progress())
    if as_json:
        print_json({"servers": {outcome.server.name: _as_json(outcome) for outcome in outcomes}})
        return status_of(outcomes)
    rows = [(outcome.server.name, outcome.state, _summary(outcome)) for outcome in outcomes]
    print_rows(f"Servers ({len(rows)})", ("NAME", "STATE", "WHAT IT HAS"), rows)
    for outcome in outcomes:
        if outcome.value is not None:
            _print_lists(outcome.value, f"{outcome.server.name}: ")
    return status_of(outcomes)


def _as_json(outcome: ServerOutcome[_Listed]) -> dict[str, Any]:
    found = outcome.value
    if found is None:
        return {"state": outcome.state, "problem": outcome.problem}
    who = {"name": found.name, "version": found.version}
    return {"state": outcome.state, "server": who, "protocolVersion": found.protocol_version, **found.as_json()}


def _summary(outcome: ServerOutcome[_Listed]) -> str:
    if outcome.value is None:
        return outcome.problem
    counts = [f"{len(items)} {kind if len(items) != 1 else kind[:-1]}" for kind, items in outcome.value.lists.items()]
    return f"{', '.join(counts)} ({outcome.value.protocol_version})"


def _print_lists(found: _Listed, before: str = "") -> None:
    behind = found.behind
    for kind, items in found.lists.items():
        _print(kind, items, before)
        if kind == "tools" and behind is not None:
            rows = [
                (each["name"], _found_parameters(each), _first_line(each.get("description"))) for each in behind.tools
            ]
            print_rows(f"{before}Behind search_tools ({behind.total})", ("NAME", "PARAMETERS", "DESCRIPTION"), rows)
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


def _print(kind: str, items: list[Any], before: str) -> None:
    if kind == "tools":
        rows = [(tool.name, _parameters(tool.input_schema), _first(tool)) for tool in items]
        print_rows(f"{before}Tools ({len(items)})", ("NAME", "PARAMETERS", "DESCRIPTION"), rows)
    elif kind == "prompts":
        rows = [(prompt.name, _prompt_arguments(prompt), _first(prompt)) for prompt in items]
        print_rows(f"{before}Prompts ({len(items)})", ("NAME", "ARGUMENTS", "DESCRIPTION"), rows)
    elif kind == "skills":
        rows = [(skill.uri, _files(skill), _first_line(skill.frontmatter["description"])) for skill in items]
        print_rows(f"{before}Skills ({len(items)})", ("URI", "FILES", "DESCRIPTION"), rows)
    else:
        rows = [
            (item.uri if kind == "resources" else item.uri_template, item.mime_type or "", _first(item))
            for item in items
        ]
        title = "Resources" if kind == "resources" else "Resource templates"
        print_rows(f"{before}{title} ({len(items)})", ("URI", "TYPE", "DESCRIPTION"), rows)


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
