"""The trace that the page shows is the one that the example prints, in both eras."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk")

from tests.modules import load_file

ROOT = Path(__file__).resolve().parents[4]

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_page_shows_the_trace_of_the_example(mode: str) -> None:
    """Client, gateway, server and task, each below the one that called it."""
    example = load_file(ROOT / "examples" / "one_trace.py", "example_one_trace")
    shown = (ROOT / "docs" / "snippets" / "telemetry" / "one_trace.txt").read_text(encoding="utf-8")
    assert await example.trace_of_a_call(mode) + "\n" == shown
