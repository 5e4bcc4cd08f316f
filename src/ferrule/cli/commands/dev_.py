"""``ferrule dev``: the inspector page in the browser."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ferrule.cli.connect import ConnectionOptions
from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_OK, Quit
from ferrule.cli.output import say
from ferrule.cli.targets import complete_target, read_choice, server_names, with_server, with_variables

if TYPE_CHECKING:
    from ferrule.cli.targets import ServerChoice
    from ferrule.inspector import InspectedTarget

__all__ = ["command", "inspect_in_browser"]


_EXAMPLES = """\b
Examples:
  ferrule dev server.py
  ferrule dev https://tools.example/mcp --oauth
  ferrule dev "npx -y some-server" --mode legacy
  ferrule dev mcp.json
  ferrule dev --config cursor:weather --no-open
"""


@click.command("dev", epilog=_EXAMPLES)
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--config", metavar="NAME", help="A server of a configuration: mcp.json:NAME, cursor:NAME, or NAME.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 selects a free one.")
@click.option("--no-open", is_flag=True, help="Print the address and do not open a browser.")
@click.option("--no-reload", is_flag=True, help="Keep the server running when a source file changes.")
@click.option("--mode", default="auto", metavar="ERA", help="auto, legacy, or a revision such as 2025-11-25.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header of each request.")
@click.option("--token", envvar="FERRULE_TOKEN", metavar="TOKEN", help="Bearer token (or $FERRULE_TOKEN).")
@click.option("--oauth", is_flag=True, help="Sign in when the server asks for it; the page shows where.")
@environment_options
@click.option(
    "--root",
    "roots",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A folder that the server may use; the current one if none is given.",
)
def command(
    target: str | None,
    config: str | None,
    port: int,
    no_open: bool,
    no_reload: bool,
    mode: str,
    headers: tuple[str, ...],
    token: str | None,
    oauth: bool,
    env: tuple[str, ...],
    env_files: tuple[Path, ...],
    roots: tuple[Path, ...],
) -> int:
    """Inspect the server TARGET in the browser, and call it.

    This process serves the page on 127.0.0.1. The printed address has a token, which a browser needs to call the
    server. A Python file is restarted when a source file in its folder changes. Ctrl-C ends everything.

    A configuration with several servers shows all of them, each with its state; the page switches between them.
    """
    if (target is None) == (config is None):
        raise click.UsageError("Name one server: TARGET, or --config NAME")
    names = server_names(target or config or "")
    if len(names) > 1:
        if headers or token:
            raise click.UsageError("--header and --token are for one URL; put 'headers' into the configuration")
        _inspect_group(
            target or config or "",
            names,
            ConnectionOptions(target or config or "", mode=mode, oauth=oauth),
            read_environment(env, env_files),
            port=port,
            opens=not no_open,
            roots=roots,
        )
        return EXIT_OK
    choice = read_choice(target or config or "")
    if config is not None and choice.from_config is None:
        raise click.UsageError(f"No configuration has a server {config!r}")
    choice = replace(choice, target=with_variables(choice.target, read_environment(env, env_files)))
    given = ConnectionOptions(choice.text, mode=mode, headers=headers, token=token, oauth=oauth)
    inspect_in_browser(
        choice, given, watched=None if no_reload else choice.file, port=port, opens=not no_open, roots=roots
    )
    return EXIT_OK


def _inspect_group(
    text: str,
    names: Sequence[str],
    given: ConnectionOptions,
    variables: Mapping[str, str],
    *,
    port: int,
    opens: bool,
    roots: Sequence[Path],
) -> None:
    """Serve the page of all servers of a configuration; a malformed entry is shown as a server that failed."""
    from ferrule.inspector import InspectedTarget

    targets: dict[str, InspectedTarget | str] = {}
    for name in names:
        try:
            choice = read_choice(with_server(text, name))
        except click.UsageError as error:
            targets[name] = error.message
            continue
        own = choice.target if choice.is_http else with_variables(choice.target, variables)
        targets[name] = InspectedTarget(choice.text, own, oauth=given.oauth, token_storage=given.token_storage())
    try:
        _serve_page(text, targets, given, None, port=port, opens=opens, roots=roots)
    except ValueError as error:
        raise click.UsageError(f"{text}: {error}") from error


def inspect_in_browser(
    choice: ServerChoice,
    given: ConnectionOptions,
    *,
    watched: Path | None,
    port: int = 0,
    opens: bool = True,
    roots: Sequence[Path] = (),
) -> None:
    """Serve the inspector page of a server until a signal comes.

    Args:
        choice: the server.
        given: how to connect to it.
        watched: a file in whose folder a changed source file restarts the server; ``None`` for none.
        port: 0 selects a free one.
        opens: open a browser.
        roots: folders that the server may use; the current one if none is given.

    Raises:
        click.UsageError: there is no such mode.
        Quit: the port cannot be used.
    """
    from ferrule.inspector import InspectedTarget

    inspected = InspectedTarget(
        choice.text,
        choice.target,
        file=choice.file,
        attribute=choice.attribute,
        headers=given.header_map(),
        token=given.token,
        oauth=given.oauth,
        token_storage=given.token_storage(),
    )
    _serve_page(choice.text, inspected, given, watched, port=port, opens=opens, roots=roots)


def _serve_page(
    text: str,
    inspected: InspectedTarget | Mapping[str, InspectedTarget | str],
    given: ConnectionOptions,
    watched: Path | None,
    *,
    port: int,
    opens: bool,
    roots: Sequence[Path],
) -> None:
    from ferrule.cli.watching import SourceWatch, read_pages_again
    from ferrule.inspector import InspectorApp, new_token, run_inspector
    from ferrule.wire.revisions import REVISIONS

    if given.mode not in ("auto", "legacy", *REVISIONS):
        raise click.UsageError(f"--mode is auto, legacy or one of {', '.join(REVISIONS)}")
    secret = new_token()
    watch = None if watched is None else SourceWatch(watched)
    if watched is not None:
        read_pages_again()
    app = InspectorApp(
        inspected,
        token=secret,
        mode=given.mode,
        roots=[path.absolute().as_uri() for path in roots or (Path.cwd(),)],
        changed=None if watch is None else watch.changed,
    )

    def started(host: str, bound: int) -> None:
        address = f"http://{host}:{bound}/?token={secret}"
        say(f"inspecting {text}: {address}")
        if opens:
            _open(
                f"http://{host}:{bound}/?ticket={app.make_ticket()}"
            )  # other users can see the arguments of a browser's process

    try:
        run_inspector(app, port=port, on_started=started)
    except OSError as error:
        raise Quit(EXIT_NO_CONNECTION, f"cannot listen on 127.0.0.1:{port}: {error}") from error


def _open(address: str) -> None:
    """Open the address in a browser, in a thread: for some browsers, `webbrowser.open` waits until they end."""
    import threading
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return  # a text browser would use this terminal
    threading.Thread(target=webbrowser.open, args=(address,), name="ferrule-browser", daemon=True).start()
