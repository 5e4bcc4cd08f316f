"""The small examples, each as its one command, in both eras."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ferrule import Client, StdioServer


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_search_finds_lines_and_reports_progress(examples_dir: Path, tmp_path: Path, mode: str) -> None:
    """Two files, one hit, progress for both."""
    (tmp_path / "a.md").write_text("nothing\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("one\na ring of brass\n", encoding="utf-8")
    seen: list[float] = []
    server = StdioServer(sys.executable, [str(examples_dir / "search.py"), str(tmp_path)])
    async with Client(server, mode=mode) as client:
        done = await client.call_tool(
            "search", {"words": "brass"}, on_progress=lambda now, total, text: seen.append(now), result_type=list[dict]
        )
    assert done.data == [{"path": "b.md", "line": 2, "text": "a ring of brass"}]
    assert seen == [1, 2]
