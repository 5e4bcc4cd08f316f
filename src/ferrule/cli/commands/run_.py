"""``ferrule run``: serve a file, or carry a server from one transport to the other."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from ferrule.cli.connect import Connection, target_argument
from ferrule.cli.exits import EXIT_NO_CONNECTION, Quit, explain
from ferrule.cli.output import say
from ferrule.cli.targets import ServerChoice, python_command, read_choice, read_group

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule run server.py
  ferrule run server.py --http --reload
  ferrule run https://tools.example/mcp --oauth
  ferrule run "npx -y some-server" --http --port 8001
  ferrule run mcp.json
"""


@click.command("run", epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@target_argument
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 takes a free one.")
@click.option("--path", default="/mcp", show_default=True, help="Of the endpoint.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes (HTTP).")
@click.option("--reload", is_flag=True, help="Load the file again when a source file changes.")
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="A Host to accept beside loopback.")
@click.option("--allow-origin", "allowed_origins", multiple=True, metavar="URL", help="An Origin to accept.")
@click.option("--mode", default="auto", metavar="ERA", help="Of a bridge: what to speak to the server behind.")
@click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Of a bridge to a URL.")
@click.option("--token", envvar="FERRULE_TOKEN", metavar="TOKEN", help="Of a bridge to a URL (or $FERRULE_TOKEN).")
@click.option("--oauth", is_flag=True, help="Of a bridge to a URL: sign in through the browser when asked to.")
@click.option("--fd", "descriptors", type=int, multiple=True, hidden=True)
@click.option("--exit-on-change", is_flag=True, hidden=True)
def command(
    target: str,
    http: bool,
    host: str,
    port: int,
    path: str,
    workers: int,
    reload: bool,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    mode: str,
    headers: tuple[str, ...],
    token: str | None,
    oauth: bool,
    descriptors: tuple[int, ...],
    exit_on_change: bool,
) -> int:
    """Serve TARGET.

    A Python file with an MCPServer is loaded and served. Anything else (a URL, a command, a server of a
    configuration) is started or connected to and passed on: a URL to hosts that only start processes, a
    process to hosts that only know URLs, in either era of the protocol on either side. A configuration with
    several servers becomes one server, in which a tool is called SERVER_TOOL.
    """
    if not http and (workers > 1 or descriptors):
        raise click.UsageError("--workers needs --http: there is one stdin")
    if not path.startswith("/"):
        raise click.UsageError("--path starts with a slash")
    group = read_group(target)
    choice = None if group is not None else read_choice(target)
    if (choice is None or choice.file is None) and (reload or workers > 1):
        raise click.UsageError("--reload and --workers are for Python files with an MCPServer")
    origins = {"allowed_hosts": list(allowed_hosts) or None, "allowed_origins": list(allowed_origins) or None}
    web: dict[str, Any] = {"path": path, **{name: value for name, value in origins.items() if value}}
    connection = Connection(target, mode=mode, headers=headers, token=token, oauth=oauth)
    if choice is None:
        assert group is not None
        if headers or token:
            raise click.UsageError("--header and --token are for one URL; put 'headers' into the configuration")
        return _bridge(_gateway(*group, connection), target, http, host, port, web)
    if choice.file is not None and http and (reload or workers > 1):
        return _supervise(choice, choice.file, host, port, workers, reload, web)
    if choice.file is not None and not reload:
        if exit_on_change:
            from ferrule.cli.watching import exit_when_sources_change

            exit_when_sources_change(choice.file)
        return _serve_file(choice.file, choice.attribute, http, host, port, web, descriptors)
    behind = _reloading(choice, choice.file) if choice.file is not None else choice
    return _bridge(_proxy(behind, connection), target, http, host, port, web)


# -- a file -----------------------------------------------------------------------------------------------------------


def _serve_file(
    path: Path,
    attribute: str | None,
    http: bool,
    host: str,
    port: int,
    web: dict[str, Any],
    descriptors: tuple[int, ...],
) -> int:
    from ferrule.app.server import MCPServer
    from ferrule.cli.loading import load_app

    app = load_app(path, attribute)
    if not http:
        if isinstance(app, MCPServer):
            app.run("stdio")
        else:
            from ferrule.transports.stdio import run_stdio

            run_stdio(app)
        return 0
    sockets = [socket.socket(fileno=number) for number in descriptors] or None
    if isinstance(app, MCPServer):
        app.check()
        app.run("http", host=host, port=port, sockets=sockets, on_started=None if sockets else _announce(web), **web)
    else:
        _run_http(app, host, port, web)
    return 0


def _announce(web: dict[str, Any]) -> Any:
    def started(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        say(f"serving http://{name}:{port}{web['path']}")

    return started


def _run_http(server: Any, host: str, port: int, web: dict[str, Any]) -> None:
    from ferrule.transports.asgi.endpoint import HttpEndpoint
    from ferrule.transports.asgi.options import HttpOptions
    from ferrule.transports.asgi.security import is_loopback_name
    from ferrule.transports.http_server import run_http

    is_local = is_loopback_name(host) and "allowed_hosts" not in web
    endpoint = HttpEndpoint(server, HttpOptions(loopback=is_local, **web))
    run_http(endpoint, host=host, port=port, on_drain=endpoint.drain, on_started=_announce(web))


def _supervise(
    choice: ServerChoice, path: Path, host: str, port: int, workers: int, reload: bool, web: dict[str, Any]
) -> int:
    if sys.platform == "win32":
        raise click.UsageError("--workers and --reload over HTTP hand sockets to other processes: not on Windows")
    from ferrule.cli.supervisor import Supervisor, bind_sockets
    from ferrule.cli.watching import SourceWatch

    if workers > 1:
        _warn_of_state(path, choice.attribute)
    sockets = bind_sockets(host, port)
    port = sockets[0].getsockname()[1]
    spelled = str(path) if choice.attribute is None else f"{path}:{choice.attribute}"
    worker = python_command("run", spelled, "--http", "--host", host, "--path", web["path"])
    for name, flag in (("allowed_hosts", "--allow-host"), ("allowed_origins", "--allow-origin")):
        worker += [part for value in web.get(name, ()) for part in (flag, value)]
    watch = SourceWatch(path) if reload else None
    announce = _announce(web)
    return Supervisor(worker, sockets, count=workers, watch=watch, on_started=lambda: announce(host, port)).run()


def _warn_of_state(path: Path, attribute: str | None) -> None:
    """Say what several processes do not share; loading the file here also finds its mistakes before it is forked."""
    from ferrule.app.rounds.settings import RoundsSettings
    from ferrule.cli.loading import load_app, lowlevel_of

    app: Any = load_app(path, attribute)
    settings = lowlevel_of(app).attachments.get(RoundsSettings)
    if settings is not None and settings.uses_process_key:
        say("several workers without state_keys: a tool that asks the user goes wrong when the answer reaches another")
    store = getattr(app, "store", None)
    if store is None or store.channel is None:
        say(
            "several workers without a store that they share (MCPServer(store='sqlite:///…' or 'redis://…')): sessions "
            "of the handshake era stay in the worker that opened them; clients start a new one"
        )


# -- a bridge ---------------------------------------------------------------------------------------------------------


def _reloading(choice: ServerChoice, path: Path) -> ServerChoice:
    """The file as a process behind a bridge, which ends when a source changes; the bridge starts the next."""
    target: Any = choice.target
    spelled = str(path) if choice.attribute is None else f"{path}:{choice.attribute}"
    program, *arguments = python_command("run", spelled, "--exit-on-change")
    server = replace(target.server, command=program, args=tuple(arguments), stderr="inherit")
    return replace(choice, target=replace(target, server=server))


def _proxy(choice: ServerChoice, connection: Connection) -> Any:
    from ferrule.client.proxy import proxy

    try:
        return proxy(_heard(choice.target), **connection.client_options())
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _gateway(name: str, targets: Mapping[str, Any], connection: Connection) -> Any:
    from ferrule.cli.gateway import gateway

    options: dict[str, Any] = {**connection.client_options(), "connect_timeout_s": 30.0}
    return gateway({label: _heard(target) for label, target in targets.items()}, name=name, **options)


def _heard(target: Any) -> Any:
    """Its stderr on ours."""
    server: Any = getattr(target, "server", None)
    if server is not None and server.stderr == "capture":
        return replace(target, server=replace(server, stderr=say))
    return target


def _bridge(server: Any, label: str, http: bool, host: str, port: int, web: dict[str, Any]) -> int:
    try:
        if http:
            _run_http(server, host, port, web)
        else:
            from ferrule.transports.stdio import run_stdio

            run_stdio(server)
    except Exception as error:
        if os.environ.get("FERRULE_DEBUG"):
            raise
        status, sentence = explain(error)
        raise Quit(status or EXIT_NO_CONNECTION, f"the bridge to {label} ended: {sentence}") from error
    return 0
