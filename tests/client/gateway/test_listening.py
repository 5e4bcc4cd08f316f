"""One stream of changes of several servers: one that does not respond holds up neither the stream nor the others."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule import Client, Gateway, Server
from ferrule.kernel.changes.bus import Event

pytestmark = pytest.mark.anyio


class Behind:
    """A legacy server with resources; its subscriptions may wait."""

    def __init__(self) -> None:
        self.answers = anyio.Event()
        self.server: Server[Any] = Server("behind", resource_updates=True)
        self.server.add_request_handler("resources/list", self._list, trusted=True)
        inner = self.server.get_request_handler("resources/subscribe")
        assert inner is not None
        subscribe = inner.handler

        async def wait(ctx: Any) -> Any:
            await self.answers.wait()
            return await subscribe(ctx)

        self.server.add_request_handler("resources/subscribe", wait)

    async def _list(self, ctx: Any) -> Any:
        return {"resources": []}


async def test_a_stream_begins_while_a_server_does_not_answer_a_subscription() -> None:
    """Changes of the others arrive; those of the silent one do when it has answered."""
    silent, other = Behind(), Behind()
    other.answers.set()
    gateway = Gateway({"silent": silent.server, "other": other.server}, mode="legacy", moment_s=0.05)
    async with Client(gateway) as client, client.listen(uris=["u://x"]) as changes:
        await until_heard(other, changes)
        silent.answers.set()
        await until_heard(silent, changes)


async def until_heard(behind: Behind, changes: Any) -> None:
    """Publish until a change arrives: a subscription takes its time."""
    with anyio.fail_after(30):
        while True:
            behind.server.bus.publish(Event.resource_updated("u://x"))
            with anyio.move_on_after(0.1):
                assert (await anext(changes)).uri == "u://x"
                return
