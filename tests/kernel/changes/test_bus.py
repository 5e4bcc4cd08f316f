"""Changes, delivered to the listeners that subscribed to them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anyio
import pytest

from ferrule import Client, MCPServer
from ferrule.kernel.changes.bus import LIST_CHANGED_METHODS, Event, ListenFilter, SubscriptionBus
from tests.kernel.harness import settled
from tests.profiling import PythonCalls

TOOLS = Event.list_changed("tools")


def hears(filter: ListenFilter, event: Event) -> bool:
    """Return whether a listener with this filter gets an event."""
    bus = SubscriptionBus()
    with bus.listen(filter) as listener:
        bus.publish(event)
        return bool(listener.drain())


def uris(events: list[Event]) -> list[Any]:
    return [event.params.get("uri") for event in events]


@pytest.mark.parametrize(
    ("subscribed", "changed", "told"),
    [
        ("r://a", "r://a", True),
        ("r://a", "r://a/b", True),
        ("r://a/", "r://a/b/c", True),
        ("r://a", "r://ab", False),
        ("r://a/b", "r://a", False),
        ("r://a/", "r://a", False),
        ("r://", "r://a", True),
        ("", "r://a", False),
        ("r://a?x=1", "r://a", False),
    ],
)
def test_a_subscription_covers_the_uris_below_its_uri(subscribed: str, changed: str, told: bool) -> None:
    """`params.uri` may be a sub-resource of the subscribed one; a longer name is not one."""
    assert hears(ListenFilter(uris=[subscribed]), Event.resource_updated(changed)) is told


@pytest.mark.parametrize("kind", LIST_CHANGED_METHODS)
def test_each_kind_of_list_change_reaches_its_listeners_only(kind: str) -> None:
    """A filter never lets through what was not asked for."""
    event = Event.list_changed(kind)
    assert event.method == LIST_CHANGED_METHODS[kind]
    for other in LIST_CHANGED_METHODS:
        assert hears(ListenFilter([other]), event) is (other == kind)
    assert not hears(ListenFilter(uris=[event.topic]), event)
    assert not hears(ListenFilter(), event)


def test_an_extensions_topic_needs_its_method_too() -> None:
    """Two extensions may use one word for different things."""
    filter = ListenFilter(topics=[("notifications/tasks", "t1")])
    assert hears(filter, Event("notifications/tasks", "t1"))
    assert not hears(filter, Event("notifications/tasks", "t2"))
    assert not hears(filter, Event("notifications/other", "t1"))


def test_an_event_that_already_waits_is_not_added_again() -> None:
    """A second "tools changed" has no new information; an event with other params does."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(["tools"], topics=[("m", "t")]))
    for _ in range(3):
        bus.publish(TOOLS)
    bus.publish(Event("m", "t", {"status": "working"}))
    bus.publish(Event("m", "t", {"status": "done"}))
    events = listener.drain()
    assert [event.params.get("status") for event in events] == [None, "working", "done"]
    bus.publish(TOOLS)
    assert listener.drain() == [TOOLS]
    assert listener.drain() == []


def test_a_full_buffer_ends_its_listener_and_no_other() -> None:
    """What waits is still handed out; publishing never fails and never waits."""
    bus = SubscriptionBus(max_events=2)
    slow, quick = bus.listen(ListenFilter(uris=["r://"])), bus.listen(ListenFilter(uris=["r://"]))
    for number in range(3):
        bus.publish(Event.resource_updated(f"r://{number}"))
        quick.drain()
    assert slow.ended
    assert slow.overflowed
    assert not quick.ended
    assert len(bus) == 1
    assert uris(slow.drain()) == ["r://0", "r://1"]
    bus.publish(Event.resource_updated("r://9"))
    assert uris(slow.drain()) == []


def test_leaving_the_context_forgets_the_listener() -> None:
    """Also when its body raises."""
    bus = SubscriptionBus()

    def leave() -> None:
        with bus.listen(ListenFilter(["tools"])):
            assert len(bus) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        leave()
    assert len(bus) == 0


def test_published_events_are_relayed_and_delivered_ones_are_not() -> None:
    """A shared store would otherwise send its own events round and round."""
    bus = SubscriptionBus()
    relayed: list[Event] = []
    undo = bus.add_relay(relayed.append)
    listener = bus.listen(ListenFilter(["tools"]))
    bus.publish(TOOLS)
    assert relayed == listener.drain() == [TOOLS]
    bus.deliver(TOOLS)
    assert (len(relayed), listener.drain()) == (1, [TOOLS])
    undo()
    undo()
    bus.publish(TOOLS)
    assert len(relayed) == 1


def test_after_a_gap_each_list_and_resource_is_announced_once() -> None:
    """Any of them may have changed; what waits already is not added again."""
    bus = SubscriptionBus()
    listener, other = bus.listen(ListenFilter(["tools", "prompts"], ["r://1", "r://2"])), bus.listen(ListenFilter())
    bus.publish(TOOLS)
    bus.deliver_gap()
    bus.deliver_gap()
    resources = [Event.resource_updated("r://1"), Event.resource_updated("r://2")]
    assert listener.drain() == [TOOLS, Event.list_changed("prompts"), *resources]
    assert other.drain() == []
    assert not other.ended


def test_a_gap_announces_no_resource_that_the_listener_may_not_see() -> None:
    """It may have lost the permission since it subscribed."""
    bus = SubscriptionBus()
    wanted = ListenFilter(uris=["r://1", "r://2"])
    wanted.may_see = lambda uri: uri == "r://2"
    listener = bus.listen(wanted)
    bus.deliver_gap()
    assert listener.drain() == [Event.resource_updated("r://2")]


def test_a_gap_with_more_resources_than_the_buffer_holds_ends_the_listener() -> None:
    """As for any overflow: the client subscribes again after the error."""
    bus = SubscriptionBus(max_events=3)
    listener = bus.listen(ListenFilter(uris=[f"r://{number}" for number in range(9)]))
    bus.deliver_gap()
    assert (listener.ended, listener.overflowed, len(listener.drain())) == (True, True, 3)


def test_a_gap_ends_a_listener_to_topics_that_has_no_function_for_it() -> None:
    """The contents of an extension's events cannot be made up."""
    bus = SubscriptionBus()
    ended, kept = bus.listen(ListenFilter(topics=[("m", "1")])), bus.listen(ListenFilter(topics=[("m", "1")]))
    gaps: list[int] = []
    kept.on_gap = lambda: gaps.append(1)
    bus.deliver_gap()
    assert (ended.ended, kept.ended, gaps) == (True, False, [1])


def test_a_listener_may_end_while_an_event_is_delivered() -> None:
    """Callbacks run inside publishing."""
    bus = SubscriptionBus()
    listeners = [bus.listen(ListenFilter(["tools"])) for _ in range(3)]
    listeners[0].on_wake(listeners[1].end)
    bus.publish(TOOLS)
    assert [len(listener.drain()) for listener in listeners] == [1, 0, 1]
    bus.end_all()
    assert len(bus) == 0
    assert all(listener.ended for listener in listeners)


def test_the_callback_is_called_for_events_and_for_the_end() -> None:
    """Transports that write by themselves need no task to wait in."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(["tools"]))
    woken: list[int] = []
    listener.on_wake(lambda: woken.append(1))
    bus.publish(TOOLS)
    bus.publish(Event.list_changed("prompts"))
    listener.end()
    assert len(woken) == 2
    listener.on_wake(None)


@pytest.mark.anyio
@pytest.mark.usefixtures("any_backend")
async def test_iterating_waits_and_stops_at_the_end() -> None:
    """What waited before the end is handed out first."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(uris=["r://"]))
    seen: list[Any] = []

    async def iterate() -> None:
        seen.extend([event.params["uri"] async for event in listener])
        seen.append("end")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(iterate)
        await settled()
        bus.publish(Event.resource_updated("r://1"))
        await settled()
        bus.publish(Event.resource_updated("r://2"))
        bus.publish(Event.resource_updated("r://3"))
        listener.end()
    assert seen == ["r://1", "r://2", "r://3", "end"]
    assert await listener.next() is None


@pytest.mark.parametrize("subscribed", ["r://café/a b", "r://caf%C3%A9/a%20b", "r://caf%c3%a9/%61%20b"])
@pytest.mark.parametrize("changed", ["r://café/a b", "r://caf%C3%A9/a%20b", "r://café/a b/c"])
def test_a_subscription_matches_every_spelling_of_a_uri(subscribed, changed):
    """A client escapes what an author writes; both mean one resource."""
    event = Event.resource_updated(changed)
    assert hears(ListenFilter(uris=[subscribed]), event)
    assert event.params["uri"] == changed
    assert not hears(ListenFilter(uris=["r://caf%25C3%25A9/a b"]), event)


@pytest.mark.parametrize("where", ["a worker of the server", "a thread of the author"])
async def test_a_change_that_a_thread_publishes_is_delivered_at_once(where: str, any_backend: str) -> None:
    """A sync tool that registers a tool: the loop is woken, and its debug mode has nothing to say."""
    if any_backend == "asyncio":
        asyncio.get_running_loop().set_debug(True)
    app: MCPServer[Any] = MCPServer("threads")

    def register() -> None:
        app.add_tool(lambda: "new", name="new")

    @app.tool
    def grow() -> str:
        if where == "a worker of the server":
            register()
        else:
            thread = threading.Thread(target=register)
            thread.start()
            thread.join()
        return "grown"

    heard: list[Any] = []

    async def hear() -> None:
        heard.append(await listener.next())
        group.cancel_scope.cancel()

    async with Client(app) as client:
        with app.lowlevel.bus.listen(ListenFilter({"tools"})) as listener, anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(hear)
                await settled()
                assert (await client.call_tool("grow")).text == "grown"
                await anyio.sleep_forever()
    assert heard[0].method == "notifications/tools/list_changed"


def test_a_publish_looks_at_those_who_hear_it_and_at_no_others() -> None:
    """Thousands of streams may be open: an event of one URI must not cost by their number."""
    looked_at: list[str] = []
    bus = SubscriptionBus()

    def filter_of(uri: str) -> ListenFilter:
        made = ListenFilter(uris=[uri])
        made.may_see = lambda changed: looked_at.append(uri) is None
        return made

    listeners = {uri: bus.listen(filter_of(uri)) for uri in (f"r://{number}" for number in range(1000))}
    bus.publish(Event.resource_updated("r://7/below"))
    assert looked_at == ["r://7"]
    assert [uri for uri, listener in listeners.items() if listener.drain()] == ["r://7"]


def test_what_a_listener_wants_can_change_and_goes_with_it() -> None:
    """The bus finds listeners by what they want, so it has to know of each change, and to forget all at the end."""
    bus = SubscriptionBus()
    one, other = bus.listen(ListenFilter(uris=["r://a"])), bus.listen(ListenFilter(["tools"], ["r://a", "r://b"]))
    one.add_uri("r://c")
    one.discard_uri("r://a")
    one.discard_uri("r://never")
    other.set_uris({"r://b", "r://c"})
    other.add_topic("m", "t")
    for uri in "abc":
        bus.publish(Event.resource_updated(f"r://{uri}"))
    bus.publish(Event("m", "t"))
    bus.publish(TOOLS)
    assert uris(one.drain()) == ["r://c"]
    assert uris(other.drain()) == ["r://b", "r://c", None, None]
    assert (bus.uri_count, bus.uri_chars) == (3, 15)
    other.discard_topic("m", "t")
    bus.publish(Event("m", "t"))
    assert not other.drain()
    one.end()
    one.end()
    other.end()
    one.add_uri("r://late")
    assert (len(bus), bus.uri_count, bus.uri_chars) == (0, 0, 0)
    assert [len(index) for index in (bus.by_kind, bus.by_uri, bus.by_topic)] == [0, 0, 0]


def test_a_listener_of_a_kind_and_of_a_topic_gets_an_event_once() -> None:
    """An extension may send a notification of a list for a topic of its own."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(["tools"], topics=[(TOOLS.method, TOOLS.topic)]))
    bus.publish(TOOLS)
    assert listener.drain() == [TOOLS]


@pytest.mark.anyio
async def test_an_event_is_few_python_calls_for_each_of_many_listeners() -> None:
    """It is added, wakes its waiter, and that waits again: thousands of streams may listen to one change."""
    bus, heard = SubscriptionBus(), 0

    async def hear() -> None:
        nonlocal heard
        with bus.listen(ListenFilter(kinds=("tools",))) as listener:
            while await listener.next() is not None:
                heard += 1

    tasks = [asyncio.ensure_future(hear()) for _ in range(100)]
    for _ in range(2):  # the first wait of a listener asks for the event loop
        await settled()
        bus.publish(TOOLS)
    await settled()
    with PythonCalls() as calls:
        bus.publish(TOOLS)
        await settled()
    assert heard == 300
    assert calls.of("ferrule/") <= 8 * 100 + 10, calls.most_common(10)
    bus.end_all()
    await asyncio.gather(*tasks)


def test_a_listener_that_gives_up_one_topic_keeps_the_others() -> None:
    """And may take up the same one again."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(topics=[("m", "1"), ("m", "2")]))
    listener.discard_topic("m", "1")
    listener.discard_topic("m", "no such")
    for topic in ("1", "2"):
        bus.deliver(Event("m", topic))
    assert [event.topic for event in listener.drain()] == ["2"]
    assert ("m", "2") in listener.filter.topics
    listener.discard_topic("m", "2")
    listener.add_topic("m", "1")
    for topic in ("1", "2"):
        bus.deliver(Event("m", topic))
    assert [event.topic for event in listener.drain()] == ["1"]


def test_a_listener_that_follows_another_process_gets_an_event_for_each_new_uri() -> None:
    """The resource may have changed before this process was informed; what it had already gets none."""
    bus = SubscriptionBus()
    listener = bus.listen(ListenFilter(uris=["a://1"]))
    listener.filter.may_see = lambda uri: uri != "a://hidden"
    listener.follow_uris(["a://1", "a://3", "a://2", "a://hidden"])
    assert [event.params["uri"] for event in listener.drain()] == ["a://2", "a://3"]
    listener.follow_uris(["a://2"])
    assert listener.drain() == []
    bus.publish(Event.resource_updated("a://1"))
    bus.publish(Event.resource_updated("a://2"))
    assert [event.params["uri"] for event in listener.drain()] == ["a://2"]
