"""How other people start or reach a server: the command of its package, its URL, and the values that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ferrule.cli.hosts.links import LinkedServer, LinkInput, placeholders
from ferrule.cli.projects import project_of
from ferrule.cli.targets import ServerChoice

__all__ = ["linked_server"]


def linked_server(
    choice: ServerChoice, name: str | None, variables: Sequence[str], headers: Mapping[str, str]
) -> LinkedServer:
    """Return a server as others start or reach it.

    Args:
        choice: the server. A Python file stands for the command of its project, ``uvx NAME``.
        name: its name in a host; ``None`` for one that is made of the choice.
        variables: the names of environment variables that users have to give.
        headers: headers of requests to a URL, with ``${NAME}`` for what users give.

    Raises:
        ValueError: a file belongs to no project, a variable has a value, or a header or URL holds a secret.
    """
    valued = next((each for each in variables if "=" in each), None)
    if valued is not None:
        raise ValueError(f"links are public and hold no values: write --env {valued.partition('=')[0]}")
    inputs = [LinkInput(each, each, True) for each in variables]
    target: Any = choice.target
    if choice.is_http:
        inputs += [LinkInput(each, each, True) for each in _places(headers)]
        made = name or choice.name
        return LinkedServer(name=made, description=made, url=target.url, headers=headers, inputs=inputs)
    if choice.file is None:
        made = name or choice.name
        command = [target.server.command, *target.server.args]
        return LinkedServer(name=made, description=made, command=command, headers={}, inputs=inputs)
    project = project_of(choice.file)
    if project is None:
        raise ValueError(
            "links are for other machines, and this file belongs to no project with a name (pyproject.toml): name the "
            "command with which others start it, in quotes, such as 'uvx weather-mcp'"
        )
    from ferrule.cli.loading import load_app, settings_of

    app = load_app(choice.file, choice.attribute)
    known = {each.variable: each for each in settings_of(app)}
    needed = [each for each in known.values() if each.is_required and each.variable not in variables]
    inputs = [
        LinkInput(each.name, known[each.name].description or each.name, known[each.name].is_secret)
        if each.name in known
        else each
        for each in [*(LinkInput(each.variable, "", False) for each in needed), *inputs]
    ]
    made = name or project.name
    about = project.description or made
    return LinkedServer(name=made, description=about, command=project.command, headers={}, inputs=inputs)


def _places(headers: Mapping[str, str]) -> list[str]:
    return list(dict.fromkeys(place for value in headers.values() for place in placeholders(value)))
