"""Judges a ``server.json`` as the MCP registry does, before anything is uploaded.

The rules are those of the schema and of the official registry's requirements. With a copy of the schema at hand it is
applied, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from ferrule.auth.urls import HostClass, class_of_host
from ferrule.cli.doctor.findings import Report
from ferrule.cli.projects import Project, read_bounded
from ferrule.cli.publishing.server_json import claimed_name, takes_icon
from ferrule.extensions.cards.documents import MAX_TEXT, NAME
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError

__all__ = ["judge", "judge_by_schema"]

_RANGE: Final = re.compile(r"[\^~<>=*|]|\b\d+(?:\.\d+)*\.x\b|\s-\s|\blatest\b", re.IGNORECASE)
_MAX_NAME, _MAX_VERSION = 200, 255


def judge(report: Report, document: Mapping[str, Any], app: Any, project: Project | None, written: Path | None) -> None:
    """Report what the registry would refuse, and what would not work for those who install the server.

    Args:
        report: takes the results.
        document: the ``server.json``.
        app: the `MCPServer` it was made of.
        project: its project; ``None`` without.
        written: a ``server.json`` of an earlier time; ``None`` without.
    """
    _judge_name(report, str(document["name"]))
    _judge_version(report, str(document["version"]), app, project)
    _judge_texts(report, app, project)
    if project is not None:
        _judge_package(report, str(document["name"]), project)
    for remote in document.get("remotes", ()):
        _judge_remote(report, str(remote["url"]))
    if project is None and not document.get("remotes"):
        report.add("nothing-to-reach", "fail", "it has neither a package nor a URL: clients cannot use it",
                   "Put the file into a project (pyproject.toml with [project]), or give app.card(url=…).")  # fmt: skip
    if written is not None:
        _compare(report, document, written)


def judge_by_schema(report: Report, document: Mapping[str, Any], schema: Path) -> None:
    """Report what a copy of the registry's schema refuses.

    Raises:
        ValueError: the file is no schema.
        OSError: it cannot be read.
    """
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(decode(read_bounded(schema)), retriever=_retrieve_nothing)
    except (DecodeError, ValueError, TypeError) as error:
        raise ValueError(f"{schema} is no JSON Schema: {str(error).partition(chr(10))[0]}") from error
    problems = [f"{'.'.join(map(str, each.instance_path)) or 'server.json'}: {each.message}"
                for each in validator.iter_errors(dict(document))]  # fmt: skip
    if problems:
        report.add("schema", "fail", "the schema refuses it:\n  " + "\n  ".join(problems[:20]), problems=problems)
    else:
        report.add("schema", "ok", f"{schema.name} accepts it")


def _retrieve_nothing(uri: str) -> Any:
    raise ValueError(f"it refers to {uri}, and nothing is loaded")


def _judge_name(report: Report, name: str) -> None:
    namespace = name.partition("/")[0]
    if not NAME.fullmatch(name) or len(name) > _MAX_NAME:
        says = f"{name!r} is not a registry name: a domain in reverse-DNS form, one slash, a name"
        fix = "app.card(name='io.github.YOU/NAME') with a GitHub account, 'com.example/NAME' with a domain."
        report.add("name", "fail", says, fix)
        return
    if "." not in namespace:
        says = f"the namespace {namespace!r} is not a domain in reverse-DNS form, so its ownership cannot be proved"
        fix = "app.card(name='io.github.YOU/NAME'), or the address of the server: app.card(url='https://…')."
        report.add("namespace", "fail", says, fix)
        return
    account = namespace.removeprefix("io.github.")
    domain = ".".join(reversed(namespace.split(".")))
    owned = f"the domain {domain}" if account == namespace else f"the GitHub account {account}"
    report.add("name", "ok", f"{name}; you will have to prove that you own {owned}")


def _judge_version(report: Report, version: str, app: Any, project: Project | None) -> None:
    if _RANGE.search(version) or len(version) > _MAX_VERSION or not version:
        report.add("version", "fail", f"{version!r} is no single version: ranges and 'latest' are refused",
                   "One version, such as 1.2.0.")  # fmt: skip
        return
    if project is not None and project.version is None and app.version == "0":
        report.add("version", "fail", "pyproject.toml has no version (it is computed), and neither has the server",
                   "MCPServer(version=importlib.metadata.version('…')).")  # fmt: skip
        return
    if project is not None and project.version is not None and app.version not in ("0", project.version):
        report.add("versions-differ", "fail",
                   f"the version is {project.version} in pyproject.toml, {app.version} in the server",
                   "MCPServer(version=importlib.metadata.version('…')) is always that of the package.")  # fmt: skip
    report.add("version", "ok", f"version {version}; the registry takes each version once")


def _judge_texts(report: Report, app: Any, project: Project | None) -> None:
    info = app.lowlevel.server_info
    description = info.description or (project.description if project else "")
    if not description:
        report.add("description", "warn", "there is no description; the name is used in its place",
                   "MCPServer(description=…), or description in pyproject.toml.")  # fmt: skip
    elif len(" ".join(description.split())) > MAX_TEXT:
        report.add("description", "warn", f"the description is longer than {MAX_TEXT} characters, and was shortened",
                   "Shorten it to one sentence.")  # fmt: skip
    if not all(takes_icon(icon) for icon in info.icons or ()):
        report.add("icons", "warn", "icons that the registry does not take are left out",
                   "An https URL of at most 255 characters; PNG, JPEG, SVG or WebP; sizes like 48x48.")  # fmt: skip


def _judge_package(report: Report, name: str, project: Project) -> None:
    if not project.scripts:
        report.add("no-command", "fail", f"`uvx {project.name}` fails: the package has no command",
                   f'[project.scripts]  {project.name} = "MODULE:main"')  # fmt: skip
    elif project.name not in project.scripts:
        report.add("other-command", "fail", f"`uvx {project.name}` fails: the command is called {project.scripts[0]}",
                   f"Add a command with the name of the package, {project.name}, to [project.scripts].")  # fmt: skip
    else:
        report.add("command", "ok", f"`uvx {project.name}` starts it")
    claimed = claimed_name(project)
    line = f"mcp-name: {name}"
    if project.readme is None or not project.readme.is_file():
        report.add("no-readme", "fail", "pyproject.toml names no README, and the registry looks for a line in it",
                   f'readme = "README.md", with the line `{line}`, in a comment if you like.')  # fmt: skip
    elif claimed != name:
        says = f"names {claimed!r}" if claimed else "does not name it"
        report.add("not-claimed", "fail", f"{project.readme.name} {says}: nothing on PyPI proves that it is yours",
                   f"Add the line `{line}`, in a comment if you like, and release the package.")  # fmt: skip
    else:
        report.add("claimed", "ok", f"{project.readme.name} has the line `{line}`")


def _judge_remote(report: Report, url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" or class_of_host(parts.hostname or "") is not HostClass.PUBLIC:
        report.add("remote", "fail", f"{url} is not an https URL on the public internet", "app.card(url='https://…').")
    else:
        report.add("remote", "ok", f"reached at {url}")


def _compare(report: Report, document: Mapping[str, Any], written: Path) -> None:
    try:
        before: Any = decode(read_bounded(written))
    except (DecodeError, ValueError):
        report.add("written", "warn", f"{written} is no JSON", "--write replaces it.")
        return
    if before == document:
        report.add("written", "ok", f"{written.name} has the same content")
    elif isinstance(before, dict) and before.get("version") == document["version"]:  # pyright: ignore[reportUnknownMemberType]
        report.add("same-version", "warn", f"{written.name} has this version with another content; if that was "
                   "published, the registry refuses this one", "Raise the version, or --write.")  # fmt: skip
    else:
        report.add("written", "note", f"{written.name} is of another version", "--write replaces it.")
