"""The format of conversation files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.testing.script import (
    CARRIERS,
    ConversationSyntaxError,
    Step,
    load_conversation,
    parse_conversation,
)
from ferrule.wire.revisions import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS, REVISIONS

PING = '> {"id": 1, "method": "ping"}\n'


def test_a_file_without_a_head_runs_everywhere() -> None:
    """The common case needs no words."""
    conversation = parse_conversation(PING)
    assert conversation.revisions == tuple(REVISIONS)
    assert conversation.carriers == CARRIERS
    assert conversation.shakes_hands
    assert conversation.adds_envelope
    assert conversation.ordered
    assert conversation.server == "default"


def test_the_head_is_read() -> None:
    """Every line of it."""
    head = (
        "revisions: legacy\ncarriers: memory, asgi\nhandshake: none\nenvelope: none\norder: any\n"
        'capabilities: {"roots": {}}\nserver: other\n'
    )
    conversation = parse_conversation(head + PING)
    assert conversation.revisions == HANDSHAKE_PROTOCOL_VERSIONS
    assert conversation.carriers == ("memory", "asgi")
    assert not conversation.shakes_hands
    assert not conversation.adds_envelope
    assert not conversation.ordered
    assert conversation.capabilities == {"roots": {}}
    assert conversation.server == "other"


@pytest.mark.parametrize(
    ("words", "revisions"),
    [
        ("all", tuple(REVISIONS)),
        ("modern", MODERN_PROTOCOL_VERSIONS),
        ("2025-06-18", ("2025-06-18",)),
        ("2025-11-25..", ("2025-11-25", "2026-07-28")),
        ("..2025-03-26", ("2024-11-05", "2025-03-26")),
        ("2025-03-26..2025-06-18", ("2025-03-26", "2025-06-18")),
        ("modern, 2024-11-05", ("2024-11-05", "2026-07-28")),
    ],
)
def test_revisions_are_named_one_by_one_or_as_ranges(words: str, revisions: tuple[str, ...]) -> None:
    """Oldest first, whatever the order of the words."""
    assert parse_conversation(f"revisions: {words}\n").revisions == revisions


def test_each_step_is_read_with_its_place() -> None:
    """Editors jump to the line."""
    text = (
        "# why\n\n"
        '> {"id": 1,\n'
        '    "method": "ping"}\n'
        '<[legacy] {"id": 1}\n'
        ">> a\\xff\\n\n"
        "+ Mcp-Name: x\n"
        "- Host\n"
        "= 400\n"
        "! close\n"
    )
    assert parse_conversation(text).steps == [
        Step("send", {"id": 1, "method": "ping"}, 3, 2),
        Step("expect", {"id": 1}, 5, 1, "legacy"),
        Step("send_raw", b"a\xff\n", 6),
        Step("set_header", "Mcp-Name: x", 7),
        Step("drop_header", "Host", 8),
        Step("status", 400, 9),
        Step("close", "close", 10),
    ]


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("", {("2024-11-05", "memory"), ("2026-07-28", "asgi")}),
        ("legacy", {("2024-11-05", "memory")}),
        ("!legacy", {("2026-07-28", "asgi")}),
        ("asgi", {("2026-07-28", "asgi")}),
        ("!asgi", {("2024-11-05", "memory")}),
        ("2025-03-26..", {("2026-07-28", "asgi")}),
        ("legacy, asgi", set[tuple[str, str]]()),
        ("legacy, memory", {("2024-11-05", "memory")}),
    ],
)
def test_a_condition_limits_a_step_to_some_runs(condition: str, runs: set[tuple[str, str]]) -> None:
    """Parts separated by commas must all hold."""
    step = parse_conversation(f'>[{condition}] {{"id": 1}}\n').steps[0]
    assert {run for run in (("2024-11-05", "memory"), ("2026-07-28", "asgi")) if step.holds(*run)} == runs


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("revisions: 1999-01-01\n", 1),
        ("revisions:\n", 1),
        ("carriers: pigeon\n", 1),
        ("handshake: maybe\n", 1),
        ("order: never\n", 1),
        ("capabilities: {\n", 1),
        ("weather: fine\n", 1),
        ("Nonsense\n", 1),
        ("> not json\n", 1),
        (f"{PING}< \n", 2),
        (f"{PING}revisions: all\n", 2),
        (f"{PING}* x\n", 2),
        (f'{PING}<[1999-01-01] {{"id": 1}}\n', 2),
        (f"{PING}<[pigeon] {{}}\n", 2),
        (f"{PING}= four\n", 2),
        (f"{PING}! explode\n", 2),
        (f"{PING}+ no colon\n", 2),
        (f"{PING}>{{}}\n", 2),
    ],
)
def test_a_malformed_file_names_its_line(text: str, line: int) -> None:
    """A file with a typo must not pass as one with fewer steps."""
    with pytest.raises(ConversationSyntaxError, match=f"^name:{line}: "):
        parse_conversation(text, name="name")


def test_only_newlines_end_lines() -> None:
    """JSON text may hold other characters that Python counts as line ends."""
    conversation = parse_conversation('> {"id": "a\u2028b\x85c"}\n> {"id": 2}\n')
    assert [step.line for step in conversation.steps] == [1, 2]
    assert conversation.steps[0].value == {"id": "a\u2028b\x85c"}


def test_a_file_is_loaded_under_its_name(tmp_path: Path) -> None:
    """In UTF-8, in any locale."""
    path = tmp_path / "some.conv"
    path.write_bytes('> {"id": "é"}\n'.encode())
    conversation = load_conversation(path)
    assert conversation.name == "some"
    assert conversation.steps[0].value == {"id": "é"}
    assert conversation.where(1) == f"{path}:1"
