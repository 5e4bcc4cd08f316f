"""Middleware of Ferrule leaves plain calls on the fast path, and does there what it does on the general path.

Generated lists of middleware and generated frames go to two servers that differ in ``fast_path`` alone: same answers,
refusals, calls, log lines, reports, metrics and spans.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import MCPServer
from ferrule.integrations.opentelemetry import Metrics, Tracing
from ferrule.middleware import CacheResults, CallNext, LogRequests, MaskErrors, RateLimit, ServerRequestContext, Timing
from tests.integrations.opentelemetry.support import Durations, Spans
from tests.pipes import line_to
from tests.properties.test_fast_path import (
    EXAMPLES,
    MODERN,
    Recorder,
    begun,
    conversation,
    make_app,
    open_line,
    with_envelope,
)

Make = Callable[["Seen"], Any]


class Seen:
    """What the middleware of one server has reported."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.reports: list[Any] = []
        self.tracer = Spans()
        self.meter = Durations()

    def report(self, timing: Any) -> None:
        """Fails for one tool, so that the error of a middleware is seen."""
        self.reports.append(repr(timing))
        if timing.name == "table":
            raise RuntimeError("the report failed")

    def recorded(self) -> list[str]:
        """Spans and durations."""
        spans = [repr((span.name, span.attributes, span.status, span.parent)) for span in self.tracer.spans]
        return spans + [repr(point) for point in self.meter.durations]


MIDDLEWARE: dict[str, Make] = {
    "timing": lambda seen: Timing(seen.report, clock=lambda: 1.0),
    "log": lambda _: LogRequests(clock=lambda: 1.0),
    "mask": lambda _: MaskErrors(),
    "limit of 3": lambda _: RateLimit(3, per_s=60, clock=lambda: 0.0),
    "limit of 9": lambda _: RateLimit(9, per_s=60, clock=lambda: 0.0),
    "limit of lists": lambda _: RateLimit(1, per_s=60, methods=["tools/list"], clock=lambda: 0.0),
    "cache": lambda _: CacheResults(60, tools=["echo", "add"]),
    "tracing": lambda seen: Tracing(seen.tracer),
    "metrics": lambda seen: Metrics(seen.meter, clock=lambda: 1.0),
}


def serve(names: list[str], revision: str, chunks: list[bytes], *, fast_path: bool) -> tuple[Any, Seen, list[str]]:
    """The server after the frames, what its middleware has reported, and the log; the received bytes are reported."""
    seen, recorder, logger = Seen(), Recorder(), logging.getLogger("ferrule")
    app = make_app(seen.calls, fast_path=fast_path, middleware=[MIDDLEWARE[name](seen) for name in names])

    async def test() -> None:
        async with line_to(app, drain_s=0) as line:
            await open_line(line, revision)
            for chunk in chunks:
                await line.send(chunk)
        seen.reports.append(line.received)

    level = logger.level
    logger.addHandler(recorder)
    logger.setLevel(logging.INFO)
    try:
        with patch("ferrule.app.middleware.builtin.secrets", SimpleNamespace(token_hex=lambda _: "reference")):
            asyncio.run(test())
        return app, seen, recorder.lines
    finally:
        logger.removeHandler(recorder)
        logger.setLevel(level)


@settings(max_examples=EXAMPLES)
@given(st.lists(st.sampled_from(sorted(MIDDLEWARE)), min_size=1, max_size=4), conversation())
def test_middleware_does_the_same_on_both_paths(names: list[str], case: tuple[str, list[bytes], bool]) -> None:
    """Whatever the order of the middleware, and the same instance of none twice."""
    revision, chunks, is_ordered = case
    _, seen, logged = serve(names, revision, chunks, fast_path=True)
    general, expected, expected_log = serve(names, revision, chunks, fast_path=False)
    order: Any = list if is_ordered else sorted
    assert general.tools.fast_calls == 0
    assert order(begun(seen.calls)) == order(begun(expected.calls))
    received, wanted = seen.reports.pop(), expected.reports.pop()
    assert order(received.splitlines()) == order(wanted.splitlines())
    assert order(seen.reports) == order(expected.reports)
    assert order(logged) == order(expected_log)
    assert sorted(seen.recorded()) == sorted(expected.recorded())


def plain(name: str, /, **arguments: Any) -> dict[str, Any]:
    """A call whose id is filled in later."""
    return {"jsonrpc": "2.0", "id": 0, "method": "tools/call", "params": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_a_server_with_all_the_middleware_keeps_the_fast_path(revision: str) -> None:
    """Calls that return at once, that wait, that fail; and tools whose results are not cached."""
    calls = [plain("item", name="x"), plain("waits", passes=2), plain("fails", how="tool"), plain("anything")] * 2
    chunks = [with_envelope(call, number, revision) for number, call in enumerate(calls, 1)]
    names = [name for name in MIDDLEWARE if name != "limit of 3"]
    app, seen, logged = serve(names, revision, chunks, fast_path=True)
    assert (app.tools.fast_calls, app.tools.general_calls) == (8, 0)
    assert len(seen.calls) == 8
    assert sum("tools/call" in line for line in logged) == 8


def test_what_a_limit_refuses_was_not_counted_by_another() -> None:
    """The call that one middleware does not admit has not yet passed any: the general path counts it once."""
    chunks = [with_envelope(plain("item", name="x"), number, MODERN) for number in range(1, 11)]
    app, seen, _ = serve(["limit of 9", "timing", "limit of 3"], MODERN, chunks, fast_path=True)
    assert app.tools.fast_calls == 3
    outcomes = [report.rpartition("outcome=")[2] for report in seen.reports if "TimingOf" in str(report)]
    assert outcomes[1:] == ["'ok')"] * 3 + ["'429')"] * 6


async def own(ctx: ServerRequestContext[Any], call_next: CallNext) -> Any:
    """Middleware of a user."""
    return await call_next(ctx)


class Own(Timing):
    """A subclass that does more than its base."""

    async def __call__(self, ctx: ServerRequestContext[Any], call_next: CallNext, /) -> Any:
        return await call_next(ctx)


@pytest.mark.parametrize(
    "added", [own, Own(print), RateLimit(9, per_s=1, key=lambda ctx: str(ctx.params))], ids=["own", "subclass", "key"]
)
def test_middleware_that_wants_the_request_gets_it(added: Any) -> None:
    """The calls leave the fast path, and come back when it is removed."""

    async def test() -> None:
        app: MCPServer[Any] = make_app([], middleware=[LogRequests(clock=lambda: 0.0)])
        ids = itertools.count(1)
        async with line_to(app) as line:
            await open_line(line, MODERN)
            taken = []
            for change in (None, app.lowlevel.middleware.append, app.lowlevel.middleware.remove):
                if change is not None:
                    change(added)
                await line.send(with_envelope(plain("item", name="x"), next(ids), MODERN))
                taken.append(app.tools.fast_calls)
        assert taken == [1, 1, 2]

    asyncio.run(test())
