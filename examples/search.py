"""Search the files of a folder: progress as it goes, and an end as soon as the client gives up.

SEARCH_FOLDER=docs python examples/search.py stdio      serves that folder (or http --port 8000)
python examples/search.py                               shows it in both eras, on the folder of examples
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import anyio

from ferrule import Client, Context, Field, MCPServer

ROOT = Path(os.environ.get("SEARCH_FOLDER", Path(__file__).parent)).resolve(strict=True)
MAX_FILE_BYTES = 1 << 20

app = MCPServer("search", version="1.0")


@dataclass
class Hit:
    """A line that holds the words."""

    path: str
    line: int
    text: str


def files(pattern: str) -> Iterator[Path]:
    """The files of the folder, none outside of it: a link may point anywhere."""
    for path in sorted(ROOT.rglob(pattern)):
        if path.is_file() and path.resolve().is_relative_to(ROOT) and path.stat().st_size <= MAX_FILE_BYTES:
            yield path


@app.tool(annotations={"readOnlyHint": True})
def search(
    words: str, ctx: Context, pattern: str = "*.py", limit: Annotated[int, Field(ge=1, le=1000)] = 20
) -> list[Hit]:
    """Find lines that hold the words.

    Args:
        words: looked for as they stand.
        pattern: of the file names, such as *.md.
        limit: lines to give at most.
    """
    if ".." in pattern or pattern.startswith("/"):
        return []
    found = list(files(pattern))
    hits: list[Hit] = []
    for number, path in enumerate(found, 1):
        if ctx.cancelled or len(hits) >= limit:  # a synchronous tool looks; an async one is cancelled at an await
            break
        for at, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if words in text:
                hits.append(Hit(path.relative_to(ROOT).as_posix(), at, text.strip()))
        ctx.from_thread(ctx.progress, number, total=len(found), message=path.name)
    return hits[:limit]


async def show(client: Client) -> None:
    """Search once to the end, and once until the caller cancels."""
    seen: list[float] = []
    enough = anyio.CancelScope()

    def note(progress: float, total: float | None, message: str | None) -> None:
        if not enough.cancel_called:  # further notes may be on their way
            seen.append(progress)
        if len(seen) == 3:
            enough.cancel()

    with enough:
        await client.call_tool("search", {"words": "import"}, on_progress=note)
    print(f"  cancelled after {len(seen)} files")
    done = await client.call_tool("search", {"words": "sqlite3.connect("}, result_type=list[Hit])
    for hit in done.data:
        print(f"  {hit.path}:{hit.line}  {hit.text}")


if __name__ == "__main__":
    from showing import main

    main(app, show)
