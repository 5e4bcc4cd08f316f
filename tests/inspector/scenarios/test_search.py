"""A server with a search on the page: what is behind it is listed, marked, filtered and called."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import developing, watching
from tests.inspector.scenarios.test_page import choose, expect, finished, press

WAREHOUSE = Path(__file__).parents[1] / "servers" / "warehouse.py"


def gateway(folder: Path) -> str:
    """A command for one over two servers."""
    command = {"command": sys.executable, "args": ["-m", "ferrule", "run", str(WAREHOUSE.with_name("workshop.py"))]}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"north": command, "south": command}}))
    return shlex.join([sys.executable, "-m", "ferrule", "run", str(path), "--search"])


@pytest.mark.parametrize("mode", ["2026-07-28", "2025-11-25"])
def test_what_is_behind_a_search_is_listed_and_called(browser: Any, mode: str) -> None:
    """Its form is made of the definition that is asked for when it is chosen; its questions come as ever."""
    with developing(WAREHOUSE, "--mode", mode) as dev, watching(browser, dev.url) as watched:
        page = watched.page
        expect(page.locator(".list-head .dim").first).to_have_text("1,205")
        expect(page.locator('.item[data-key="search_tools"] .chip', has_text="behind")).to_have_count(0)
        expect(page.locator(".list-side .items").first).to_contain_text("Show 200 more of 1,105")
        page.get_by_label("Filter tools").fill("weigh")
        expect(page.locator('.item[data-key="weigh"] .chip').first).to_have_text("behind search")
        choose(page, "weigh")
        page.get_by_label("grams", exact=True).fill("21")
        page.get_by_label("pieces", exact=True).fill("2")
        press(page, "Call")
        assert "42" in finished(page)
        page.get_by_label("Filter tools").fill("throw")
        choose(page, "confirm")
        page.get_by_label("what", exact=True).fill("brass")
        press(page, "Call")
        page.locator(".question").first.wait_for()
        watched.shoot("search")


def test_what_is_behind_a_gateway_is_listed_and_called(browser: Any, tmp_path: Path) -> None:
    with developing(gateway(tmp_path)) as dev, watching(browser, dev.url) as watched:
        page = watched.page
        # A gateway lists what is connected; a server behind a search that connects later changes no list.
        for _ in range(60):
            page.get_by_label("Filter tools").fill("south_add")
            page.locator(".list-side .items").first.wait_for(state="attached")
            page.wait_for_timeout(500)
            if page.locator('.item[data-key="south_add"]').count():
                break
            page.reload()
        expect(page.locator('.item[data-key="south_add"] .chip')).to_have_text("behind search")
        choose(page, "south_add")
        page.get_by_label("a", exact=True).fill("40")
        page.get_by_label("b", exact=True).fill("2")
        press(page, "Call")
        assert "42" in finished(page)


def test_the_operations_say_what_is_missing() -> None:
    with developing(WAREHOUSE) as dev:
        assert len(dev.job("a", "behind")["outcome"]) == 1202
        assert dev.job("b", "describe", tool="weigh")["outcome"]["inputSchema"]["required"] == ["grams"]
        failed = dev.job("c", "describe", tool="nothing")
        assert (failed["state"], failed["error"]) == ("failed", "the search has no tool 'nothing'")
