"""``ferrule bundle``: a server as a file that desktop hosts install (``.mcpb``)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ferrule.cli.exits import EXIT_FAILED, Quit
from ferrule.cli.files import replace_file
from ferrule.cli.output import print_text, say
from ferrule.cli.targets import complete_target

if TYPE_CHECKING:
    from ferrule.cli.publishing.bundles import Bundle, BundleOptions

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule bundle server.py --author 'Ada <ada@example.com>'
  ferrule bundle .
  ferrule bundle . -o dist/weather.mcpb --set api_key
  ferrule bundle src/weather/server.py:app --include 'data/*.csv' --no-start
"""


@click.command("bundle", epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@click.argument("target", shell_complete=complete_target)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="FILE to write (NAME-VERSION.mcpb)."
)
@click.option("--author", metavar="'NAME <MAIL>'", help="Who made the server, in place of the project's authors.")
@click.option("--icon", metavar="FILE", help="A PNG file of the project (default: icon.png, if there is one).")
@click.option("--include", multiple=True, metavar="PATTERN", help="Further files of the project, such as 'data/*.csv'.")
@click.option(
    "--with",
    "carried",
    multiple=True,
    metavar="WHEEL|REQUIREMENT",
    help="A package that the bundle carries as a file; for a file alone also a further requirement.",
)
@click.option(
    "--set",
    "given",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting for the trial, never packed; KEY alone takes the value of its variable in this shell.",
)
@click.option("--not-secret", multiple=True, metavar="PATH", help="A file that may look like a secret.")
@click.option("--no-start", is_flag=True, help="Do not install and start the bundle to try it.")
def command(
    target: str,
    output: Path | None,
    author: str | None,
    icon: str | None,
    include: tuple[str, ...],
    carried: tuple[str, ...],
    given: tuple[str, ...],
    not_secret: tuple[str, ...],
    no_start: bool,
) -> None:
    """Make a bundle (.mcpb) of TARGET: a Python file, or a folder with pyproject.toml.

    A host such as Claude Desktop installs it with a double click and asks for the settings that the server declares.
    Before the file is written, the bundle is unpacked into an empty folder, installed, started and asked for its tools.
    """
    from ferrule.cli.loading import load_app
    from ferrule.cli.publishing.bundles import BundleOptions, make_bundle
    from ferrule.cli.publishing.projects import read_project

    project = read_project(target)
    app = load_app(project.root / project.file, project.attribute)
    options = _with_carried(carried, BundleOptions(author=author, icon=icon, include=include, not_secret=not_secret))
    bundle = make_bundle(project, app, options)
    for note in bundle.notes:
        say(f"note: {note}")
    values = _given_values(given, bundle)
    if not no_start:
        bundle = _tried(bundle, values)
    path = output or Path(bundle.file_name)
    content = bundle.archive()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, content, 0o644)
    print_text(str(path))
    tools = bundle.manifest.get("tools", [])
    say(f"{len(bundle.files) + 1} files, {len(content) / 1000:.0f} kB, {_count(len(tools))} named in the manifest")
    if no_start:
        say("not tried: it was not installed and not started (--no-start)")


def _with_carried(carried: tuple[str, ...], options: BundleOptions) -> BundleOptions:
    from dataclasses import replace

    wheels = [Path(text) for text in carried if text.endswith(".whl")]
    missing = next((path for path in wheels if not path.is_file()), None)
    if missing is not None:
        raise click.UsageError(f"There is no wheel {str(missing)!r}")
    requirements = [text for text in carried if not text.endswith(".whl")]
    folder = next((text for text in requirements if os.sep in text or Path(text).exists()), None)
    if folder is not None:
        raise click.UsageError(f"--with takes a wheel or a requirement, not {folder!r}; `uv build` makes a wheel of it")
    return replace(options, wheels=wheels, requirements=requirements)


def _given_values(given: tuple[str, ...], bundle: Bundle) -> dict[str, str]:
    known = bundle.manifest.get("user_config", {})
    variables = bundle.manifest["server"]["mcp_config"].get("env", {})
    values: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if key not in known:
            raise click.UsageError(f"The server has no setting {key!r}; it has {', '.join(known) or 'none'}")
        if not sign:
            variable = next((name for name, place in variables.items() if place == f"${{user_config.{key}}}"), key)
            if variable not in os.environ:
                raise click.UsageError(f"The variable {variable} is not set here: --set {key}=VALUE")
            value = os.environ[variable]
        values[key] = value
    return values


def _tried(bundle: Bundle, values: dict[str, str]) -> Bundle:
    """Return the bundle after it worked; with ``tools_generated`` if the started server has further tools."""
    from dataclasses import replace

    from ferrule.cli.publishing.manifests import missing_and_more
    from ferrule.cli.publishing.trials import start_bundle

    say("installing and starting it in an empty folder …")
    try:
        started = start_bundle(bundle, values)
    except Quit as problem:
        if problem.status == EXIT_FAILED:
            advice = "\nA package that is on no index is carried in the bundle: --with PACKAGE-….whl"
            raise Quit(problem.status, f"no bundle was written, because {problem}{advice}") from problem
        needed = [key for key, option in bundle.manifest.get("user_config", {}).items() if option.get("required")]
        left = [key for key in needed if key not in values]
        advice = f"\nTried with placeholders: give real values with --set {left[0]}" if left else ""
        raise Quit(problem.status, f"no bundle was written, because {problem}{advice}") from problem
    missing, more = missing_and_more(bundle.manifest, started.tools)
    if missing:
        raise Quit(
            EXIT_FAILED,
            f"no bundle was written, because the started server does not list {', '.join(missing)}, as the file does "
            "here: do its tools depend on the machine, on variables or on packages?",
        )
    say(f"{started.name or 'it'} works: installed by {started.installer}, started, {_count(len(started.tools))} listed")
    if more and "tools" in bundle.manifest:
        say(f"note: tools that exist only when it runs ({', '.join(more[:5])}): tools_generated is set")
        return replace(bundle, manifest={**bundle.manifest, "tools_generated": True})
    return bundle


def _count(tools: int) -> str:
    return f"{tools} tool" if tools == 1 else f"{tools} tools"
