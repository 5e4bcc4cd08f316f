"""The shapes that dispatchers have in common."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from typing import Any

import anyio
import pytest

from ferrule.client.connection.channels import DirectChannel, MemoryPairChannel, PairChannel, StdioChannel
from ferrule.kernel.connection import Connection, GuardedDispatch, NotifyOnly
from ferrule.kernel.direct import DirectDispatcher
from ferrule.kernel.dispatch import (
    ClosesStream,
    DelaysUntilRead,
    DispatchContext,
    EncodesMessages,
    NotifiesAfterResult,
    Outbound,
    RepliesEarly,
    RunsTasks,
    TransportContext,
    WritesResults,
)
from ferrule.kernel.duplex import JSONRPCDispatcher
from ferrule.kernel.inbound_request import InboundRequest as Inbound
from ferrule.transports.asgi.context import HttpContext
from ferrule.transports.asgi.legacy.exchange import LegacyExchange
from ferrule.transports.asgi.modern.exchange import ModernExchange
from ferrule.transports.http.client import StreamableHttp
from ferrule.transports.memory import MemoryWriteStream, memory_pair
from ferrule.transports.stdio.server import StdioContext, StdioWriteStream
from tests.kernel.harness import FakeDispatch

CHANNELS = [
    Outbound, DispatchContext, Connection, GuardedDispatch, NotifyOnly, DirectDispatcher, JSONRPCDispatcher,
    ModernExchange, LegacyExchange, StreamableHttp, DirectChannel, MemoryPairChannel, PairChannel, StdioChannel,
    FakeDispatch,
]  # fmt: skip


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda channel: channel.__name__)
def test_a_request_may_omit_params(channel: Any) -> None:
    """``ping`` and ``roots/list`` have none; every channel takes the same arguments."""
    parameters = inspect.signature(channel.send_raw_request).parameters
    assert list(parameters)[1:] == ["method", "params", "opts"]
    assert parameters["params"].default is None
    assert parameters["opts"].default is None


async def _ping(dispatcher: DirectDispatcher) -> Any:
    return await dispatcher.send_raw_request("ping")


@pytest.mark.anyio
async def test_a_request_without_params_arrives_without() -> None:
    """Through a real pair."""
    ours, theirs = DirectDispatcher.pair()
    seen: list[Any] = []

    async def on_request(dctx: Any, method: str, params: Any) -> Any:
        seen.append((method, params))
        return {}

    async def on_notify(dctx: Any, method: str, params: Any) -> None: ...

    theirs.serve(on_request, on_notify)
    assert await _ping(ours) == {}
    assert seen == [("ping", None)]


OFFERS: list[tuple[type[Any], type[Any], bool]] = [
    (StdioWriteStream, EncodesMessages, True),
    (StdioWriteStream, WritesResults, True),
    (StdioWriteStream, DelaysUntilRead, True),
    (MemoryWriteStream, EncodesMessages, True),
    (MemoryWriteStream, WritesResults, False),
    (Inbound, RepliesEarly, True),
    (Inbound, NotifiesAfterResult, True),
    (Inbound, ClosesStream, False),
    (ModernExchange, RepliesEarly, True),
    (ModernExchange, NotifiesAfterResult, False),
    (LegacyExchange, ClosesStream, True),
]


@pytest.mark.parametrize(("made", "protocol", "expected"), OFFERS)
def test_each_capability_of_a_class_is_a_protocol(made: type[Any], protocol: type[Any], expected: bool) -> None:
    """The kernel asks for a capability by its protocol; a method that is renamed would silently no longer be used."""
    assert isinstance(object.__new__(made), protocol) is expected


def test_the_facts_of_a_transport_have_defaults() -> None:
    """Every handler may read them on any transport; off a network the client is the owner of the process."""
    facts = TransportContext()
    assert (facts.is_network, facts.principal, dict(facts.headers), facts.client) == (False, None, {}, None)
    assert HttpContext().is_network
    assert not StdioContext().is_network


def test_the_facts_of_a_transport_are_a_frozen_dataclass() -> None:
    """Though no code was generated for it; those of stdio too."""
    facts = StdioContext(principal="ann")
    assert (facts.kind, facts.can_send_request, facts.principal) == ("stdio", True, "ann")
    assert dataclasses.replace(facts, can_send_request=False) == StdioContext(can_send_request=False, principal="ann")
    assert facts != TransportContext("stdio", principal="ann")
    assert repr(facts).startswith("StdioContext(kind='stdio', can_send_request=True, is_network=False, principal='ann'")
    assert copy.copy(facts) == facts == pickle.loads(pickle.dumps(facts))
    for change in (lambda: setattr(facts, "kind", "x"), lambda: delattr(facts, "kind")):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()


@pytest.mark.anyio
async def test_a_dispatcher_without_tasks_forwards_no_changes() -> None:
    """After `DirectDispatcher.serve` nothing would read the listener, so that its events would pile up."""
    memory, _ = memory_pair()
    assert isinstance(JSONRPCDispatcher(memory.read_stream, memory.write_stream), RunsTasks)
    end, _ = DirectDispatcher.pair()
    assert isinstance(end, RunsTasks)
    assert not end.is_running
    async with anyio.create_task_group() as tasks:
        await tasks.start(end.run, None, None)
        assert end.is_running
        end.close()
    assert not end.is_running
