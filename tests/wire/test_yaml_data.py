"""YAML as JSON-shaped data: which values are made of it, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.wire.yaml_data import YamlError, decode_core_yaml, decode_yaml, encode_yaml, plain_data


def core(text: str, max_values: int = 1000) -> Any:
    return decode_core_yaml(text, max_values, needs="PyYAML")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("0123", 123),
        ("0o17", 15),
        ("0x1F", 31),
        ("-7", -7),
        ("1.50", 1.5),
        ("-.5e3", -500.0),
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("true", True),
        ("True", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("yes", "yes"),
        ("on", "on"),
        ("2026-01-01", "2026-01-01"),
        ("1:30", "1:30"),
        ("1_000", "1_000"),
        ("1.2.3", "1.2.3"),
        (".inf", ".inf"),
        (".nan", ".nan"),
        ("'1'", "1"),
        ("é", "é"),
    ],
)
def test_the_core_schema_of_yaml_1_2_decides_what_is_text(text: str, value: Any) -> None:
    """Section 10.3.2; what JSON cannot express stays the text that the author wrote."""
    found = core(f"a: {text}\n")["a"]
    assert found == value
    assert type(found) is type(value)


def test_keys_are_text_and_merges_are_plain_keys() -> None:
    """JSON has no other keys, and YAML 1.2 no merges."""
    assert core("1: a\nnull: b\n<<: {c: d}\n") == {"1": "a", "null": "b", "<<": {"c": "d"}}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: 1\na: 2", "a key is there twice"),
        ("1: a\n'1': b", "a key is there twice"),
        ("a: !!binary aGk=", "a value that JSON does not have, a bytes"),
        ("a: !!set {x}", "a value that JSON does not have, a set"),
        ("!!timestamp 2026-01-01", "a value that JSON does not have, a date"),
        ("a: &x [*x]", "refers to itself"),
        ("[1,", "is not YAML"),
        ("a: 1e999", "a number is too large"),
        ("a: !!python/object:os.system x", "could not determine a constructor"),
        ("a: !!int x", "invalid literal"),
        ("a: !!bool maybe", "is not YAML"),
        ("- " * 300 + "x", "levels deep"),
        ("a: b\n--- \nc: d", "is not YAML"),
        ("\x00", "is not YAML"),
        ("? [a]\n: b", "is not YAML"),
        ("a: " + "9" * 5000, "is not YAML"),
    ],
)
def test_what_is_not_plain_data_within_the_bounds_is_refused(text: str, why: str) -> None:
    """The text comes from a peer, or goes to one whose parser may differ."""
    with pytest.raises(YamlError) as caught:
        core(text)
    assert why in str(caught.value)


@pytest.mark.parametrize("decode", [decode_core_yaml, decode_yaml])
def test_aliases_count_at_each_use(decode: Any) -> None:
    """Ten lines can stand for a billion values."""
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(YamlError, match="expands to too many values"):
        decode("\n".join(lines), 10_000, needs="PyYAML")


def test_yaml_1_1_reads_more_words_as_values_but_no_dates() -> None:
    """Descriptions of APIs are read so, as most tools in Python do."""
    assert decode_yaml("a: yes\nb: 2026-01-01\nc: !!binary aGk=", 10, needs="PyYAML") == {
        "a": True,
        "b": "2026-01-01",
        "c": "b'hi'",
    }


@pytest.mark.parametrize(
    "value",
    ["yes", "1e3", "0o7", "~", "a: b\nc", "é😀\x07\x7f", "", {"a": [1, 1.5, True, None, {"b c": "2026-01-01"}]}, []],
)
def test_written_yaml_is_the_same_in_both_versions(value: Any) -> None:
    """Hosts use parsers of either."""
    text = f"a: {encode_yaml(value, needs='PyYAML')}\n"
    assert core(text)["a"] == decode_yaml(text, 1000, needs="PyYAML")["a"] == value


def test_the_message_without_pyyaml_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    import sys

    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match="install it"):
        decode_core_yaml("a: 1", 10, needs="install it")


def test_python_values_become_plain_data() -> None:
    """A description may be given as a Python value."""
    assert plain_data({1: (2, "\ud800"), None: object}, 100)["1"] == [2, "?"]
