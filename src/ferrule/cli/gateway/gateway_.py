"""``ferrule gateway``: serve all servers of a configuration at one address."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path
from typing import Any

import click

from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.exits import EXIT_NO_CONNECTION, EXIT_USAGE, Quit, explain
from ferrule.cli.output import say

__all__ = ["command"]

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_EXAMPLES = """\b
Examples:
  ferrule gateway mcp.json
  ferrule gateway mcp.json --stdio
  ferrule gateway cursor: --port 9000
  ferrule gateway mcp.json --workers 2 --store redis://localhost:6379/0
"""


@click.command("gateway", epilog=_EXAMPLES, context_settings={"max_content_width": 100})
@click.argument("configuration", metavar="CONFIG")
@click.option("--stdio", is_flag=True, help="Serve over stdin and stdout instead of HTTP.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="0 selects a free one.")
@click.option("--path", default="/mcp", show_default=True, help="Path of the endpoint; a view is below it.")
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes.")
@click.option(
    "--store", metavar="URL", help="Where workers share sessions and tokens: redis://…, postgresql://… or sqlite:///…"
)
@click.option("--stateless", is_flag=True, help="No sessions for legacy clients: needs no store, allows no questions.")
@click.option(
    "--search",
    metavar="[MODE]",
    is_flag=False,
    flag_value="on",
    help="List a search in place of all tools; MODE is on, auto (above 60 tools), a number, or off.",
)
@click.option("--allow-host", "allowed_hosts", multiple=True, metavar="NAME", help="A Host header to accept.")
@click.option("--allow-origin", "allowed_origins", multiple=True, metavar="URL", help="An Origin header to accept.")
@partial(environment_options, user="${NAME} in CONFIG")
def command(
    configuration: str,
    stdio: bool,
    host: str,
    port: int,
    path: str,
    workers: int,
    store: str | None,
    stateless: bool,
    search: str | None,
    allowed_hosts: tuple[str, ...],
    allowed_origins: tuple[str, ...],
    env: tuple[str, ...],
    env_files: tuple[Path, ...],
) -> int:
    """Serve every server of CONFIG at one address.

    CONFIG is a configuration as hosts write it (mcp.json), or HOST: for that of an installed host. A tool SEARCH
    of the server DOCS is called docs_search. The file is followed: a change, or SIGHUP, takes what changed and
    leaves all other servers and sessions alone. "gateway" in the file says who may use it, and which views it has.
    """
    from ferrule.cli.gateway.application import GatewayApplication, load_gateway
    from ferrule.cli.targets import read_search
    from ferrule.client.gateway.upstreams.list_cache import default_folder

    if stdio and (workers > 1 or store):
        raise click.UsageError("--workers and --store are for HTTP: there is one stdin")
    if not path.startswith("/"):
        raise click.UsageError("--path starts with a slash")
    os.environ.update(read_environment(env, env_files))  # workers inherit them
    logging.getLogger("ferrule.gateway").setLevel(logging.INFO)
    shown = f"[{host}]" if ":" in host else host
    options: dict[str, Any] = {
        "http": not stdio,
        "base_url": f"http://{shown}:{port}{path}" if port and host in _LOOPBACK and not stdio else None,
        "path": path,
        "store": store,
        "status_tool": True,
        "list_cache": default_folder(),
    }
    try:
        from ferrule.cli.gateway.file import read_file

        mode = search if search is not None else read_file(configuration).tool_search
        options["tool_search"] = read_search(mode, "toolSearch")
        app = GatewayApplication(configuration, **options)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error
    problems = [target for target in app.file.servers.servers.values() if isinstance(target, Exception)]
    if problems and len(problems) == len(app.file.servers.servers):
        raise click.UsageError(f"none of the servers can be used: {'; '.join(map(str, problems))}")
    web: dict[str, Any] = {"path": path, "on_started": _announce(path)}
    web |= {"stateless": True} if stateless else {}
    hosts = [*allowed_hosts, *_public_host(app.file.url)] if allowed_hosts or app.file.url else []
    web |= {"allowed_hosts": hosts} if hosts else {}
    web |= {"allowed_origins": list(allowed_origins)} if allowed_origins else {}
    try:
        _serve(app, stdio, host, port, workers, web, partial(load_gateway, configuration, os.getcwd(), options))
    except Exception as error:
        from ferrule.transports.hosting.workers import WorkerError

        if isinstance(error, WorkerError):
            text = str(error).replace("MCPServer(store='redis://host:6379/0')", "--store redis://host:6379/0")
            text = text.replace("run(stateless=True) or run(legacy=False)", "--stateless")
            raise Quit(EXIT_USAGE, text) from error
        if os.environ.get("FERRULE_DEBUG"):
            raise
        status, sentence = explain(error)
        raise Quit(status or EXIT_NO_CONNECTION, f"the gateway ended: {sentence}") from error
    return 0


def _serve(app: Any, stdio: bool, host: str, port: int, workers: int, web: dict[str, Any], load: Any) -> None:
    if stdio:
        from ferrule.transports.hosting.running import run

        run(app.lowlevel)
    elif workers > 1:
        from ferrule.app.serving.http import serve_workers

        serve_workers(app, host, port, workers, web, load)
    else:
        from ferrule.app.serving.http import serve_http

        serve_http(app, host, port, web)


def _public_host(url: str | None) -> list[str]:
    from urllib.parse import urlsplit

    if url is None:
        return []
    parts = urlsplit(url)
    return [parts.netloc, *_LOOPBACK]


def _announce(path: str) -> Any:
    def started(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        say(f"serving http://{name}:{port}{path}")

    return started
