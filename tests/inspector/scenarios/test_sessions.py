"""A session is saved as a recording that other commands take, and one of another day is shown, read only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ferrule import Client
from ferrule.testing import Recording
from tests.inspector.conftest import Watched
from tests.inspector.scenarios.test_history import own, shoot_all
from tests.inspector.scenarios.test_messages import lines
from tests.inspector.scenarios.test_page import choose, finished, press

__all__ = ["own"]

SESSION_LINES = ".session-messages > .messages > li > .message"


def chosen(page: Any, path: Path) -> None:
    """Import a file."""
    with page.expect_file_chooser() as chooser:
        press(page, "Import a session")
    chooser.value.set_files(path)


def save(page: Any, folder: Path) -> Path:
    """Export the session."""
    with page.expect_download() as download:
        press(page, "Export the session")
    path = folder / download.value.suggested_filename
    download.value.save_as(path)
    return path


def test_a_session_is_exported_served_and_imported(own: Watched, tmp_path: Path) -> None:
    """The file has no secret, works as a server, and is shown again with its failure."""
    page = own.page
    choose(page, "add")
    page.get_by_label("a", exact=True).fill("40")
    press(page, "Call")
    assert "42" in finished(page)
    choose(page, "fails")
    page.get_by_label("why", exact=True).fill("Bearer abcdefghijklmnopqrstuvwxyz")
    press(page, "Call")
    finished(page, "failed")
    path = save(page, tmp_path)
    assert path.suffix == ".jsonl"
    text = path.read_text(encoding="utf-8")
    assert "abcdefghijklmnopqrstuvwxyz" not in text
    assert {json.loads(line)["from"] for line in text.splitlines()} == {"client", "server"}
    press(page, "Clear the messages")
    chosen(page, path)
    page.locator(SESSION_LINES, has_text="tools/call add").wait_for()
    assert "read only" in page.locator(".session").inner_text()
    assert "Workshop 1.4.0" in page.locator(".session").inner_text()
    assert page.locator(f"{SESSION_LINES} .chip.error").count() == 1
    assert page.locator(".session").get_by_role("button", name="Call").count() == 0
    page.locator(f"{SESSION_LINES} summary", has_text="tools/call add").first.click()
    page.locator(".session .json-tree", has_text='"42"').wait_for()
    shoot_all(own, "session")
    assert lines(page) == []  # nothing was sent
    page.get_by_label("Filter the session").fill("zebra")
    page.get_by_text("none of").wait_for()
    press(page, "Close")
    assert page.locator("#tab-session:visible").count() == 0


@pytest.mark.anyio
async def test_an_exported_session_is_a_recording(tmp_path: Path) -> None:
    """The lines of an export, as a server."""
    from ferrule.inspector.sessions import write_session
    from ferrule.inspector.trace import ConnectionTrace, MessageStore
    from tests.inspector.test_trace import Notes

    store = MessageStore()
    trace = ConnectionTrace("main", Notes(), store)
    other = ConnectionTrace("legacy", Notes(), store)
    result = {"content": [{"type": "text", "text": "42"}]}
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "x", "version": "1"},
    }
    asked = {"name": "add", "arguments": {"a": 40, "api_key": "hush"}}
    for direction, message in (
        ("out", {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        ("in", {"id": 0, "result": hello}),
        ("out", {"id": 1, "method": "tools/call", "params": asked}),
        ("in", {"id": 1, "result": result}),
    ):
        trace.note("out" if direction == "out" else "in", {"jsonrpc": "2.0", **message})
    other.note("out", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    trace.note_http("in", "200 stream open", status=200)
    trace.note_text("in", b"this is no message")
    text, left_out = write_session(store, "main")
    assert left_out == 0
    entries = [json.loads(line) for line in text.splitlines()]
    assert [entry["from"] for entry in entries] == ["client", "server"] * 2 + ["server"]
    assert entries[-1]["raw"] == "this is no message"
    assert b"hush" not in text
    path = tmp_path / "session.jsonl"
    path.write_bytes(text)
    async with Client(Recording(path)) as client:
        called = await client.call_tool("add", {"a": 40, "api_key": "(masked)"})
        assert called.text == "42"


def test_a_session_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest messages are left out, and counted."""
    from ferrule.inspector.sessions import recording
    from ferrule.inspector.trace import ConnectionTrace, MessageStore
    from tests.inspector.test_trace import Notes

    monkeypatch.setattr(recording, "MAX_SESSION_BYTES", 2000)
    store = MessageStore()
    trace = ConnectionTrace("main", Notes(), store)
    for number in range(100):
        trace.note("out", {"jsonrpc": "2.0", "id": number, "method": "ping"})
    text, left_out = recording.write_session(store, "main")
    assert len(text) <= 2000
    assert 0 < left_out < 100
    assert json.loads(text.splitlines()[-1])["message"]["id"] == 99


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no message"),
        ("{}", "Line 1 is no line of a recording"),
        ('{"at_s": 0, "from": "client", "message": {}}\nnope', "Line 2 is no line"),
        ('{"at_s": "0", "from": "client", "message": {}}', "Line 1 is no line"),
        ('{"at_s": 0, "from": "both", "message": {}}', "Line 1 is no line"),
    ],
)
def test_a_file_that_is_no_recording_says_so(watched: Watched, tmp_path: Path, text: str, words: str) -> None:
    """With the number of the line."""
    path = tmp_path / "<b>file.jsonl"
    path.write_text(text, encoding="utf-8")
    chosen(watched.page, path)
    watched.page.locator(".session .flag.bad", has_text=words).wait_for()
    press(watched.page, "Close")


def test_hostile_messages_of_a_session_are_text(watched: Watched, tmp_path: Path) -> None:
    """A file of someone else: markup, names of prototypes, values where objects are expected."""
    messages: list[Any] = [
        {"method": "<img src=x onerror=window.pwned=1>", "id": "__proto__", "params": {"_meta": 5, "name": "\u202ex"}},
        {"id": "__proto__", "result": None},
        {"id": {"a": 1}, "result": {"task": 5, "isError": "yes"}},
        {"method": {"toString": 1}, "id": 1},
        5,
        None,
        [1, 2],
        {"method": "notifications/progress", "params": [1]},
    ]
    path = tmp_path / "hostile.jsonl"
    path.write_text(
        "\n".join(json.dumps({"at_s": 1, "from": "server", "message": message}) for message in messages), "utf-8"
    )
    page = watched.page
    chosen(page, path)
    page.locator(SESSION_LINES).first.wait_for()
    for at in range(page.locator(SESSION_LINES).count()):
        page.locator(f"{SESSION_LINES} > summary").nth(at).click()
    assert page.evaluate("[window.pwned, ({}).number]") == [None, None]
    press(page, "Close")
