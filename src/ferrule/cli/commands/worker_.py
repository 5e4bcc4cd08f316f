"""``ferrule worker``: run the tasks of a server, and serve nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from ferrule.cli.connect import target_argument
from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.output import say
from ferrule.cli.targets import read_choice

__all__ = ["command"]


@click.command("worker", context_settings={"max_content_width": 100})
@target_argument
@environment_options
@click.option("--concurrency", type=click.IntRange(1, 10_000), default=16, show_default=True, help="Tasks at a time.")
def command(target: str, env: tuple[str, ...], env_files: tuple[Path, ...], concurrency: int) -> int:
    """Run the tasks of TARGET, a Python file with an MCPServer, without any transport.

    The server needs a store that all its processes see and an executor that brings tasks here:
    Tasks(executor=DocketExecutor(url)). Start as many as you like, on as many machines.
    """
    from ferrule.app.server import MCPServer
    from ferrule.cli.loading import load_app
    from ferrule.extensions.tasks import NotATaskServer, run_worker

    choice = read_choice(target)
    if choice.file is None:
        raise click.UsageError("A worker is for Python files with an MCPServer")
    os.environ.update(read_environment(env, env_files))
    app: Any = load_app(choice.file, choice.attribute)
    found: object = app
    if not isinstance(found, MCPServer):
        raise click.UsageError("A worker is for an MCPServer; the low-level Server has no tasks of its own")
    try:
        run_worker(app, concurrency=concurrency, on_started=lambda: say(f"{app.name}: ready for tasks"))
    except NotATaskServer as error:
        raise click.UsageError(str(error)) from error
    return 0
