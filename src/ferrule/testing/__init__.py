"""The public test kit, which Ferrule's own tests use too, for tests of servers and clients.

==========================================  ===========================================================================
`pair`                                      two connected dispatchers in memory
`connected`                                 a client's dispatcher connected to a running server
`capture_messages`                          record the messages of a stream pair
`ManualClock`                               a clock that a test advances
`load_conversation`, `run_conversation` …   conversation files, replayed over four carriers and every revision
`Recording`                                 a server that answers from a recording of ``ferrule trace``
`tool_cases`, `check_tools`                 calls made from schemas: valid, at the edges, invalid
`calls_of`                                  the calls that reach a server, with assertions on their order
`TaskStoreContract` and others              the requirements of a store, as tests for your own implementation
`app_host`, `AppHost`                       a host of views, for tools with a page (MCP Apps); in a browser, too
==========================================  ===========================================================================

Names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ferrule.testing.apps import AppHost as AppHost
    from ferrule.testing.apps import AppMessage as AppMessage
    from ferrule.testing.apps import AppView as AppView
    from ferrule.testing.apps import ViewError as ViewError
    from ferrule.testing.apps import ViewFinding as ViewFinding
    from ferrule.testing.browser import BrowserHost as BrowserHost
    from ferrule.testing.browser import BrowserView as BrowserView
    from ferrule.testing.browser import NoBrowser as NoBrowser
    from ferrule.testing.browser import app_host as app_host
    from ferrule.testing.browser import launch_browser as launch_browser
    from ferrule.testing.calls.call_sequence import CallSequence as CallSequence
    from ferrule.testing.calls.call_sequence import calls_of as calls_of
    from ferrule.testing.calls.cases import ToolCase as ToolCase
    from ferrule.testing.calls.cases import check_tools as check_tools
    from ferrule.testing.calls.cases import check_tools_sync as check_tools_sync
    from ferrule.testing.calls.cases import tool_cases as tool_cases
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
    from ferrule.testing.recordings.stand_in import Recording as Recording

_HOMES = {
    "AppHost": "apps",
    "AppMessage": "apps",
    "AppView": "apps",
    "BlobStoreContract": "contracts",
    "BrowserHost": "browser",
    "BrowserView": "browser",
    "CacheStoreContract": "contracts",
    "CallSequence": "calls.call_sequence",
    "CapturedMessage": "capture",
    "ChannelContract": "contracts",
    "Conversation": "conversations",
    "ConversationMismatch": "conversations",
    "EventStoreContract": "contracts",
    "ManualClock": "clock",
    "MarksContract": "contracts",
    "RateLimitStoreContract": "contracts",
    "NoBrowser": "browser",
    "Recording": "recordings.stand_in",
    "SessionStoreContract": "contracts",
    "TaskStoreContract": "contracts",
    "ToolCase": "calls.cases",
    "Transcript": "conversations",
    "ViewError": "apps",
    "ViewFinding": "apps",
    "app_host": "browser",
    "calls_of": "calls.call_sequence",
    "capture_messages": "capture",
    "check_tools": "calls.cases",
    "check_tools_sync": "calls.cases",
    "connected": "pairs",
    "launch_browser": "browser",
    "load_conversation": "conversations",
    "pair": "pairs",
    "parse_conversation": "conversations",
    "run_conversation": "conversations",
    "runs_of": "conversations",
    "tool_cases": "calls.cases",
    "update_conversation": "conversations",
}

__all__ = [
    "AppHost",
    "AppMessage",
    "AppView",
    "BlobStoreContract",
    "BrowserHost",
    "BrowserView",
    "CacheStoreContract",
    "CallSequence",
    "CapturedMessage",
    "ChannelContract",
    "Conversation",
    "ConversationMismatch",
    "EventStoreContract",
    "ManualClock",
    "MarksContract",
    "NoBrowser",
    "RateLimitStoreContract",
    "Recording",
    "SessionStoreContract",
    "TaskStoreContract",
    "ToolCase",
    "Transcript",
    "ViewError",
    "ViewFinding",
    "app_host",
    "calls_of",
    "capture_messages",
    "check_tools",
    "check_tools_sync",
    "connected",
    "launch_browser",
    "load_conversation",
    "pair",
    "parse_conversation",
    "run_conversation",
    "runs_of",
    "tool_cases",
    "update_conversation",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
