"""ferrule.cli.hosts.formats: an edit of TOML or YAML is what a parser reads of it, or it is not made."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.cli.hosts.edits import FormatError
from ferrule.cli.hosts.formats import ConfigFormat, format_of
from tests.cli.hosts.samples import CODEX, GOOSE

TOML, YAML, JSON = (format_of(Path(f"a.{suffix}")) for suffix in ("toml", "yaml", "json"))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
ENTRY = st.fixed_dictionaries(
    {"command": TEXTS, "args": st.lists(TEXTS, max_size=3), "on": st.booleans(), "wait": st.integers(-9, 9)},
    optional={"env": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=2)},
)
FORMATS = pytest.mark.parametrize(("form", "text", "key"), [(TOML, CODEX, "mcp_servers"), (YAML, GOOSE, "extensions")])


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@FORMATS
@settings(max_examples=30, deadline=None)
@given(name=TEXTS, entry=ENTRY, other=ENTRY)
def test_any_entry_goes_in_and_out(
    form: ConfigFormat, text: str, key: str, newline: str, name: str, entry: dict[str, Any], other: dict[str, Any]
) -> None:
    """With any name and any text in it; an independent parser reads what was meant."""
    text = text.replace("\n", newline)
    before = form.parse(text)
    made = form.set_entry(text, key, name, entry)
    assert _parsed(form, made) == {**before, key: {**before[key], name: entry}}
    assert made.count("\r\n") == (made.count("\n") if newline == "\r\n" else 0)
    changed = form.set_entry(made, key, name, other)
    assert _parsed(form, changed)[key][name] == other
    if name not in before[key]:
        assert form.remove_entry(changed, key, name) == text


def _parsed(form: ConfigFormat, text: str) -> Any:
    return tomllib.loads(text) if form is TOML else yaml.safe_load(text)


@FORMATS
def test_another_server_can_be_replaced_and_removed(form: ConfigFormat, text: str, key: str) -> None:
    """Comments before the next entry are the next entry's."""
    entry = {"command": "x", "args": []}
    made = form.set_entry(text, key, "docs", entry)
    assert form.parse(made)[key]["docs"] == entry
    kept = ("# what I trust", "# my Codex") if form is TOML else ("# my Goose", "# documents", "# the last line")
    assert all(comment in made for comment in kept)
    removed = form.remove_entry(text, key, "docs")
    assert "docs" not in (form.parse(removed).get(key) or {})
    assert kept[0] in removed
    assert form.remove_entry(text, key, "nobody") == text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TOML, ""),
        (TOML, "a = 1"),
        (TOML, "\ufeffa = 1\n"),
        (TOML, "[[rows]]\nx = 1\n"),
        (TOML, "[other]\nx = [\n  1,\n]\n"),
        (YAML, ""),
        (YAML, "# only a comment\n"),
        (YAML, "a: 1"),
        (YAML, "a: 1\nk:\n"),
        (YAML, "k: {}\na: 1\n"),
        (YAML, "k:\n    two: {x: 1}\n"),
        (YAML, "k:\n  two:\n    x: 1"),
        (YAML, "---\na: 1\n"),
        (YAML, "a: |\n  k:\n    two: 1\n"),
    ],
)
def test_files_of_all_kinds(form: ConfigFormat, text: str) -> None:
    """Without servers, without a line end, with another indentation, with text that looks like an entry."""
    before = form.parse(text) or {}
    made = form.set_entry(text, "k", "one", {"x": 1})
    assert form.parse(made) == {**before, "k": {**(before.get("k") or {}), "one": {"x": 1}}}
    assert form.set_entry(made, "k", "one", {"x": 1}) == made


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (TOML, 'k = { one = { x = "old" } }\n'),
        (TOML, 'k.one.x = "old"\n'),
        (TOML, '[k]\none = { x = "old" }\n'),
        (TOML, "k = 1\n"),
        (TOML, "not toml"),
        (YAML, "k: {one: {x: old}}\n"),
        (YAML, "{k: {}}\n"),
        (YAML, "k: text\n"),
        (YAML, "- 1\n"),
        (YAML, "a: [\n"),
        (YAML, "a: 1\n---\nb: 1\n"),
        (YAML, "a: " + "x" * (1 << 20)),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_what_cannot_be_edited_is_refused(form: ConfigFormat, text: str) -> None:
    """Servers in another form, malformed and huge files: nothing is guessed."""
    with pytest.raises(FormatError):
        form.set_entry(text, "k", "one", {"x": 1})


def test_a_long_toml_file_is_parsed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codex writes a table for each folder that it trusts: their number must not count twice."""
    parsed: list[int] = []
    real = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(len(text)) or real(text))
    text = "".join(f"[projects.p{number}]\ntrust_level = 'trusted'\n" for number in range(200))
    TOML.set_entry(text, "k", "one", {"x": 1})
    assert sum(parsed) < 10 * len(text)


def test_a_header_in_a_text_or_an_array_of_toml_is_no_header() -> None:
    """Of any earlier table, too: the text between looks like one, and stays."""
    text = '[a]\nx = """\n[k.one]\n"""\n[k.one]\nx = [\n  [1]\n]\n[b]\ny = [\n[2],\n[3]\n]\n'
    assert TOML.remove_entry(text, "k", "one") == '[a]\nx = """\n[k.one]\n"""\n[b]\ny = [\n[2],\n[3]\n]\n'


def test_an_alias_is_not_changed_with_its_anchor() -> None:
    """The entry of another name would change with it; the check finds that."""
    text = "k:\n  one: &same\n    x: 1\n  two: *same\n"
    with pytest.raises(FormatError):
        YAML.set_entry(text, "k", "one", {"x": 2})


def test_yaml_without_its_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(FormatError, match="pip install"):
        YAML.parse("a: 1")


def test_a_long_yaml_file_is_parsed_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parser in Python takes ten times as long; without the one in C smaller files are refused."""
    if not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML has no parser in C")
    text = "".join(f"p{number}:\n  x: 1\n" for number in range(12_000))
    with monkeypatch.context() as patched:
        patched.setattr(yaml.SafeLoader, "fetch_more_tokens", None, raising=False)  # the parser in Python
        assert YAML.parse(YAML.set_entry(text, "k", "one", {"x": 1}))["k"] == {"one": {"x": 1}}
    monkeypatch.delattr(yaml, "CSafeLoader")
    with pytest.raises(FormatError, match="more than 131072 characters"):
        YAML.set_entry(text, "k", "two", {"x": 1})
    assert "one" in YAML.set_entry("k:\n", "k", "one", {"x": 1})


def test_aliases_that_expand_without_end_are_refused() -> None:
    """Thirty lines stand for more values than a machine has room for; a configuration may come with a project."""
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 30))
    with pytest.raises(FormatError, match="too many values"):
        YAML.set_entry(text, "k", "one", {"x": 1})
    with pytest.raises(FormatError, match="too many values"):
        YAML.remove_entry(text, "k", "one")


PIECES = st.sampled_from(
    [
        *"{}[]\"'=:,# \t\n\r\0\u2028\x85\ufeff\ud800&*!|>?-~\\",
        *("k", "one", '"k"', "[k]", "[[k]]", "[k.one]", "k:\n", "  one:\n", "    x: 1\n", "//", "/*", "*/", '"""'),
        *(
            "<<: *a",
            "&a",
            "!!python/name:os.system",
            "!!binary x",
            "---\n",
            "...\n",
            "1e999",
            "2020-01-01",
            "0x",
            ".inf",
        ),
        *('{"k": {}}', "k = {one = {x = 1}}", "k: {one: {x: 1}}", "k:\n  one:\n    x: 1\n", "%YAML 1.1\n", "'''"),
    ]
)


@given(
    st.lists(PIECES, max_size=12).map("".join),
    st.sampled_from([JSON, TOML, YAML]),
    st.sampled_from(["one", "é\n", "y"]),
)
def test_any_text_is_edited_as_it_says_or_left_alone(text: str, form: ConfigFormat, name: str) -> None:
    """No text leads to another exception, or to another file than was asked for."""
    entry = {"command": "x\n", "args": ["a", '"'], "env": {"A": "b"}}
    try:
        made = form.set_entry(text, "k", name, entry)
    except FormatError:
        return
    assert form.parse(made)["k"][name] == entry
    without = form.parse(form.remove_entry(made, "k", name)) or {}
    assert name not in (without.get("k") or {})
