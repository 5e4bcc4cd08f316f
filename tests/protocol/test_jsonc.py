"""Editing JSON with comments: the place changes, and nothing else."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.protocol.jsonc import JsoncError, parse_jsonc, remove_member, set_member

COMMENTED = """\
// settings of mine
{
    "z": 1, // last letter first
    /* servers */
    "mcpServers": {
        // the old one
        "old": { "command": "x", "args": [], }, // keep
    },
    "a": [1, 2, /* three */ 3,],
}
"""


def test_comments_and_trailing_commas_are_read() -> None:
    """Hosts write them, so we must read them."""
    found = parse_jsonc(COMMENTED)
    assert found == {"z": 1, "mcpServers": {"old": {"command": "x", "args": []}}, "a": [1, 2, 3]}
    assert parse_jsonc("// nothing\n") is None


@pytest.mark.parametrize(
    "text",
    ["{", '{"a" 1}', '{"a": 1 "b": 2}', "{,}", "[1 2]", '{"a": }', "{} x", "/* ", "{'a': 1}", f'{{"a": {"1" * 5000}}}'],
)
def test_malformed_text_is_refused_with_its_place(text: str) -> None:
    """A person must find the mistake in their file."""
    with pytest.raises(JsoncError, match=r"line \d+, column \d+"):
        parse_jsonc(text)


def test_a_new_member_goes_last_and_nothing_else_moves() -> None:
    """The comment beside the last member stays beside it, and so does the habit of trailing commas."""
    made = set_member(COMMENTED, ["mcpServers", "new"], {"command": "y"})
    assert made == COMMENTED.replace(
        "}, // keep\n", '}, // keep\n        "new": {\n            "command": "y"\n        },\n'
    )
    assert parse_jsonc(made)["mcpServers"]["new"] == {"command": "y"}


def test_without_a_trailing_comma_one_is_set_before_the_comment() -> None:
    """The comma may not land behind the comment, where it would be part of it."""
    text = '{\n  "a": 1 // one\n}\n'
    assert set_member(text, ["b"], 2) == '{\n  "a": 1, // one\n  "b": 2\n}\n'


def test_a_member_is_replaced_in_its_place() -> None:
    """Order is the user's."""
    made = set_member(COMMENTED, ["mcpServers", "old"], {"url": "u"})
    assert made == COMMENTED.replace('{ "command": "x", "args": [], }', '{\n            "url": "u"\n        }')


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", '{\n  "k": {\n    "n": 1\n  }\n}\n'),
        ("{}", '{\n  "k": {\n    "n": 1\n  }\n}'),
        ("{\n}\n", '{\n  "k": {\n    "n": 1\n  }\n}\n'),
        ('{"x": 1}', '{"x": 1, "k": {"n": 1}}'),
        ('{"k": {}}', '{"k": {\n    "n": 1\n  }}'),
        ('{\r\n\t"x": 1\r\n}', '{\r\n\t"x": 1,\r\n\t"k": {\r\n\t\t"n": 1\r\n\t}\r\n}'),
        ("\ufeff{}", '\ufeff{\n  "k": {\n    "n": 1\n  }\n}'),
        ("{ // empty\n}", '{ // empty\n  "k": {\n    "n": 1\n  }\n}'),
    ],
)
def test_missing_objects_are_made_in_the_style_of_the_file(text: str, expected: str) -> None:
    """Indentation, line ends and a byte order mark are the file's own."""
    assert set_member(text, ["k", "n"], 1) == expected


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (COMMENTED, ["mcpServers", "old"], COMMENTED.replace('"old": { "command": "x", "args": [], }, ', "")),
        ('{\n  "a": 1,\n  "b": 2\n}\n', ["a"], '{\n  "b": 2\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', ["b"], '{\n  "a": 1\n}\n'),
        ('{"a": 1, "b": 2}', ["a"], '{"b": 2}'),
        ('{"a": 1, "b": 2}', ["b"], '{"a": 1}'),
        ('{"a": 1}', ["a"], "{}"),
        ('{"a": 1}', ["x"], '{"a": 1}'),
        ('{"a": 1}', ["x", "y"], '{"a": 1}'),
        ('{"a": 1, "b": 2, "a": 3}', ["a"], '{"b": 2}'),
        ('{\n  "a": 1,\n  "a": 2\n}\n', ["a"], "{\n}\n"),
    ],
)
def test_a_member_is_taken_out(text: str, path: list[str], expected: str) -> None:
    """Whole lines go where the member had them for itself, and comments about other things stay."""
    assert remove_member(text, path) == expected


@pytest.mark.parametrize("text", [COMMENTED, '{\n  "a": 1\n}\n', '{"a": 1}', '{\n\t"x": {"y": 1},\n}\n'])
def test_putting_in_and_taking_out_leaves_the_text_as_it_was(text: str) -> None:
    """What `install --undo` relies on where the file was changed by others meanwhile."""
    made = set_member(text, ["new one"], {"command": "c", "args": ["1"]})
    assert made != text
    assert remove_member(made, ["new one"]) == text


def test_something_else_in_the_way_is_not_overwritten() -> None:
    """A list where an object should be is the user's, however odd."""
    with pytest.raises(JsoncError, match="mcpServers is not an object"):
        set_member('{"mcpServers": []}', ["mcpServers", "x"], 1)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    document=st.dictionaries(st.text(max_size=5), JSON, max_size=4),
    key=st.text(max_size=5),
    value=JSON,
    indent=st.sampled_from([None, 0, 2, 4, "\t"]),
)
def test_any_document_is_edited_as_a_dictionary_would_be(
    document: dict[str, object], key: str, value: object, indent: int | str | None
) -> None:
    """The text is edited, the meaning must be what a parsed and printed document would have."""
    text = json.dumps(document, indent=indent)
    assert parse_jsonc(set_member(text, [key], value)) == {**document, key: value}
    assert list(parse_jsonc(set_member(text, [key], value))) == list({**document, key: value})
    expected = {name: item for name, item in document.items() if name != key}
    assert parse_jsonc(remove_member(text, [key])) == expected
