"""The page about the architecture lists the functions that a `tools/call` really passes, in their order."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import ferrule
from ferrule import MCPServer
from tests.kernel import harness
from tests.pipes import line_to
from tests.transports.asgi import support

SOURCE = Path(ferrule.__file__).parent.parent
PAGE = Path(__file__).parents[2] / "docs" / "topics" / "architecture.md"
YOUR_FUNCTION = "your function"

SECTIONS = {
    "stdio": "## One `tools/call` over stdio",
    "HTTP": "## The same over HTTP",
    "fast path": "## The fast path of plain calls",
}
PARAMS = {"name": "add", "arguments": {"a": 1, "b": 2}}


# -- what the page says -----------------------------------------------------------------------------------------------


def steps_of(page: str, section: str) -> list[str]:
    """Return the numbered steps below a heading, each with the lines under it."""
    text = page.split(f"\n{SECTIONS[section]}\n", 1)[1].split("\n## ", 1)[0]
    steps: list[str] = []
    for line in text.splitlines():
        if re.match(r"\d+\. ", line):
            steps.append(line)
        elif steps and (line.startswith("    ") or not line):
            steps[-1] += f"\n{line}"
        elif steps:
            break
    return steps


def hops_of(step: str, *facts: str) -> Iterator[str]:
    """Return the names that a step lists for a call with these facts: its transport and era."""
    for line in step.splitlines():
        condition = re.match(r"\s+- \*(.+?)\*", line)
        if condition and not set(condition[1].split(", ")) <= set(facts):
            continue
        shown = re.sub(r"\([^()]*\)", "", line)
        for name, own in re.findall(r"`(ferrule\.[\w.]+)`|\*\*(your function)\*\*", shown):
            yield name or own


def listed(transport: str, era: str, *, is_fast: bool) -> list[str]:
    """Return the hops of a call as the page lists them."""
    page = PAGE.read_text(encoding="utf-8")
    if is_fast:
        steps = steps_of(page, "fast path")
    else:
        steps = steps_of(page, "stdio")
        if transport == "HTTP":
            over_http = steps_of(page, "HTTP")
            steps = [*over_http[:-1], *steps[4:8], *over_http[-1:]]
    return [name for step in steps for name in hops_of(step, transport, era)]


# -- what happens -----------------------------------------------------------------------------------------------------


class Recorder:
    """Notes every entry into a Python frame of the package, and into the tool's function, by its dotted name."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        code = frame.f_code
        file = Path(code.co_filename)
        if event != "call":
            return
        if code is add.__code__:
            self.names.append(YOUR_FUNCTION)
        elif file.is_relative_to(SOURCE / "ferrule"):
            module = ".".join(file.relative_to(SOURCE).with_suffix("").parts)
            # A function that was compiled for one component stands in an attribute of its own name.
            name = re.sub(r"\._?\w+\.<locals>(?=\.\w+$)", "", code.co_qualname)
            self.names.append(f"{module}.{name}".replace(".__init__.", "."))

    async def record(self, work: Awaitable[Any]) -> Any:
        """Await something while recording."""
        sys.setprofile(self)
        try:
            return await work
        finally:
            sys.setprofile(None)


async def add(a: int, b: int) -> int:
    """The function of the tool."""
    return a + b


async def over_stdio(app: MCPServer[Any], era: str, recorder: Recorder) -> Any:
    """Call the tool twice over pipes and record the second call; return its answer."""
    make = harness.modern if era == "modern" else harness.request
    async with line_to(app) as line:
        if era == "modern":
            await line.tell(make(1, "server/discover"))
        else:
            await line.tell(harness.initialize(1), harness.note("notifications/initialized"))
        await line.tell(make(2, "tools/call", PARAMS))
        await recorder.record(line.tell(make(3, "tools/call", PARAMS)))
        return line.messages()[-1]


async def over_http(app: MCPServer[Any], era: str, recorder: Recorder) -> Any:
    """Call the tool twice over ASGI and record the second call; return its answer."""
    endpoint = app.asgi()
    session = None if era == "modern" else await support.open_session(endpoint)

    def post(id: int) -> support.Call:
        if era == "modern":
            return support.modern_call(endpoint, support.modern(id, "tools/call", PARAMS))
        return support.legacy_call(endpoint, support.request(id, "tools/call", PARAMS), session)

    await post(2).run()
    answer = await recorder.record(post(3).run())
    await endpoint.aclose()
    return json.loads(answer.body)


def recorded(transport: str, era: str, *, is_fast: bool) -> list[str]:
    """Return the frames of one call, in the order in which they were entered."""
    app: MCPServer[Any] = MCPServer("recorded", fast_path=is_fast)
    app.tool(add)
    recorder = Recorder()
    answer = asyncio.run((over_stdio if transport == "stdio" else over_http)(app, era, recorder))
    assert answer["result"]["content"] == [{"type": "text", "text": "3"}]
    assert recorder.names.count(YOUR_FUNCTION) == 1
    return recorder.names


# -- both together ----------------------------------------------------------------------------------------------------


def first_missing(hops: list[str], names: list[str]) -> str | None:
    """Return the first hop that does not come after the one before it; ``None`` if all come in order."""
    position = 0
    for hop in hops:
        while position < len(names) and names[position] != hop and not names[position].startswith(f"{hop}."):
            position += 1
        if position == len(names):
            return hop
    return None


@pytest.mark.parametrize("is_fast", [False, True], ids=["general path", "fast path"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "HTTP"])
def test_a_call_passes_what_the_page_lists_in_this_order(transport: str, era: str, is_fast: bool) -> None:
    """A reader who follows the page with a debugger stops at each of its names."""
    hops = listed(transport, era, is_fast=is_fast)
    names = recorded(transport, era, is_fast=is_fast)
    assert len(hops) > 5
    assert YOUR_FUNCTION in hops
    assert first_missing(hops, names) is None, "\n".join(names)


def test_every_dotted_name_on_the_page_exists() -> None:
    """Modules, classes, methods, and attributes that a class declares."""
    missing: list[str] = []
    for name in sorted(set(re.findall(r"`(ferrule(?:\.\w+)+)`", PAGE.read_text(encoding="utf-8")))):
        parts, rest = name.split("."), []
        found: Any = None
        while parts and found is None:
            try:
                found = import_module(".".join(parts))
            except ModuleNotFoundError:
                rest.insert(0, parts.pop())
        for part in rest:
            found = getattr(found, part, None) or getattr(found, "__annotations__", {}).get(part)
        if found is None:
            missing.append(name)
    assert missing == []


def test_the_search_finds_what_is_out_of_order() -> None:
    """A name is also found by what is inside it, and one that comes too early is missing."""
    assert first_missing(["a.b", "a.c"], ["a.b.x", "a.c"]) is None
    assert first_missing(["a.b", "a.c"], ["a.c", "a.b"]) == "a.c"
    assert list(hops_of("1. `ferrule.a` (`ferrule.b`)\n    - *HTTP, modern*: `ferrule.c`", "stdio", "modern")) == [
        "ferrule.a"
    ]
