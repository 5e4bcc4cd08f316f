"""Makes the manifest of a bundle (MCPB, ``manifest.json``) of a server and of what its project says."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from ferrule.cli.exits import EXIT_FAILED, EXIT_USAGE, Quit
from ferrule.cli.loading import lowlevel_of, settings_of
from ferrule.cli.projects import SOURCE_LABELS, url_of
from ferrule.cli.publishing.manifest_members import MANIFEST_VERSION
from ferrule.cli.publishing.projects import ServerProject, lowest_python, project_name
from ferrule.wire.json_types import is_list, is_mapping, is_object

__all__ = [
    "lowest_of",
    "make_manifest",
    "missing_and_more",
    "python_range",
    "semantic_version",
    "user_config_of",
]

_PRE: Final = {"a": "alpha", "alpha": "alpha", "b": "beta", "beta": "beta", "c": "rc", "rc": "rc", "pre": "rc"}


def make_manifest(
    project: ServerProject, app: Any, *, entry_point: str, author: str | None, icon: str | None
) -> dict[str, Any]:
    """Return the manifest of a server.

    Args:
        project: its project. ``[tool.ferrule.bundle.manifest]`` adds and replaces members.
        app: the `MCPServer`, or the low-level ``Server``.
        entry_point: the file that starts the server, with its path in the bundle.
        author: name, or ``Name <mail>``, in place of the project's; ``None`` for that.
        icon: the path of its icon in the bundle; ``None`` without.

    Raises:
        Quit: nothing says who the author is, or which version it is.
    """
    from ferrule.app.server import MCPServer

    table = project.project
    info = lowlevel_of(app).server_info
    about = info.description or _first_paragraph(lowlevel_of(app).instructions)
    config, environment = user_config_of(app)
    tools: list[dict[str, Any]] | None = None
    has_prompts = False
    if isinstance(app, MCPServer):
        has_prompts = bool(app.list_prompts())
        if app.tools.search is None:
            tools = [
                _without_none({"name": each.name, "description": _first_paragraph(each.description)})
                for each in app.list_tools()
            ]
    start = {
        "command": "uv",
        "args": ["run", "--no-dev", "--directory", "${__dirname}", entry_point],
        "env": environment,
    }
    made: dict[str, Any] = {
        "manifest_version": MANIFEST_VERSION,
        "name": project_name(project, info.name),
        "display_name": info.title,
        "version": semantic_version(_version_of(project, info.version)),
        "description": str(table.get("description") or about or info.title or info.name),
        "author": _author_of(project, author),
        **_links_of(project),
        "icon": icon,
        "server": {"type": "uv", "entry_point": entry_point, "mcp_config": start},
        "tools": tools,
        "tools_generated": True if tools is None else None,
        "prompts_generated": has_prompts or None,
        "keywords": list(table.get("keywords") or ()) or None,
        "license": _licence_of(table.get("license")),
        "compatibility": {"runtimes": {"python": python_range(str(table.get("requires-python") or lowest_python()))}},
        "user_config": config or None,
    }
    own = project.options.get("manifest", {})
    if not is_mapping(own):
        raise Quit(EXIT_USAGE, "tool.ferrule.bundle.manifest is a table with members of the manifest")
    return _merged(_without_none(made), own)


def user_config_of(app: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that a host asks for, and the variables in which it hands them to the server.

    They are the settings that the server declares (`MCPServer.declare_settings`). Lists are asked for as one text with
    commas, because hosts do not fill in several values in a variable.
    """
    config: dict[str, Any] = {}
    environment: dict[str, str] = {}
    for field in settings_of(app):
        words = [field.description or field.title]
        if field.is_list:
            words.append("Several are separated by commas.")
        if field.choices:
            words.append(f"One of: {', '.join(field.choices)}.")
        kind = "string" if field.is_secret or field.is_list else field.kind
        default = field.default_text if kind != field.kind or field.is_list else field.default
        sentences = [word if word.endswith((".", "!", "?")) else f"{word}." for word in words]
        config[field.name] = _without_none(
            {
                "type": kind,
                "title": field.title,
                "description": " ".join(sentences) if len(words) > 1 else words[0],
                "required": field.is_required,
                "default": default if isinstance(default, str | int | float | bool) else None,
                "sensitive": field.is_secret or None,
                "min": field.minimum if kind == "number" else None,
                "max": field.maximum if kind == "number" else None,
            }
        )
        environment[field.variable] = f"${{user_config.{field.name}}}"
    return config, environment


def python_range(specifiers: str) -> str:
    """Return ``requires-python`` in the form of the manifest: with spaces, without operators that only Python has.

    A host reads it as a range of npm, in which a comma is a mistake. ``!=`` has no form there and is left out.
    """
    made: list[str] = []
    for each in specifiers.split(","):
        operator, version = re.match(r"\s*([~=!<>]*)\s*(\S*)", each).groups()  # type: ignore[union-attr] # matches all
        parts = version.removesuffix(".*").split(".")
        if not version or operator == "!=":
            continue
        if operator == "~=" and len(parts) > 1:
            made += [f">={version}", f"<{_next(parts[:-1])}"]
        elif operator in ("==", "===") and (version.endswith(".*") or len(parts) < 3):
            made += [f">={'.'.join(parts)}", f"<{_next(parts)}"]
        elif operator in ("==", "==="):
            made.append(f"={version}")
        else:
            made.append(f"{operator}{'.'.join(parts)}")
    return " ".join(made) or ">=3"


def lowest_of(specifiers: str) -> tuple[int, ...]:
    """Return the lowest version of Python, two numbers, that ``requires-python`` names; (0, 0) for none."""
    found = re.findall(r"(?:>=|~=|==)\s*(\d+)(?:\.(\d+))?", specifiers)
    return max(((int(major), int(minor or 0)) for major, minor in found), default=(0, 0))


def semantic_version(version: str) -> str:
    """Return a version of a Python project as a semantic one, with three numbers: ``1.2rc1`` is ``1.2.0-rc.1``."""
    found = re.fullmatch(
        r"v?(?:\d+!)?(\d+(?:\.\d+)*)[-_.]?(?:(a|alpha|b|beta|c|rc|pre)[-_.]?(\d*))?(?:[-_.]?post(\d*))?"
        r"(?:[-_.]?dev(\d*))?(?:\+([a-z0-9.]+))?",
        version.strip().lower(),
    )
    if found is None:
        return version
    release, kind, number, post, dev, local = found.groups()
    numbers = [str(int(part)) for part in release.split(".")]
    before = [f"{_PRE[kind]}.{number or 0}"] if kind else []
    before += [f"dev.{dev or 0}"] if dev is not None else []
    build = [*numbers[3:], *([f"post.{post or 0}"] if post is not None else []), *([local] if local else [])]
    made = ".".join([*numbers, "0", "0"][:3])
    return made + (f"-{'.'.join(before)}" if before else "") + (f"+{'.'.join(build)}" if build else "")


def _next(parts: Sequence[str]) -> str:
    return ".".join([*parts[:-1], str(int(parts[-1]) + 1)])


def _version_of(project: ServerProject, of_server: str) -> str:
    named: Any = project.project.get("version")
    if isinstance(named, str):
        return named
    if of_server != "0":
        return of_server
    if project.is_single:
        return "0.0.0"
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(str(project.project.get("name")))
    except PackageNotFoundError:
        raise Quit(
            EXIT_FAILED,
            "the version is computed when the project is built: set MCPServer(version=…), or install the project",
        ) from None


def _author_of(project: ServerProject, given: str | None) -> dict[str, str]:
    text = given or project.options.get("author")
    if isinstance(text, str):
        found = re.fullmatch(r"\s*([^<]*?)\s*(?:<([^>]*)>)?\s*", text)
        if found is None or not found[1]:
            raise Quit(EXIT_USAGE, f"{text!r} is no author: Name, or 'Name <mail@example.com>'")
        return _without_none({"name": found[1], "email": found[2]})
    people: Any = project.project.get("authors")
    for person in people if is_list(people) else ():
        if is_mapping(person) and (person.get("name") or person.get("email")):
            return _without_none({"name": person.get("name") or person.get("email"), "email": person.get("email")})
    where = "--author 'Name <mail@example.com>'"
    if not project.is_single:
        where = f'`authors = [{{name = "Name"}}]` in the [project] of {project.root / "pyproject.toml"}, or {where}'
    raise Quit(EXIT_USAGE, f"a bundle names its author: {where}")


def _links_of(project: ServerProject) -> dict[str, Any]:
    urls: Any = project.project.get("urls")

    def first(*labels: str) -> str | None:
        return url_of(urls, labels) if is_mapping(urls) else None

    repository = first(*SOURCE_LABELS)
    return {
        "repository": None if repository is None else {"type": "git", "url": repository},
        "homepage": first("homepage", "home", "website"),
        "documentation": first("documentation", "docs"),
        "support": first("support", "issues", "bugs", "issue", "tracker", "issuetracker", "bugtracker", "bugreport"),
    }


def _licence_of(licence: Any) -> str | None:
    if is_mapping(licence):
        text = licence.get("text")
        return text if isinstance(text, str) and "\n" not in text.strip() else None
    return licence if isinstance(licence, str) else None


def _first_paragraph(text: str | None) -> str | None:
    return " ".join((text or "").strip().split("\n\n")[0].split()) or None


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    made = dict(base)
    for key, value in over.items():
        old = made.get(key)
        made[key] = _merged(old, value) if is_object(old) and is_mapping(value) else value
    return made


def missing_and_more(manifest: Mapping[str, Any], started: Collection[str]) -> tuple[list[str], list[str]]:
    """Return the tools that only the manifest names, and those that only the started server lists."""
    named = [each["name"] for each in manifest.get("tools", ())]
    return [name for name in named if name not in started], [name for name in started if name not in named]
