"""``ferrule tasks``: the tasks of a server, by their ids."""

from __future__ import annotations

from typing import Any

import anyio
import click

from ferrule.cli.arguments import read_json_option
from ferrule.cli.connect import Connection, connection_options, run_async
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.output import print_json, print_rows

__all__ = ["command"]

ACTIONS = ("list", "get", "wait", "result", "answer", "cancel")
_ENDED = frozenset({"completed", "failed", "cancelled"})


@click.command("tasks")
@connection_options
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("task", required=False)
@click.option("--json", "given", metavar="JSON", help="For answer: the input responses by their keys.")
def command(connection: Connection, action: str, task: str | None, given: str | None) -> int:
    """Look at tasks of the server TARGET.

    \b
    list           what is there (2025-11-25; the modern era has no list: keep the ids)
    get TASK       state and status message
    wait TASK      until it has ended, or asks something
    result TASK    what it made (2025-11-25; in the modern era it is part of get)
    answer TASK    give it what it asked for, with --json (modern era)
    cancel TASK    ask it to stop
    """
    if action != "list" and task is None:
        raise click.UsageError(f"{action} needs the id of a task")
    return run_async(_tasks(connection, action, task or "", read_json_option(given)))


async def _tasks(connection: Connection, action: str, task: str, given: dict[str, Any]) -> int:
    async with connection.client(extensions={"io.modelcontextprotocol/tasks": {}}) as client:
        if action == "list":
            await _print_list(connection, client)
            return EXIT_OK
        params: dict[str, Any] = {"taskId": task}
        if action == "answer":
            print_json(await client.request("tasks/update", {**params, "inputResponses": given}))
            return EXIT_OK
        if action == "wait":
            found = await _wait(client, params)
        else:
            found = await client.request(f"tasks/{action}", params)
    print_json(found)
    return EXIT_FAILED if action == "wait" and found.get("status") in ("failed", "cancelled") else EXIT_OK


async def _wait(client: Any, params: dict[str, Any]) -> dict[str, Any]:
    """Ask again at the pace that the server suggests."""
    while True:
        found: dict[str, Any] = await client.request("tasks/get", params)
        if found.get("status") in _ENDED or found.get("status") == "input_required":
            return found
        pause_ms = found.get("pollInterval") or found.get("pollIntervalMs") or 1000
        await anyio.sleep(min(max(float(pause_ms) / 1000, 0.05), 30.0))


async def _print_list(connection: Connection, client: Any) -> None:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(1000):
        page = await client.request("tasks/list", {} if cursor is None else {"cursor": cursor})
        found += page.get("tasks") or []
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    if connection.is_json:
        print_json(found)
        return
    rows = [(each.get("taskId"), each.get("status"), each.get("statusMessage") or "") for each in found]
    print_rows(f"Tasks ({len(rows)})", ("ID", "STATUS", "MESSAGE"), rows)
