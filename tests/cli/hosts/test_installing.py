"""Any configuration that a person may have written: what is installed is there, and all the rest is as it was."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ferrule.cli.hosts.installing import Change, InstallHistory, apply_change, plan_install, plan_removal, plan_undo
from ferrule.cli.hosts.places import HOSTS
from ferrule.client.jsonc import parse_jsonc

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), NAMES)
ENTRIES = st.dictionaries(NAMES, st.one_of(SCALARS, st.lists(SCALARS, max_size=3)), max_size=3)
SPACES = st.sampled_from(["", " ", "\n", "\n\t", ' // a comment, with { and "\n', " /* another } */ ", "\r\n  "])


class Writer:
    """Writes a value as somebody's editor and somebody's hand left it, and remembers the comments."""

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
    """Value, order, comments; twice is once; undone to the byte, and around what somebody else wrote since."""
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
