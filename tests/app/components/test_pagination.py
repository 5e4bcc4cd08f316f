"""Cursors are opaque, survive changes, and never end a list by being empty."""

from __future__ import annotations

import pytest

from ferrule import MCPServer
from ferrule.app.components.pagination import LruCache, decode_cursor, encode_cursor
from ferrule.protocol.errors import InvalidParams
from tests.app.support import ask

pytestmark = pytest.mark.anyio


def server(count: int, page_size: int | None) -> MCPServer:
    app = MCPServer("x", page_size=page_size)
    for number in range(count):
        app.add_tool(lambda: None, name=f"t{number}")
    return app


async def page(app: MCPServer, cursor: str | None = None, method: str = "tools/list"):
    result = await ask(app, method, {} if cursor is None else {"cursor": cursor})
    return [tool["name"] for tool in result["tools"]], result.get("nextCursor")


async def names(app: MCPServer) -> list[str]:
    found, cursor = await page(app)
    while cursor is not None:
        more, cursor = await page(app, cursor)
        found += more
    return found


@pytest.mark.parametrize("size", [None, 1, 2, 3, 7, 100])
async def test_all_pages_together_are_the_list_in_order(size):
    """The order of registration, each exactly once, and no empty last page."""
    assert await names(server(7, size)) == [f"t{number}" for number in range(7)]


async def test_a_full_last_page_has_no_cursor():
    """A missing cursor is the end, so a cursor promises more."""
    _, cursor = await page(server(4, 2))
    found, cursor = await page(server(4, 2), cursor)
    assert (found, cursor) == (["t2", "t3"], None)


async def test_a_cursor_survives_changes_on_either_side():
    """An offset would skip or repeat members when earlier ones go."""
    app = server(6, 2)
    _, cursor = await page(app)
    app.remove_tool("t0")
    app.remove_tool("t1")
    app.remove_tool("t2")
    app.add_tool(lambda: None, name="new")
    found, cursor = await page(app, cursor)
    assert found == ["t3", "t4"]
    assert (await page(app, cursor))[0] == ["t5", "new"]


async def test_a_cursor_of_another_worker_continues():
    """Behind a load balancer the next page may come from another process."""
    _, cursor = await page(server(4, 2))
    assert (await page(server(4, 2), cursor))[0] == ["t2", "t3"]


async def test_an_empty_cursor_stands_before_the_first_member():
    """It is a cursor (2026-07-28, "Pagination"), so it must not be read as the end, nor as an error."""
    assert (await page(server(2, None), ""))[0] == ["t0", "t1"]


@pytest.mark.parametrize(
    "cursor", ["x", "0", "YWZ0ZXI6", encode_cursor(3) + "=", "YWZ0ZXI6LTE", "é", "YWZ0ZXI6MDM", "a" * 5000]
)
async def test_a_cursor_that_is_not_ours_is_invalid_params(cursor):
    """It is -32602 (2026-07-28, "Pagination"); a near miss must not be read as something else."""
    with pytest.raises(InvalidParams) as caught:
        await page(server(2, 1), cursor)
    assert caught.value.code == -32602


def test_cursors_are_read_back():
    """Encoding and decoding are inverse."""
    assert [decode_cursor(encode_cursor(number)) for number in (0, 1, 10**12)] == [0, 1, 10**12]


def test_the_memory_of_pages_is_bounded():
    """Clients choose cursors; what they choose must not fill memory."""
    cache: LruCache[int] = LruCache(2)
    for number in range(3):
        cache.put(number, number)
        cache.get(1)
    assert (cache.get(0), cache.get(1), cache.get(2), len(cache)) == (None, 1, 2, 2)


async def test_pages_are_encoded_once_until_something_changes():
    """A thousand tools are not described again for every client."""
    app = server(3, None)
    made = 0
    component = app.tools.index.live["t0"]
    original = type(component).definition

    def counted(self, revision=None):
        nonlocal made
        made += 1
        return original(self, revision)

    type(component).definition = counted
    try:
        for _ in range(3):
            await page(app)
        assert made == 3
        app.disable(tool="t1")
        assert (await page(app))[0] == ["t0", "t2"]
        assert made == 5
    finally:
        type(component).definition = original
