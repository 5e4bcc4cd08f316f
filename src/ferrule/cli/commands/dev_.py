"""``ferrule dev``: the inspector page in the browser."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from ferrule.cli.connect import ConnectionOptions
from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_OK, Quit
from ferrule.cli.output import say
from ferrule.cli.targets import complete_target, read_choice

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule dev server.py
  ferrule dev https://tools.example/mcp --oauth
  ferrule dev "npx -y some-server" --mode legacy
  ferrule dev --config cursor:weather --no-open
"""


@click.command("dev", epilog=_EXAMPLES)
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--config", metavar="NAME", help="A server of a configuration: mcp.json:NAME, cursor:NAME, or NAME.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, show_default=True, help="0 takes a free one.")
@click.option("--no-open", is_flag=True, help="Print the address and leave the browser alone.")
@click.option("--no-reload", is_flag=True, help="Keep the server running when a source file changes.")
@click.option("--mode", default="auto", metavar="ERA", help="auto, legacy, or a revision such as 2025-11-25.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send with each request.")
@click.option("--token", envvar="FERRULE_TOKEN", metavar="TOKEN", help="Bearer token (or $FERRULE_TOKEN).")
@click.option("--oauth", is_flag=True, help="Sign in when the server asks for it; the page shows where.")
@click.option("--root", "roots", multiple=True, type=click.Path(path_type=Path), help="A folder to show; here if none.")
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
    roots: tuple[Path, ...],
) -> int:
    """Look at the server TARGET in the browser, and call it.

    The page is served by this process on 127.0.0.1, for the one address that is printed: a browser that knows its token
    can call the server. A Python file is started again when a source beside it changes. Ctrl-C ends everything.
    """
    if (target is None) == (config is None):
        raise click.UsageError("Name one server: TARGET, or --config NAME")
    choice = read_choice(target or config or "")
    if config is not None and choice.from_config is None:
        raise click.UsageError(f"No configuration has a server {config!r}")
    from ferrule.cli.watching import SourceWatch
    from ferrule.inspector import InspectedTarget, InspectorApp, new_token, run_inspector
    from ferrule.wire.revisions import REVISIONS

    if mode not in ("auto", "legacy", *REVISIONS):
        raise click.UsageError(f"--mode is auto, legacy or one of {', '.join(REVISIONS)}")
    given = ConnectionOptions(choice.text, headers=headers, token=token, oauth=oauth)
    inspected = InspectedTarget(
        choice.text,
        choice.target,
        file=choice.file,
        attribute=choice.attribute,
        headers=given.header_map(),
        token=token,
        oauth=oauth,
        token_storage=given.token_storage(),
    )
    secret = new_token()
    watch = SourceWatch(choice.file) if choice.file is not None and not no_reload else None
    app = InspectorApp(
        inspected,
        token=secret,
        mode=mode,
        roots=[path.absolute().as_uri() for path in roots or (Path.cwd(),)],
        changed=None if watch is None else watch.changed,
    )

    def started(host: str, bound: int) -> None:
        address = f"http://{host}:{bound}/?token={secret}"
        say(f"inspecting {choice.text}: {address}")
        if not no_open:
            _open(
                f"http://{host}:{bound}/?ticket={app.make_ticket()}"
            )  # other users see what a browser is started with

    try:
        run_inspector(app, port=port, on_started=started)
    except OSError as error:
        raise Quit(EXIT_NO_CONNECTION, f"cannot listen on 127.0.0.1:{port}: {error}") from error
    return EXIT_OK


def _open(address: str) -> None:
    """In a thread: some browsers are waited for."""
    import threading
    import webbrowser

    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return  # a text browser would take the terminal
    threading.Thread(target=webbrowser.open, args=(address,), name="ferrule-browser", daemon=True).start()
