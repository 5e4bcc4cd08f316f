"""``ferrule listen``: what a server says by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import click

from ferrule.cli.completion.names import complete_uri
from ferrule.cli.connect import ConnectionOptions, connection_options, run_async
from ferrule.cli.output import print_text, say

__all__ = ["command"]


_EXAMPLES = """\b
Examples:
  ferrule listen https://tools.example/mcp memo://today
  ferrule listen server.py --count 1 -o json | jq .event
"""


@click.command("listen", epilog=_EXAMPLES)
@connection_options
@click.argument("uris", nargs=-1, metavar="[URI]...", shell_complete=complete_uri)
@click.option("--log", "log_level", default="info", show_default=True, help="Lowest level of log messages, or 'off'.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many events.")
@click.option("--for", "seconds", type=float, metavar="SECONDS", help="End after so long.")
def command(
    connection: ConnectionOptions, uris: tuple[str, ...], log_level: str, count: int | None, seconds: float | None
) -> None:
    """Show changes of the lists of TARGET, updates of the resources URI, and log messages, until Ctrl-C.

    With -o json each event is one line of JSON.
    """
    run_async(_listen(connection, uris, log_level, count, seconds))


async def _listen(
    connection: ConnectionOptions, uris: tuple[str, ...], log_level: str, count: int | None, seconds: float | None
) -> None:
    from ferrule.wire.codec import encode_str, to_builtins

    seen = 0
    enough = anyio.Event()

    def show(kind: str, words: str, facts: Mapping[str, Any]) -> None:
        nonlocal seen
        if count is not None and seen >= count:
            return
        seen += 1
        print_text(encode_str({"event": kind, **facts}) if connection.is_json else f"{kind}: {words}")
        if count is not None and seen >= count:
            enough.set()

    def on_log(message: Any) -> None:
        facts = to_builtins(message)
        text = message.data if isinstance(message.data, str) else encode_str(message.data)
        show("log", f"{message.level}: {text}", facts)

    options: dict[str, Any] = {}
    if log_level != "off":
        options = {"log_handler": on_log, "log_level": log_level}
    async with connection.client(**options) as client:
        capabilities = client.server_capabilities
        wanted: dict[str, Any] = {
            kind: bundle is not None and bool(bundle.list_changed)
            for kind, bundle in (
                ("tools", capabilities.tools),
                ("prompts", capabilities.prompts),
                ("resources", capabilities.resources),
            )
        }
        subscription = client.listen(uris=list(uris), **wanted)

        async def follow() -> None:
            async for event in subscription:
                if event.kind == "gap":
                    show("gap", "the connection broke; events may have been missed", {})
                elif event.kind == "resource":
                    show("resource", event.uri or "", {"uri": event.uri})
                elif event.kind == "other":
                    show("notification", event.method, {"method": event.method, "params": event.params})
                else:
                    show("changed", event.kind, {"list": event.kind})

        with anyio.move_on_after(seconds):
            await subscription.ready()
            name = client.server_info.name if client.server_info else client.label
            say(f"listening to {name} ({client.protocol_version})")
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                await enough.wait()
                group.cancel_scope.cancel()
