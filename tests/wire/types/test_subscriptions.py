"""ferrule.wire.types: filters of subscriptions."""

from __future__ import annotations

from ferrule import types as t
from ferrule.wire.codec import convert, decode, encode


def test_a_filter_keeps_the_keys_of_extensions() -> None:
    """The tasks extension requests `taskIds` on the same stream."""
    wire = {"notifications": {"toolsListChanged": True, "taskIds": ["t"]}}
    params = convert(wire, t.SubscriptionsListenRequestParams)
    assert params.notifications.tools_list_changed is True
    assert decode(encode(params)) == wire
