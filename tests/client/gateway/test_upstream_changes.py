"""ferrule.client.gateway.upstream_changes: a subscription exists on both sides of a proxy, or on neither."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from ferrule import Client, MCPError, Server
from ferrule.client.gateway.proxy import Proxy, proxy
from ferrule.kernel.changes.bus import Event
from ferrule.protocol.errors import RequestTimeout

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("any_backend")]

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SUBSCRIBES = {LEGACY: "resources/subscribe", MODERN: "subscriptions/listen"}
URI = "u://x"


class Behind:
    """A server with updates of resources, which is silent, or refuses, until it is mended."""

    def __init__(self, era: str, *, refuses: bool = False) -> None:
        self.is_mended = False
        self.server: Server[Any] = Server("behind", resource_updates=True)
        self.server.add_request_handler("resources/list", self._list, trusted=True)
        entry = self.server.get_request_handler(SUBSCRIBES[era])
        assert entry is not None
        inner = entry.handler

        async def subscribe(ctx: Any) -> Any:
            if not self.is_mended:
                if refuses:
                    raise MCPError("Not now")
                await anyio.sleep_forever()
            return await inner(ctx)

        self.server.add_request_handler(SUBSCRIBES[era], subscribe)

    async def _list(self, ctx: Any) -> Any:
        return {"resources": []}


class Heard:
    """The updates that a client gets."""

    def __init__(self) -> None:
        self.came = anyio.Event()

    def __call__(self, method: str, params: Any) -> None:
        if method == "notifications/resources/updated":
            self.came.set()


async def publish_until(behind: Behind, heard: Heard) -> None:
    with anyio.fail_after(30):
        while not heard.came.is_set():
            behind.server.bus.publish(Event.resource_updated(URI))
            await anyio.sleep(0.01)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_subscription_that_was_cancelled_can_be_made_again(era: str) -> None:
    """The backend did not answer in time; the client tries again, and gets the updates."""
    behind, heard = Behind(era), Heard()
    front = proxy(behind.server, mode=era)
    async with Client(front, mode=LEGACY, message_handler=heard) as client:
        with pytest.raises(RequestTimeout):
            await client.request("resources/subscribe", {"uri": URI}, timeout_s=0.2)
        behind.is_mended = True
        with anyio.fail_after(30):
            await client.request("resources/subscribe", {"uri": URI})
        await publish_until(behind, heard)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
async def test_a_subscription_that_was_refused_can_be_made_again(era: str) -> None:
    behind, heard = Behind(era, refuses=True), Heard()
    front = proxy(behind.server, mode=era)
    async with Client(front, mode=LEGACY, message_handler=heard) as client:
        with pytest.raises(MCPError, match="Not now"):
            await client.request("resources/subscribe", {"uri": URI})
        behind.is_mended = True
        await client.request("resources/subscribe", {"uri": URI})
        await publish_until(behind, heard)


async def test_subscriptions_that_come_and_go_leave_nothing_behind() -> None:
    """A client may subscribe and unsubscribe forever."""
    behind = Behind(LEGACY)
    behind.is_mended = True
    front = proxy(behind.server, mode="legacy")
    async with Client(front, mode=LEGACY) as client:
        counts: list[int] = []
        for _ in range(3):
            for _ in range(10):
                await client.request("resources/subscribe", {"uri": URI})
                await client.request("resources/unsubscribe", {"uri": URI})
            (backend,) = Proxy.of(front).sessions.values()
            assert backend.owner is not None
            closing = backend.owner.closing_state
            assert closing is not None
            counts.append(len(closing.callbacks))
            assert backend.subscribed == {}
        assert counts[0] == counts[-1]


async def test_two_spellings_of_a_uri_are_one_subscription() -> None:
    behind = Behind(LEGACY)
    behind.is_mended = True
    front = proxy(behind.server, mode="legacy")
    async with Client(front, mode=LEGACY) as client:
        for uri in ("u://x/%7Ea", "u://x/%7Ea", "u://x/~a"):
            await client.request("resources/subscribe", {"uri": uri})
        (backend,) = Proxy.of(front).sessions.values()
        assert list(backend.subscribed.values()) == [1]
        await client.request("resources/unsubscribe", {"uri": "u://x/%7ea"})
        with anyio.fail_after(30):
            while backend.subscribed:
                await anyio.sleep(0.01)


async def test_a_subscription_that_the_backend_ended_is_made_again_for_the_next_subscriber() -> None:
    """The next one must not get the error of the earlier one; the clients that stayed get the updates again, too."""
    behind, ends = Behind(MODERN), anyio.Event()
    behind.is_mended = True
    entry = behind.server.get_request_handler("subscriptions/listen")
    assert entry is not None
    inner = entry.handler

    async def end(scope: anyio.CancelScope) -> None:
        await ends.wait()
        scope.cancel()

    async def listen(ctx: Any) -> Any:
        if ends.is_set():
            return await inner(ctx)
        async with anyio.create_task_group() as group:
            group.start_soon(end, group.cancel_scope)
            await inner(ctx)
        raise MCPError("Gone")

    behind.server.add_request_handler("subscriptions/listen", listen)
    front = proxy(behind.server, mode=MODERN)
    async with Client(front, mode=MODERN) as client, client.listen(uris=[URI]) as first:
        at_backend = Proxy.of(front).main.subscriptions
        assert at_backend.uris() == {URI}
        ends.set()
        with anyio.fail_after(30):
            while at_backend.uris():
                await anyio.sleep(0.01)
        async with client.listen(uris=[URI]) as second:
            behind.server.bus.publish(Event.resource_updated(URI))
            with anyio.fail_after(30):
                assert [(await anext(each)).uri for each in (first, second)] == [URI, URI]
        assert at_backend.uris() == {URI}  # the first one is still there
