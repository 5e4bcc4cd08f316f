"""The completions of arguments that name something of a server, from the names that were seen before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ferrule.wire.json_types import is_list, is_object

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

__all__ = ["complete_arguments", "complete_prompt", "complete_server", "complete_tool", "complete_uri"]


def complete_tool(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the tools of TARGET."""
    return _named(_known(ctx, "tools"), incomplete)


def complete_prompt(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the prompts of TARGET."""
    return _named(_known(ctx, "prompts"), incomplete)


def complete_uri(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the resources of TARGET, and the fixed beginnings of its templates."""
    found = [_item(uri, about) for uri, about in _known(ctx, "resources").items() if _fits(uri, incomplete)]
    for template in _known(ctx, "templates"):
        start = template.partition("{")[0]
        if len(start) > len(incomplete) and _fits(start, incomplete):
            found.append(_item(start, template, "open"))
    return found


def complete_arguments(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return ``name=`` for arguments of the tool or prompt, and ``name=value`` for an argument with known values."""
    kind, name = ("tools", ctx.params.get("tool")) if "tool" in ctx.params else ("prompts", ctx.params.get("name"))
    found: Any = _known(ctx, kind).get(str(name))
    known: Any = found.get("arguments") if is_object(found) else None
    if not is_object(known):
        return []
    typed, sign, _ = incomplete.partition("=")
    if sign:
        values: Any = known.get(typed)
        return _starting((f"{typed}={value}" for value in values), incomplete) if is_list(values) else []
    given = {str(text).partition("=")[0].removesuffix(":") for text in ctx.params.get("arguments") or ()}
    words = (f"{each}=" for each in known if each not in given)
    return [_item(word, kind="open") for word in words if _fits(word, incomplete)]


def complete_server(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the servers of the configuration TARGET."""
    from ferrule.cli.targets import server_names

    return _starting((name for target in _targets(ctx) for name in server_names(target)), incomplete)


def _known(ctx: click.Context, kind: str) -> Mapping[str, Any]:
    from ferrule.cli.completion.known import recall

    server = ctx.params.get("server")
    for target in _targets(ctx):
        found = recall(f"{target.removesuffix(':')}:{server}" if server else target)
        if found:
            names: Mapping[str, Any] = found.get(kind, {})
            return names
    return {}


def _targets(ctx: click.Context) -> list[str]:
    """Return TARGET; before the value of an option, where click has not read it, all words that may be it."""
    target = ctx.params.get("target")
    if target is not None:
        return [str(target)]
    words: list[str] = ctx.obj or []
    return [word for word in words[1:] if not word.startswith("-")]


def _named(known: Mapping[str, Any], incomplete: str) -> list[CompletionItem[str]]:
    return [
        _item(name, each.get("about") if is_object(each) else "")
        for name, each in known.items()
        if _fits(name, incomplete)
    ]


def _starting(words: Iterable[str], incomplete: str) -> list[CompletionItem[str]]:
    return [_item(word) for word in words if _fits(word, incomplete)]


def _fits(word: str, incomplete: str) -> bool:
    """Return whether a word continues what was typed; not one that would be read as an option."""
    return word.startswith(incomplete) and not word.startswith("-")


def _item(value: str, about: object = "", kind: str = "plain") -> CompletionItem[str]:
    from click.shell_completion import CompletionItem  # not above: only Tab needs it

    return CompletionItem(value, type=kind, help=about if isinstance(about, str) else "")
