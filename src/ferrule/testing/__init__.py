"""The public test kit: what Ferrule's own tests stand on, for the tests of servers and clients built with it.

==========================================  ===========================================================================
`pair`                                      two connected dispatchers in memory
`connected`                                 a client's dispatcher connected to a running server
`capture_messages`                          see what passes over a stream pair
`ManualClock`                               a clock that a test turns by hand
`load_conversation`, `run_conversation` …   conversation files, replayed over four carriers and every revision
`TaskStoreContract` and others              what a store must do, as tests for one of your own
==========================================  ===========================================================================

Names load when they are used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.testing.capture import CapturedMessage as CapturedMessage
    from ferrule.testing.capture import capture_messages as capture_messages
    from ferrule.testing.clock import ManualClock as ManualClock
    from ferrule.testing.contracts import BlobStoreContract as BlobStoreContract
    from ferrule.testing.contracts import CacheStoreContract as CacheStoreContract
    from ferrule.testing.contracts import ChannelContract as ChannelContract
    from ferrule.testing.contracts import EventStoreContract as EventStoreContract
    from ferrule.testing.contracts import MarksContract as MarksContract
    from ferrule.testing.contracts import RateLimitStoreContract as RateLimitStoreContract
    from ferrule.testing.contracts import SessionStoreContract as SessionStoreContract
    from ferrule.testing.contracts import TaskStoreContract as TaskStoreContract
    from ferrule.testing.conversations import Conversation as Conversation
    from ferrule.testing.conversations import ConversationMismatch as ConversationMismatch
    from ferrule.testing.conversations import Transcript as Transcript
    from ferrule.testing.conversations import load_conversation as load_conversation
    from ferrule.testing.conversations import parse_conversation as parse_conversation
    from ferrule.testing.conversations import run_conversation as run_conversation
    from ferrule.testing.conversations import runs_of as runs_of
    from ferrule.testing.conversations import update_conversation as update_conversation
    from ferrule.testing.pairs import connected as connected
    from ferrule.testing.pairs import pair as pair

_HOMES = {
    "BlobStoreContract": "contracts",
    "CacheStoreContract": "contracts",
    "CapturedMessage": "capture",
    "ChannelContract": "contracts",
    "Conversation": "conversations",
    "ConversationMismatch": "conversations",
    "EventStoreContract": "contracts",
    "ManualClock": "clock",
    "MarksContract": "contracts",
    "RateLimitStoreContract": "contracts",
    "SessionStoreContract": "contracts",
    "TaskStoreContract": "contracts",
    "Transcript": "conversations",
    "capture_messages": "capture",
    "connected": "pairs",
    "load_conversation": "conversations",
    "pair": "pairs",
    "parse_conversation": "conversations",
    "run_conversation": "conversations",
    "runs_of": "conversations",
    "update_conversation": "conversations",
}

__all__ = [
    "BlobStoreContract",
    "CacheStoreContract",
    "CapturedMessage",
    "ChannelContract",
    "Conversation",
    "ConversationMismatch",
    "EventStoreContract",
    "ManualClock",
    "MarksContract",
    "RateLimitStoreContract",
    "SessionStoreContract",
    "TaskStoreContract",
    "Transcript",
    "capture_messages",
    "connected",
    "load_conversation",
    "pair",
    "parse_conversation",
    "run_conversation",
    "runs_of",
    "update_conversation",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
