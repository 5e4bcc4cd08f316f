"""Any configuration that a person may have written: what is installed is there, and all the rest is as it was."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ferrule.cli.hosts.edits import FormatError
from ferrule.cli.hosts.installing import (
    MAX_FILE_BYTES,
    MAX_JOURNAL_CHARS,
    Change,
    InstallHistory,
    apply_change,
    plan_install,
    plan_removal,
    plan_undo,
    read_text,
)
from ferrule.cli.hosts.places import HOSTS
from ferrule.protocol.jsonc import parse_jsonc

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), NAMES)
ENTRIES = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=3)
SPACES = st.sampled_from(["", " ", "\n", "\n\t", ' // a comment, with { and "\n', " /* another } */ ", "\r\n  "])


class Writer:
    """Writes a value in the style of some editor, and remembers the comments."""

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self.comments: list[str] = []

    def gap(self) -> str:
        found: str = self._draw(SPACES)
        if "/" in found:
            self.comments.append(found.strip())
        return found

    def write(self, value: Any) -> str:
        if isinstance(value, dict):
            items: dict[str, Any] = value  # pyright: ignore[reportUnknownVariableType]
            parts = [f"{self.gap()}{json.dumps(key)}{self.gap()}:{self.gap()}{self.write(item)}{self.gap()}"
                     for key, item in items.items()]  # fmt: skip
            comma = "," if parts and self._draw(st.booleans()) else ""
            return "{" + ",".join(parts) + comma + self.gap() + "}"
        return json.dumps(value, ensure_ascii=self._draw(st.booleans()))


@st.composite
def configurations(draw: Any) -> tuple[str, dict[str, Any], list[str], str]:
    """Text, value, comments, and the key that holds the servers."""
    key: str = HOSTS[draw(st.sampled_from(sorted(HOSTS)))].key
    value: dict[str, Any] = draw(st.dictionaries(NAMES, st.one_of(SCALARS, ENTRIES), max_size=3))
    if draw(st.booleans()):
        value[key] = draw(st.dictionaries(NAMES, ENTRIES, max_size=3))
    else:
        value.pop(key, None)
    writer = Writer(draw)
    text = writer.gap() + writer.write(value) + writer.gap()
    return ("\ufeff" if draw(st.booleans()) else "") + text, value, writer.comments, key


def carry_out(journal: InstallHistory, change: Change) -> None:
    """As the command does it."""
    journal.add(change)
    apply_change(change)


@settings(max_examples=150, deadline=None)
@given(found=configurations(), name=NAMES, entry=ENTRIES)
def test_any_configuration_goes_in_and_out(
    found: tuple[str, dict[str, Any], list[str], str], name: str, entry: dict[str, Any]
) -> None:
    """Value, order and comments stay; installing is idempotent; undo restores the bytes, or the member after other
    edits."""
    text, value, comments, key = found
    assume(f"{name}!" not in value.get(key, {}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.json"
        path.write_bytes(text.encode())
        journal = InstallHistory(Path(folder) / "journal.json")
        change = plan_install(path, key, name, entry)
        assert path.read_bytes() == text.encode()  # a plan is a dry run
        carry_out(journal, change)
        made = path.read_bytes().decode()
        expected = {**value, key: {**value.get(key, {}), name: entry}}
        after = parse_jsonc(made)
        assert after == expected
        assert list(after) == list(expected)
        assert list(after[key]) == list(expected[key])
        replaced = name in value.get(key, {})
        assert replaced or all(comment in made for comment in comments)
        assert plan_install(path, key, name, entry).is_nothing
        # Somebody else adds a member of their own; the undo takes back only what was installed.
        record = journal.last(path, name)
        assert record is not None
        theirs = plan_install(path, key, f"{name}!", {"theirs": 1})
        apply_change(theirs)
        undone = parse_jsonc(plan_undo(record, path).after or "")
        assert undone[key].pop(f"{name}!") == {"theirs": 1}
        assert {each: item for each, item in undone.items() if item or each != key} == {
            each: item for each, item in value.items() if item or each != key
        }
        path.write_bytes(made.encode())
        apply_change(plan_undo(record, path))
        assert path.read_bytes() == text.encode()
        if not replaced:
            path.write_bytes(made.encode())
            apply_change(plan_removal(path, key, name))
            left = parse_jsonc(path.read_bytes().decode())
            assert left == {**value, key: value.get(key, {})}


def test_a_file_that_another_program_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    """A host writes into the same file; what it wrote must not be lost."""
    path = tmp_path / "c.json"
    path.write_text("{}")
    change = plan_install(path, "mcpServers", "x", {"command": "y"})
    path.write_text('{"own": 1}')
    with pytest.raises(FormatError, match="changed by another program just now"):
        apply_change(change)
    assert path.read_text() == '{"own": 1}'
    new = plan_install(tmp_path / "new.json", "mcpServers", "x", {"command": "y"})
    (tmp_path / "new.json").write_text("{}")
    with pytest.raises(FormatError, match="just now"):
        apply_change(new)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Opening one waits for a writer, for ever."""
    os.mkfifo(tmp_path / "c.json")
    with pytest.raises(FormatError, match="not a regular file"):
        plan_install(tmp_path / "c.json", "mcpServers", "x", {"command": "y"})


def test_a_huge_file_and_one_in_another_encoding_are_left_alone(tmp_path: Path) -> None:
    """Neither is the configuration of a host."""
    for content, said in ((b" " * (MAX_FILE_BYTES + 1), "more than"), ("{}".encode("utf-16"), "not UTF-8")):
        path = tmp_path / "c.json"
        path.write_bytes(content)
        with pytest.raises(FormatError, match=said):
            read_text(path)
        with pytest.raises(FormatError, match=said):
            plan_removal(path, "mcpServers", "x")


@pytest.mark.parametrize("entry", [{"command": "\udcff"}, {"args": ["\udcff"]}, {"env": {"\udcff": ""}}])
def test_text_that_is_not_unicode_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    """An argument of a program may be any bytes; a configuration is UTF-8."""
    for name, given_entry in (("x", entry), ("\udcff", {"command": "y"})):
        with pytest.raises(FormatError, match="not UTF-8"):
            plan_install(tmp_path / "c.json", "mcpServers", name, given_entry)


@pytest.mark.parametrize(
    "content", [b"", b"[", b"{}", b"[1]", b'[{"path": 1}]', b"\xff", b"[" * 100_000, b'{"a": "b"}']
)
def test_a_malformed_journal_is_an_empty_one(tmp_path: Path, content: bytes) -> None:
    """It only serves ``--undo``."""
    (tmp_path / "installs.json").write_bytes(content)
    journal = InstallHistory(tmp_path / "installs.json")
    assert journal.records() == []
    record = journal.add(Change(tmp_path / "c.json", "k", "x", None, "{}"))
    assert journal.records() == [record]


def test_the_journal_stays_small(tmp_path: Path) -> None:
    """It has copies of whole configurations: the oldest go first, and the newest is always there."""
    journal = InstallHistory(tmp_path / "installs.json")
    large = "x" * (MAX_JOURNAL_CHARS // 2)
    for number in range(4):
        journal.add(Change(tmp_path / "c.json", "k", str(number), large, "{}"))
    assert [record.name for record in journal.records()] == ["1", "2", "3"]
