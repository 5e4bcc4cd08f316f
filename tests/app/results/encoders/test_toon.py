"""TOON: the encoder in use passes the specification's fixtures, and "auto" never makes an answer longer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule.app.results.encoders import encoder_for
from ferrule.app.results.encoders.json import encode_json
from ferrule.app.results.encoders.toon import encode_auto, encode_toon

toons = pytest.importorskip("toons")

ROWS = [{"id": i, "name": f"row {i}", "price": i * 1.5, "active": i % 2 == 0} for i in range(20)]

PAYLOADS = {
    "uniform rows": (ROWS, True),
    "page envelope": ({"items": ROWS, "next_cursor": "abc", "total": 20}, True),
    "nested object": ({"a": {"b": {"c": {"d": [1, 2, 3]}}}, "e": "f"}, False),
    "irregular list": ([{"a": 1}, {"b": [1, {"c": 2}]}, 3, "four"], False),
    "nested uniform dict": ({f"key {i}": {"x": i, "y": i + 1, "z": "abc"} for i in range(20)}, True),
    "list and dict values": ([{"id": i, "tags": ["a", "b"], "at": {"x": i}} for i in range(10)], None),
    "long text": ({"text": "word " * 500, "ok": True}, False),
    "few rows": ({"items": ROWS[:1], "next_cursor": None}, False),
}
"""Shape → (payload, whether "auto" takes TOON; ``None``: either will do)."""


def fixtures(shared_dir: Path, folder: str):
    for path in sorted((shared_dir / "data" / "toon-fixtures" / folder).glob("*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["tests"]:
            yield f"{path.stem}: {case['name']}", case


def test_the_encoder_passes_the_published_fixtures(shared_dir):
    """The 516 fixtures of the specification, encoding side, through our own function."""
    failed = []
    count = 0
    for name, case in fixtures(shared_dir, "encode"):
        count += 1
        options = {"indent_size": case.get("options", {}).get("indentSize", 2)}
        options["delimiter"] = case.get("options", {}).get("delimiter", ",")
        if case.get("shouldError"):
            continue
        if encode_toon(case["input"], **options) != case["expected"]:
            failed.append(name)
    assert count > 150
    assert failed == []


def test_the_library_reads_back_the_published_fixtures(shared_dir):
    """The decoding side, by the same library: it is one implementation of one version."""
    failed = []
    for name, case in fixtures(shared_dir, "decode"):
        options = case.get("options", {})
        given = {"strict": options.get("strict", True), "indent_size": options.get("indentSize", 2)}
        try:
            made = toons.loads(case["input"], **given)
        except (ValueError, toons.ToonDecodeError):
            if not case.get("shouldError"):
                failed.append(name)
        else:
            if case.get("shouldError") or made != case["expected"]:
                failed.append(name)
    assert failed == []


@pytest.mark.parametrize("shape", PAYLOADS)
def test_auto_is_never_longer_than_compact_json(shape):
    """The promise of "auto", on eight shapes of payloads."""
    payload, takes_toon = PAYLOADS[shape]
    chosen, plain = encode_auto(payload), encode_json(payload)
    assert len(chosen.encode()) <= len(plain.encode())
    assert chosen in (plain, encode_toon(payload))
    if takes_toon is not None:
        assert (chosen != plain) is takes_toon
    if chosen != plain:
        assert len(chosen.encode()) <= 0.9 * len(plain.encode())


def test_auto_counts_bytes_not_characters():
    """Text outside ASCII weighs more than it counts."""
    payload = [{"ключ": "значение", "n": i} for i in range(5)]
    assert len(encode_auto(payload).encode()) <= len(encode_json(payload).encode())


def test_values_without_a_json_form_are_null_in_toon_too():
    """One policy for NaN in every projection."""
    assert encode_toon({"a": float("nan")}) == "a: null"


def test_encoders_are_chosen_by_name_or_given():
    """A wrong name fails where it is written."""
    assert encoder_for("json") is None
    assert encoder_for("toon") is encode_toon
    assert encoder_for("auto") is encode_auto
    assert encoder_for(str) is str
    with pytest.raises(ValueError, match="yaml"):
        encoder_for("yaml")  # type: ignore[arg-type]


def test_a_missing_extra_raises_where_toon_is_chosen(monkeypatch):
    """Not at the first call, where the client would see it."""
    import sys

    monkeypatch.setitem(sys.modules, "toons", None)
    with pytest.raises(ImportError, match=r"ferrule\[toon\]"):
        encoder_for("auto")
