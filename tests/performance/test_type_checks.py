"""Abstract classes are not asked about what has an exact type: each question takes half a microsecond."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.kernel.harness import modern
from tests.performance.test_growth import LEGACY, PLAIN, answered, with_tools


async def asked_by(work: Callable[[], Awaitable[Any]]) -> Counter[str]:
    """Where abstract classes are asked during a piece of work, after it has been done twice."""
    found: Counter[str] = Counter()

    def profile(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_name == "__instancecheck__":
            caller = frame.f_back
            found[f"{caller.f_code.co_filename}:{caller.f_lineno}"] += 1

    await work()
    await work()
    sys.setprofile(profile)
    try:
        await work()
    finally:
        sys.setprofile(None)
    return found


def test_a_plain_call_asks_no_abstract_class() -> None:
    """In either era."""

    async def test() -> None:
        endpoint = with_tools(1).asgi(allowed_hosts=["127.0.0.1:*"], allowed_origins=["http://127.0.0.1:8000"])
        params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        start, *_ = await answered(endpoint, hello, headers=PLAIN.items())
        session = dict(start["headers"])[b"mcp-session-id"]
        headers = {**PLAIN, b"mcp-session-id": session, b"mcp-protocol-version": LEGACY.encode()}
        call = {"name": "tool_0", "arguments": {}}
        legacy = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        assert await asked_by(lambda: answered(endpoint, legacy, headers=headers.items())) == Counter()
        assert await asked_by(lambda: answered(endpoint, modern(1, "tools/call", call), name="tool_0")) == Counter()

    asyncio.run(test())


def test_the_counter_notices_what_it_forbids() -> None:
    """A test that cannot fail is a defect."""

    async def ask() -> None:
        isinstance({}, Mapping)

    assert asyncio.run(asked_by(ask)).total() == 1
