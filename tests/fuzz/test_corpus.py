"""Every input that the fuzzer ever found, and one good input per target, through its target again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import targets

CORPUS = Path(__file__).parent / "corpus"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """The targets silence the log when they are imported; other tests want it."""
    with targets.silent():
        yield


@pytest.mark.parametrize("name", targets.TARGETS)
def test_kept_inputs_are_taken_or_refused_in_order(name: str) -> None:
    """A target raises for a foreign exception, for a hang, and when the request after the input fails."""
    kept = sorted((CORPUS / name).iterdir())
    assert kept, "each target has an input at least"
    for path in kept:
        targets.TARGETS[name](path.read_bytes())


def test_a_target_notices_a_foreign_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the fuzzer finds nothing for ever."""

    def broken(_: bytes) -> None:
        raise KeyError("x")

    monkeypatch.setattr(targets, "decode_message", broken)
    with pytest.raises(KeyError):
        targets.TARGETS["jsonrpc"](b"{}")
