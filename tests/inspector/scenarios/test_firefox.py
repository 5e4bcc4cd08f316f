"""The page in Firefox: open it, call a tool, answer a question, see an error and a message, change the theme."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.inspector.conftest import SHOTS, Dev

SCRIPT = Path(__file__).with_name("firefox.mjs")


@pytest.fixture(scope="module")
def seen(firefox: str, node: str, page_peers: Path, dev: Dev) -> Any:
    """What the script reports, from one Firefox."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    command = [node, str(SCRIPT), dev.url, firefox, str(page_peers / "node_modules"), str(SHOTS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "error" not in found, found["error"]
    return found


def test_the_page_opens(seen: Any) -> None:
    """Its token leaves the address, its tools are listed."""
    assert seen["version"].lower().startswith("firefox")
    assert "token" not in seen["address"]
    assert seen["tools"] > 10


def test_a_tool_is_called_and_a_question_answered(seen: Any) -> None:
    """The answer of the form reaches the tool."""
    assert "42" in seen["added"]
    assert "Ordered: cane, size M" in seen["ordered"]
    assert "Ada" in seen["ordered"]


def test_an_error_is_seen(seen: Any) -> None:
    """As failed, with the server's message."""
    assert "Failed" in seen["failed"]
    assert "Tool" in seen["failed"]


def test_arguments_are_checked_and_numbers_keep_their_text(seen: Any) -> None:
    """By line, as in Chromium."""
    assert "Line 2 metal" in " ".join(seen["problems"].split())
    assert seen["exact"] == "[1.0,1e400,9007199254740993]"


def test_messages_open_and_the_theme_changes(seen: Any) -> None:
    """On a small screen, too."""
    assert "jsonrpc" in seen["message"]
    assert seen["grounds"][0] != seen["grounds"][1]
    assert seen["theme"] == "Colour theme: dark"
    assert seen["width"] <= 390


def test_nothing_complains_and_nothing_is_loaded_from_elsewhere(seen: Any, dev: Dev) -> None:
    """The policy holds in this browser, too."""
    assert seen["complaints"] == []
    # Firefox lists a font of its own as data.
    ours = ("data:", f"http://127.0.0.1:{dev.port}/")
    assert [url for url in seen["requests"] if not url.startswith(ours)] == []
