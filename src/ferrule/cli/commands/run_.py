"""``ferrule run``: serve a file, or carry a server from one transport to the other."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from click.core import ParameterSource

from ferrule.cli.connect import ConnectionOptions, target_argument
from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_USAGE, Quit, explain
from ferrule.cli.openapi.descriptions import DescriptionOptions, choice_options, is_description, serve_description
from ferrule.cli.output import say
from ferrule.cli.targets import (
    ServerChoice,
    configured_search,
    is_recording,
    python_command,
    read_choice,
    read_group,
    read_search,
    with_variables,
)

if TYPE_CHECKING:
    from ferrule.client.targets import GroupTarget
    from ferrule.search.definitions import ToolSearchMode

__all__ = ["command"]


_FIRST_START_S = 10.0
"""Seconds that a start waits for servers of a configuration that have never been connected."""
_EXAMPLES = """\b
Examples:
  ferrule run server.py
  ferrule run server.py --http --reload
  ferrule run server.py --http --workers 4
  ferrule run https://tools.example/mcp --oauth
  ferrule run "npx -y some-server" --http --port 8001
  ferrule run mcp.json --search
  ferrule run session.jsonl
  ferrule run openapi.json --base-url https://api.example.com --include 'tag:orders'
"""


@click.command("run", epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@target_argument
@click.option("--http", is_flag=True, help="Serve over HTTP instead of stdin and stdout.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 selects a free one.")
@click.option("--path", default="/mcp", show_default=True, help="Path of the endpoint.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes (HTTP).")
@click.option("--stateless", is_flag=True, help="No sessions for legacy clients: needs no store, allows no questions.")
@click.option("--reload", is_flag=True, help="Restart the server when a source file changes.")
@click.option(
    "--allow-host",
    "allowed_hosts",
    multiple=True,
    metavar="NAME",
    help="A Host header to accept, in addition to loopback names.",
)
@click.option("--allow-origin", "allowed_origins", multiple=True, metavar="URL", help="An Origin header to accept.")
@click.option("--mode", default="auto", metavar="ERA", help="For a bridge: the era or revision to use with TARGET.")
@click.option(
    "--header",
    "headers",
    multiple=True,
    metavar="'NAME: VALUE'",
    help="For a bridge to a URL or an API: a header of each request.",
)
@click.option(
    "--token",
    envvar="FERRULE_TOKEN",
    metavar="TOKEN",
    help="For a bridge to a URL: the bearer token (or $FERRULE_TOKEN).",
)
@click.option("--oauth", is_flag=True, help="For a bridge to a URL: sign in through the browser if required.")
@click.option(
    "--search",
    metavar="[MODE]",
    is_flag=False,
    flag_value="on",
    help="For a bridge or a configuration: list a search in place of all tools; MODE is on, auto (above 60 tools), a "
    "number of tools, or off.",
)
@environment_options
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error", "critical", "off"]),
    help="Lowest level of log records on stderr (HTTP: warning; stdio: what Python itself does).",
)
@click.option("--access-log", is_flag=True, help="With --http: log each request on stderr, without its query.")
@click.option("--base-url", metavar="URL", help="For an OpenAPI description: the base URL of the API.")
@choice_options
@click.option(
    "--auth-env", metavar="VARIABLE", help="For an OpenAPI description: the variable with the API's token or key."
)
@click.option("--fd", "descriptors", type=int, multiple=True, hidden=True)
@click.option("--exit-on-change", is_flag=True, hidden=True)
def command(
    target: str,
    http: bool,
    host: str,
    port: int,
    path: str,
    workers: int,
    stateless: bool,
    reload: bool,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    mode: str,
    headers: tuple[str, ...],
    token: str | None,
    oauth: bool,
    search: str | None,
    env: tuple[str, ...],
    env_files: tuple[Path, ...],
    log_level: str | None,
    access_log: bool,
    base_url: str | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    auth_env: str | None,
    descriptors: tuple[int, ...],
    exit_on_change: bool,
) -> int:
    """Serve TARGET.

    A Python file with an MCPServer is loaded and served. For anything else (a URL, a command, a server of a
    configuration) this is a bridge: it makes a URL usable for hosts that only start processes, and a process
    for hosts that only support URLs, in both eras of the protocol. A configuration with several servers
    becomes one server, in which a tool is called SERVER_TOOL. With --search, or "toolSearch"
    beside "mcpServers", it lists three tools that find, describe and call the others.

    A recording of `ferrule trace` (.jsonl) becomes a server that answers as the recorded one did.

    An OpenAPI description (JSON or YAML, a file or a URL) becomes a server whose tools are the operations that
    --include names; its requests go to --base-url.
    """
    source = click.get_current_context().get_parameter_source
    for option in ("host", "port", "path", "stateless", "allowed_hosts", "allowed_origins", "access_log"):
        if not http and source(option) is ParameterSource.COMMANDLINE:
            renamed = {"allowed_hosts": "allow-host", "allowed_origins": "allow-origin", "access_log": "access-log"}
            name = renamed.get(option, option)
            raise click.UsageError(f"--{name} needs --http: without it the server speaks over stdin and stdout")
    if not http and (workers > 1 or descriptors):
        raise click.UsageError("--workers needs --http: there is one stdin")
    if not path.startswith("/"):
        raise click.UsageError("--path starts with a slash")
    if workers > 1 and reload:
        raise click.UsageError("--reload is for one process: leave out --workers while you develop")
    origins = {"allowed_hosts": list(allowed_hosts) or None, "allowed_origins": list(allowed_origins) or None}
    web: dict[str, Any] = {"path": path, **{name: value for name, value in origins.items() if value}}
    if stateless:
        web["stateless"] = True
    if log_level is not None:
        web["log_level"] = None if log_level == "off" else log_level
        if not http:
            from ferrule.transports.hosting.uvicorn_server import log_to_stderr

            log_to_stderr(web["log_level"])
    if access_log:
        web["access_log"] = True
    api = DescriptionOptions(base_url=base_url, include=include, exclude=exclude, auth_env=auth_env)
    mode_of_search = None if search is None else read_search(search, "--search")
    variables = read_environment(env, env_files)
    os.environ.update(variables)  # a file is loaded here, and a command inherits this environment
    if is_description(target, is_asked=api.are_given):
        if search is not None:
            raise click.UsageError("--search is for a bridge: an OpenAPI description has a search above 60 tools")
        if reload or workers > 1:
            raise click.UsageError("--reload and --workers are for Python files: `ferrule new --from` makes one")
        if oauth or source("token") is ParameterSource.COMMANDLINE:
            raise click.UsageError("The token of an API comes from the environment: --auth-env VARIABLE")
        api.headers = ConnectionOptions(target, headers=headers).header_map()
        return _serve_app(serve_description(target, api), http, host, port, web, ())
    if api.are_given:
        raise click.UsageError(
            f"--base-url, --include, --exclude and --auth-env are for an OpenAPI description, which {target!r} is not"
        )
    if is_recording(target):
        if reload or workers > 1 or search is not None:
            raise click.UsageError("--reload, --workers and --search are not for a recording")
        return _serve_recording(target, http, host, port, web)
    group = read_group(target)
    choice = None if group is not None else read_choice(target)
    if (choice is None or choice.file is None) and (reload or workers > 1):
        raise click.UsageError("--reload and --workers are for Python files with an MCPServer")
    if choice is not None and choice.file is not None and search is not None:
        raise click.UsageError("--search is for a bridge: in a Python file it is MCPServer(tool_search=...)")
    if mode_of_search is None:
        mode_of_search = configured_search(target)
    connection = ConnectionOptions(target, mode=mode, headers=headers, token=token, oauth=oauth)
    if choice is None:
        assert group is not None
        if headers or token:
            raise click.UsageError("--header and --token are for one URL; put 'headers' into the configuration")
        name, found = group
        servers = {label: _with_variables_of(each, variables) for label, each in found.servers.items()}
        behind = replace(found, servers=servers)
        return _bridge(_gateway(name, behind, connection, mode_of_search), target, http, host, port, web)
    if reload or exit_on_change:
        from ferrule.cli.watching import read_pages_again

        read_pages_again()
    if choice.file is not None and workers > 1:
        return _serve_workers(choice.file, choice.attribute, host, port, workers, web)
    if choice.file is not None and http and reload:
        return _supervise(choice, choice.file, host, port, web)
    if choice.file is not None and not reload:
        if exit_on_change:
            from ferrule.cli.watching import exit_when_sources_change

            exit_when_sources_change(choice.file)
        return _serve_file(choice.file, choice.attribute, http, host, port, web, descriptors)
    choice = replace(choice, target=with_variables(choice.target, variables))
    if choice.settings is not None:
        from ferrule.client.targets import GroupTarget

        alone = GroupTarget({choice.name: choice.target}, choice.name, {choice.name: choice.settings})
        made = _gateway(choice.name, alone, connection, mode_of_search, prefix="")
        return _bridge(made, target, http, host, port, web)
    forwarded = _reloading(choice, choice.file) if choice.file is not None else choice
    return _bridge(_proxy(forwarded, connection, mode_of_search), target, http, host, port, web)


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
    from ferrule.cli.loading import load_app

    return _serve_app(load_app(path, attribute), http, host, port, web, descriptors)


def _serve_recording(target: str, http: bool, host: str, port: int, web: dict[str, Any]) -> int:
    from ferrule.testing.recordings.stand_in import Recording

    try:
        server = Recording(target.strip()).lowlevel
    except (OSError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    return _serve_app(server, http, host, port, web, ())


def _serve_app(app: Any, http: bool, host: str, port: int, web: dict[str, Any], descriptors: tuple[int, ...]) -> int:
    from ferrule.transports.hosting.running import run

    if not http:
        run(app)
        return 0
    sockets = [socket.socket(fileno=number) for number in descriptors] or None
    run(app, "http", host=host, port=port, sockets=sockets, on_started=None if sockets else _announce(web), **web)
    return 0


def _serve_workers(path: Path, attribute: str | None, host: str, port: int, workers: int, web: dict[str, Any]) -> int:
    from functools import partial

    from ferrule.app.server import MCPServer
    from ferrule.app.serving.http import serve_workers
    from ferrule.cli.loading import load_app
    from ferrule.transports.hosting.workers import WorkerError

    found = load_app(
        path, attribute
    )  # loaded here too, to check what workers must share, and to report errors of the file once
    if not isinstance(found, MCPServer):
        raise click.UsageError("--workers needs an MCPServer: start several processes of a low-level server yourself")
    found.check()
    app: Any = cast("Any", found)
    options = {**web, "on_started": _announce(web)}
    try:
        serve_workers(app, host, port, workers, options, partial(load_app, path.resolve(), attribute))
    except WorkerError as error:
        # The library checks and words this; only the name of the option is another one here.
        raise Quit(EXIT_USAGE, str(error).replace("run(stateless=True) or run(legacy=False)", "--stateless")) from error
    return 0


def _announce(web: dict[str, Any]) -> Any:
    from ferrule.transports.hosting.uvicorn_server import address, how_to_connect

    def started(host: str, port: int) -> None:
        say(f"serving {address(host, port, web['path'])}")
        say(how_to_connect(host, port, web["path"]))

    return started


def _supervise(choice: ServerChoice, path: Path, host: str, port: int, web: dict[str, Any]) -> int:
    if sys.platform == "win32":
        raise click.UsageError("--reload over HTTP hands sockets to another process: not on Windows")
    from ferrule.cli.supervisor import Supervisor
    from ferrule.cli.watching import SourceWatch
    from ferrule.transports.hosting.uvicorn_server import bind

    sockets = bind(host, port)
    port = sockets[0].getsockname()[1]
    spelled = str(path) if choice.attribute is None else f"{path}:{choice.attribute}"
    server = python_command("run", spelled, "--http", "--host", host, "--path", web["path"])
    for name, flag in (("allowed_hosts", "--allow-host"), ("allowed_origins", "--allow-origin")):
        server += [part for value in web.get(name, ()) for part in (flag, value)]
    if web.get("stateless"):
        server.append("--stateless")
    if "log_level" in web:
        server += ["--log-level", web["log_level"] or "off"]
    if web.get("access_log"):
        server.append("--access-log")
    announce = _announce(web)
    return Supervisor(server, sockets, SourceWatch(path), on_started=lambda: announce(host, port)).run()


# -- a bridge ---------------------------------------------------------------------------------------------------------


def _reloading(choice: ServerChoice, path: Path) -> ServerChoice:
    """Return the file as a process behind a bridge; it ends when a source changes, and the bridge starts a new one."""
    target: Any = choice.target
    spelled = str(path) if choice.attribute is None else f"{path}:{choice.attribute}"
    program, *arguments = python_command("run", spelled, "--exit-on-change")
    server = replace(target.server, command=program, args=tuple(arguments), stderr="inherit")
    return replace(choice, target=replace(target, server=server))


def _proxy(choice: ServerChoice, connection: ConnectionOptions, search: ToolSearchMode) -> Any:
    from ferrule.client.gateway.proxy import proxy

    try:
        return proxy(_with_stderr(choice.target), tool_search=search, **connection.client_options())
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from error


def _gateway(
    name: str, group: GroupTarget, connection: ConnectionOptions, search: ToolSearchMode, prefix: str | None = None
) -> Any:
    """Return the server in front of the servers of a configuration, each used as its entry says.

    Args:
        name: its name.
        group: the servers.
        connection: how they are connected to.
        search: the mode of a search.
        prefix: see `UpstreamSettings`.
    """
    from ferrule.client.config_file import DisabledServer
    from ferrule.client.gateway.gateway import Gateway
    from ferrule.client.gateway.upstreams.list_cache import default_folder
    from ferrule.client.gateway.upstreams.settings import settings_from

    refused = next((label for label, said in group.settings.items() if said.auth is not None), None)
    if refused is not None:
        raise click.UsageError(f"{refused!r} has 'auth', which `ferrule gateway` reads")
    options: dict[str, Any] = {**connection.client_options(), "connect_timeout_s": 30.0}
    wanted = {label: each for label, each in group.servers.items() if not isinstance(each, DisabledServer)}
    if not wanted:
        raise click.UsageError(f"Every server of {group.label} is disabled")
    options["settings"] = {label: replace(settings_from(said), prefix=prefix) for label, said in group.settings.items()}
    heard = {label: _with_stderr(target) for label, target in wanted.items()}
    made = Gateway(heard, name=name, tool_search=search, list_cache=default_folder(), open_s=_FIRST_START_S, **options)
    return made.server


def _with_variables_of(target: Any, variables: Mapping[str, str]) -> Any:
    """Return the target; if it is a process, with further variables."""
    from ferrule.client.targets import StdioTarget

    return with_variables(target, variables) if isinstance(target, StdioTarget) else target


def _with_stderr(target: Any) -> Any:
    """Return the target; if it is a process, its stderr is forwarded to that of this process."""
    from ferrule.client.targets import StdioTarget

    if isinstance(target, StdioTarget) and target.server.stderr == "capture":
        return replace(target, server=replace(target.server, stderr=say))
    return target


def _bridge(server: Any, label: str, http: bool, host: str, port: int, web: dict[str, Any]) -> int:
    try:
        from ferrule.transports.hosting.running import run

        if http:
            run(server, "http", host=host, port=port, on_started=_announce(web), **web)
        else:
            run(server)
    except Exception as error:
        if os.environ.get("FERRULE_DEBUG"):
            raise
        status, sentence = explain(error)
        raise Quit(status or EXIT_NO_CONNECTION, f"the bridge to {label} ended: {sentence}") from error
    return 0
