"""Messages between processes in a table: it is read while somebody wants them."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import anyio
import pytest

from ferrule.django.store.channel import DjangoChannel, _Reader
from ferrule.django.store.database import Database
from ferrule.kernel.changes.bus import Event, ListenFilter, SubscriptionBus
from ferrule.kernel.changes.relay import relayed
from ferrule.stores.channel import PollingChannel
from tests.django.store.databases import database

ALIAS = "channel_tests"


@pytest.fixture
def reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[list[int]]:
    """A database, and a list that grows by each query of its messages."""
    made: list[int] = []
    read: Any = _Reader.read

    def count(reader: Any) -> Any:
        if reader._using == ALIAS:
            made.append(1)
        return read(reader)

    monkeypatch.setattr(_Reader, "read", count)
    with database(ALIAS, "sqlite", tmp_path):
        yield made


def test_a_server_without_a_listener_asks_nothing(reads: list[int]) -> None:
    """Under WSGI there is never one; with the first one it asks, and brings what came since."""

    async def talk() -> list[str]:
        ours, theirs = SubscriptionBus(), SubscriptionBus()
        channel = DjangoChannel(Database(ALIAS), poll_s=0.01)
        assert isinstance(channel, PollingChannel)
        with anyio.fail_after(60):
            async with relayed(ours, channel), relayed(theirs, DjangoChannel(Database(ALIAS), poll_s=0.01)):
                await anyio.sleep(0.3)
                assert reads == []
                with ours.listen(ListenFilter(["tools"])) as listener:
                    theirs.publish(Event.list_changed("tools"))
                    event = await listener.next()
                    assert event is not None
                    assert reads
                await anyio.sleep(0.1)  # a query that had begun may end
                before = len(reads)
                await anyio.sleep(0.3)
                assert len(reads) == before
                return [event.method]

    assert anyio.run(talk) == ["notifications/tools/list_changed"]
