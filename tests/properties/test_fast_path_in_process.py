"""The fast path and the general path of a client with a server in its process: same results, same calls, same log.

Generated calls of both eras, plain and odd, alone and several at once, cancelled and out of time.
"""

from __future__ import annotations

import asyncio
import logging
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import Client
from tests.properties.test_fast_path import (
    ARGUMENTS,
    EXAMPLES,
    HANDSHAKES,
    JSON,
    MODERN,
    TEXT,
    Recorder,
    begun,
    make_app,
)

Call = tuple[str, Any, dict[str, Any]]


@st.composite
def call(draw: st.DrawFn) -> Call:
    """A tool, its arguments, and options of the call."""
    name = draw(st.sampled_from(sorted(ARGUMENTS)))
    arguments: Any = draw(ARGUMENTS[name])
    options: dict[str, Any] = {}
    odd = draw(st.integers(0, 14))
    if odd == 0:
        arguments = draw(st.dictionaries(TEXT, JSON, max_size=2))
    elif odd == 1:
        arguments = {**arguments, draw(TEXT): draw(JSON)}
    elif odd == 2:
        arguments = None
    elif odd == 3:
        name = draw(TEXT)
    elif odd == 4:
        options["meta"] = {"any": draw(JSON)}
    elif odd == 5:
        options["max_total_s"] = 30
    elif odd == 6:
        options["raise_on_error"] = True
    elif odd == 7:
        options["timeout_s"] = draw(st.sampled_from([None, 30]))
    elif odd == 8:
        options["result_type"] = draw(st.sampled_from([str, dict, int]))
    elif odd == 9:
        arguments = {key: (value,) if isinstance(value, str) else value for key, value in arguments.items()}
    elif odd == 10:
        arguments = {**arguments, draw(st.sampled_from(["value", "b"])): float("nan")}
    elif odd == 11:
        options["on_progress"] = True
    if name == "waits_for_ever":
        options.setdefault("cancelled", draw(st.booleans()))
    return name, arguments, options


async def outcome(client: Client, made: Call) -> Any:
    """What a call gives, in a form that can be compared."""
    name, arguments, given = made
    options, reported = dict(given), []
    if options.pop("on_progress", False):
        options["on_progress"] = lambda *progress: reported.append(progress)
    is_cancelled = options.pop("cancelled", None)
    if is_cancelled is False and isinstance(arguments, dict) and [*map(type, arguments.values())] == [str]:
        options["timeout_s"] = 0.05  # of a call that waits; one that is refused is in time on a busy machine too
    calling = asyncio.ensure_future(client.call_tool(name, arguments, **options))
    if is_cancelled:
        for _ in range(12):
            await asyncio.sleep(0)
        calling.cancel()
    try:
        called = await calling
        return repr(called.result), repr(called.data), reported
    except (Exception, asyncio.CancelledError) as error:
        facts = {key: getattr(error, key, None) for key in ("code", "data", "server", "method", "timeout_s")}
        return type(error), re.sub(r"after [\d.]+ m?s", "after", str(error)), repr(facts), repr(error.__cause__)


def use(revision: str, rounds: list[list[Call]], *, fast_path: bool) -> tuple[list[Any], list[Any], list[str], Any]:
    """What the caller gets, what was called, what was logged, and how many calls each path took."""
    calls: list[Any] = []
    recorder, logger = Recorder(), logging.getLogger("ferrule")
    app = make_app(calls, fast_path=fast_path)

    async def test() -> tuple[list[Any], Any]:
        got: list[Any] = []
        async with Client(app, mode=revision, fast_path=fast_path, log_handler=lambda _: None) as client:
            for together in rounds:
                got += await asyncio.gather(*(outcome(client, one) for one in together))
            return got, (client.call_counts, app.tools.fast_calls, app.tools.general_calls)

    logger.addHandler(recorder)
    try:
        got, counts = asyncio.run(test())
        return got, calls, recorder.lines, counts
    finally:
        logger.removeHandler(recorder)


ROUNDS = st.lists(st.lists(call(), min_size=1, max_size=3), min_size=1, max_size=6)


@settings(max_examples=EXAMPLES)
@given(st.sampled_from([MODERN, MODERN, *HANDSHAKES]), ROUNDS)
def test_both_paths_give_call_and_log_alike(revision: str, rounds: list[list[Call]]) -> None:
    """The general path is what a caller gets with ``fast_path=False`` on both sides."""
    is_ordered = all(len(together) == 1 for together in rounds)
    order: Any = list if is_ordered else sorted
    got, calls, logged, _ = use(revision, rounds, fast_path=True)
    expected, expected_calls, expected_log, (_, taken, _) = use(revision, rounds, fast_path=False)
    assert taken == 0
    assert [repr(one) for one in got] == [repr(one) for one in expected]
    assert order(begun(calls)) == order(begun(expected_calls))
    assert sorted(map(repr, calls)) == sorted(map(repr, expected_calls))
    assert order(logged) == order(expected_log)


@pytest.mark.parametrize("revision", [MODERN, "2025-06-18"])
def test_the_gauges_count_the_calls_of_both_sides(revision: str) -> None:
    """Plain calls, those that wait included, count as fast on both sides; the others once as general."""
    plain: list[Call] = [("echo", {"text": "é"}, {}), ("waits", {"passes": 2}, {}), ("item", {"name": "x"}, {})]
    unusual: list[Call] = [("echo", {"text": 1}, {}), ("echo", {"text": "x"}, {"meta": {"any": 1}})]
    *_, (client, fast, general) = use(revision, [plain, plain, unusual], fast_path=True)
    assert client.fast + client.general == fast + general == 8
    # Over the pair of streams the error result of the server's general path is a plain answer for the client.
    assert (client.fast, fast) == (6 if revision == MODERN else 7, 6)
