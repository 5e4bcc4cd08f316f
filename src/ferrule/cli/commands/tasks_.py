"""``ferrule tasks``: the tasks of a server, by their ids."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ferrule.cli.arguments import read_json_option
from ferrule.cli.connect import ConnectionOptions, connection_options, run_async
from ferrule.cli.content import print_blocks
from ferrule.cli.exits import EXIT_FAILED, EXIT_NO_ANSWER, EXIT_OK, EXIT_REFUSED, Quit
from ferrule.cli.output import print_json, print_json_line, print_rows, print_text, say

__all__ = ["command"]

ACTIONS = ("list", "get", "wait", "result", "answer", "cancel")

_EXAMPLES = """\b
Examples:
  ferrule call https://tools.example/mcp press sheets=100 --task      prints the id
  ferrule tasks https://tools.example/mcp wait ID
  ferrule tasks https://tools.example/mcp wait ID -o json | jq .status
  ferrule tasks https://tools.example/mcp answer ID --json '{"q1": {"action": "accept", "content": {"ok": true}}}'
"""


class _TasksCommand(click.Command):
    """A command whose argument may be an id that begins with a hyphen, as one in 64 ids does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, with ``--`` inserted before such an id."""
        at = next((at for at, word in enumerate(args) if word in ACTIONS), len(args)) + 1
        known = {option for param in self.params for option in param.opts} | {"-h", "--help", "--"}
        if at < len(args) and args[at].startswith("-") and args[at].partition("=")[0] not in known:
            args = [*args[:at], *args[at + 1 :], "--", args[at]]
        return super().parse_args(ctx, args)


@click.command("tasks", cls=_TasksCommand, epilog=_EXAMPLES)
@connection_options
@click.argument("action", type=click.Choice(ACTIONS))
@click.argument("task", required=False)
@click.option("--json", "given", metavar="JSON", help="For `answer`: the input responses by key.")
def command(connection: ConnectionOptions, action: str, task: str | None, given: str | None) -> int:
    """Show, answer and cancel tasks of the server TARGET; `ferrule call --task` starts one.

    \b
    list           what is there (2025-11-25; the modern era has no list: keep the ids)
    get TASK       how it stands
    wait TASK      show each change until it has ended, ask what it asks, print the result
    result TASK    the same without the changes
    answer TASK    give it what it asked for, with --json (modern era)
    cancel TASK    ask it to stop

    With -o json each task, and for wait each change, is one line of JSON.
    """
    if action != "list" and task is None:
        raise click.UsageError(f"{action} needs the id of a task")
    if action == "answer" and given is None:
        raise click.UsageError("answer needs --json with the answers by their keys; `get` shows the questions")
    return run_async(_tasks(connection, action, task or "", read_json_option(given)))


async def _tasks(connection: ConnectionOptions, action: str, task: str, given: dict[str, Any]) -> int:
    from ferrule.client.calls.tasks import TASKS_EXTENSION
    from ferrule.protocol.errors import RemoteError
    from ferrule.wire.jsonrpc import JsonRpcErrorCode

    async with connection.client(extensions={TASKS_EXTENSION: {}}, **connection.asking_later()) as client:
        if action == "list" and client.session.revision.has_extensions:
            raise Quit(
                EXIT_REFUSED, "the modern era has no list of tasks: keep the ids that `ferrule call --task` prints"
            )
        if action == "answer" and not client.session.revision.has_extensions:
            raise Quit(EXIT_REFUSED, "in 2025-11-25 a task asks while it is waited for: ferrule tasks … wait TASK")
        try:
            if action == "list":
                return await _list(connection, client)
            handle = client.task(task)
            if action == "cancel":
                await handle.cancel()
            elif action == "answer":
                await handle.answer(given)
            elif action in ("wait", "result"):
                return await _wait(connection, handle, shows=action == "wait")
            _print_state(connection, (await handle.status()).raw)
            return EXIT_OK
        except RemoteError as error:
            if error.code == JsonRpcErrorCode.METHOD_NOT_FOUND:
                raise Quit(EXIT_REFUSED, f"the server has no tasks in {client.protocol_version}") from error
            if error.code == JsonRpcErrorCode.INVALID_PARAMS:
                raise Quit(
                    EXIT_REFUSED,
                    f"{error.message}. Tasks belong to who began them (in 2025-11-25 to the session, unless the server "
                    "knows its users), and end with a server that keeps them in memory",
                ) from error
            raise


async def _wait(connection: ConnectionOptions, handle: Any, *, shows: bool) -> int:
    """Wait for the end of a task: print each change, ask its questions at the terminal, print the result.

    Returns:
        The exit status.
    """
    from ferrule.client.calls.tasks import TaskCancelled
    from ferrule.client.concurrent import gather
    from ferrule.client.errors import InputNotProvided

    async def follow() -> None:
        async for state in handle.events():
            if not state.is_over:
                _print_change(connection, state.raw)

    result: Any = None
    try:
        if shows:
            _, result = await gather([follow(), handle.result()])
        else:
            result = await handle.result()
    except TaskCancelled:
        pass
    except InputNotProvided:
        say(f"it asks something; answer with: ferrule tasks {connection.target} answer {handle.task_id} --json …")
        _print_state(connection, (await handle.status()).raw)
        return EXIT_NO_ANSWER
    if connection.is_json:
        last = (await handle.status()).raw
        print_json_line({**last, **({} if result is None else {"result": result.result})})
    elif result is None:
        say("the task was cancelled")
    else:
        print_blocks(result.content, None)
        if not result.content and result.has_structured_content:
            print_json(result.structured_content)
    return EXIT_OK if result is not None and not result.is_error else EXIT_FAILED


async def _list(connection: ConnectionOptions, client: Any) -> int:
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    for _ in range(1000):
        page = await client.request("tasks/list", {} if cursor is None else {"cursor": cursor})
        found += page.get("tasks") or []
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    if connection.is_json:
        for each in found:
            print_json_line(each)
        return EXIT_OK
    if not found:
        say("there are no tasks")
    rows = [(each.get("taskId"), each.get("status"), each.get("statusMessage") or "") for each in found]
    print_rows(f"Tasks ({len(rows)})", ("ID", "STATUS", "MESSAGE"), rows)
    return EXIT_OK


def _print_state(connection: ConnectionOptions, raw: Mapping[str, Any]) -> None:
    if connection.is_json:
        print_json_line(raw)
        return
    print_text(_words(raw))
    questions: Any = raw.get("inputRequests") or {}
    for key, asked in dict[str, Any](questions).items():
        params: dict[str, Any] = asked.get("params") or {}
        print_text(f"  {key}: {params.get('message') or asked.get('method')}")


def _print_change(connection: ConnectionOptions, raw: Mapping[str, Any]) -> None:
    """Print a change of a task: as a line of JSON on stdout with ``-o json``, else as text on stderr."""
    if connection.is_json:
        print_json_line(raw)
    else:
        say(_words(raw))


def _words(raw: Mapping[str, Any]) -> str:
    message = raw.get("statusMessage")
    return f"{raw.get('status')}: {message}" if message else str(raw.get("status"))
