"""`ferrule dev mcp.json`: every server of a configuration with its state, and a switch between them."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import WORKSHOP, Dev, developing, watching
from tests.inspector.scenarios.test_history import shoot_all
from tests.inspector.scenarios.test_page import choose, expect, finished, press

NOTES = '''
import os
from ferrule import MCPServer

app = MCPServer("notes", title="Notes")


@app.tool
def process() -> int:
    """The process of this server."""
    return os.getpid()
'''


@pytest.fixture
def several(tmp_path: Path) -> Iterator[Dev]:
    """An inspector of a configuration with two servers that work, one that does not start, and a malformed entry."""
    notes = tmp_path / "notes.py"
    notes.write_text(NOTES, encoding="utf-8")
    run = ["-m", "ferrule", "run"]
    servers = {
        "workshop": {"command": sys.executable, "args": [*run, str(WORKSHOP)]},
        "notes & more": {"command": sys.executable, "args": [*run, str(notes)]},
        "broken": {"command": sys.executable, "args": ["-c", "raise SystemExit('no database')"]},
        "malformed": {"args": ["nothing to start"]},
    }
    config = tmp_path / "mcp.json"
    config.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    with developing(config) as running:
        yield running


def server(page: Any, name: str) -> Any:
    """The button of a server."""
    return page.locator(f'.server[data-key="{name}"]')


def test_all_servers_are_shown_with_their_state(browser: Any, several: Dev) -> None:
    """Connected, down with the reason, and down since its process ended; each keeps what was done with it."""
    with watching(browser, several.url) as watched:
        page = watched.page
        page.wait_for_selector(".item")
        expect(server(page, "workshop")).to_have_attribute("aria-current", "true")
        expect(server(page, "notes & more")).to_contain_text("connected")
        expect(server(page, "broken")).to_contain_text("down")
        assert "no database" in server(page, "broken").get_attribute("title")
        expect(server(page, "malformed")).to_contain_text("down")
        shoot_all(watched, "servers")
        choose(page, "add")
        page.get_by_label("a", exact=True).fill("4")
        press(page, "Call")
        assert "6" in finished(page)
        server(page, "malformed").click()
        page.locator(".server-why", has_text="malformed").wait_for()
        server(page, "notes & more").click()
        expect(server(page, "notes & more")).to_have_attribute("aria-current", "true")
        expect(page.locator("#server-name")).to_contain_text("Notes")
        press(page, "Call")
        process = int(re.search(r"\d+", finished(page))[0])
        assert process != several.process.pid
        page.reload()
        assert str(process) in finished(page)
        os.kill(process, signal.SIGKILL)
        expect(server(page, "notes & more")).to_contain_text("down")
        page.locator("#failed", has_text="The server has ended").wait_for()
        press(page, "Call")
        expect(server(page, "notes & more")).to_contain_text("connected")
        expect(page.locator("#view-tools .job-outcome")).not_to_contain_text(str(process))
        server(page, "notes & more").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        expect(server(page, "workshop")).to_have_attribute("aria-current", "true")
        assert page.get_by_label("a", exact=True).input_value() == "4"
        assert "6" in finished(page)
        server(page, "broken").click()
        page.locator("#failed", has_text="no database").wait_for()


def test_an_unknown_server_in_a_link_is_the_first_one(browser: Any, several: Dev) -> None:
    """The link was made for another configuration."""
    with watching(browser, several.url) as watched:
        page = watched.page
        page.wait_for_selector(".item")
        page.goto(f"{several.url.partition('?')[0]}?server=elsewhere#tools/cut")
        page.wait_for_url(re.compile(r"/#tools"))
        expect(server(page, "workshop")).to_have_attribute("aria-current", "true")
        watched.complaints = [line for line in watched.complaints if "404" not in line]  # the browser's own line


def test_the_api_names_the_server_in_a_header(several: Dev) -> None:
    """Percent-encoded, and nothing else of it can be chosen."""
    for name, target in (("notes%20%26%20more", "notes & more"), ("workshop", "workshop")):
        status, answer = several.request("POST", "/api/state", b"{}", x_ferrule_server=name)
        assert status == 200
        assert json.loads(answer)["target"].endswith(f":{target}")
    for name in ("malformed", "elsewhere", "..%2f"):
        assert several.request("POST", "/api/state", b"{}", x_ferrule_server=name)[0] == 404
