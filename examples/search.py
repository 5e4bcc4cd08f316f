"""Search the files of a folder: progress as it goes, and an end as soon as the client gives up.

python examples/search.py FOLDER                  serves over stdin and stdout
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from ferrule import Context, MCPServer

ROOT = Path(sys.argv[1] if __name__ == "__main__" and len(sys.argv) > 1 else ".").resolve()
MAX_FILE_BYTES = 1 << 20

app = MCPServer("search", version="1.0")


@dataclass
class Hit:
    """A line that holds the words."""

    path: str
    line: int
    text: str


@app.tool(annotations={"readOnlyHint": True})
def search(words: str, ctx: Context, pattern: str = "*.md", limit: int = 20) -> list[Hit]:
    """Find lines that hold the words.

    Args:
        words: looked for as they stand.
        pattern: of the file names.
        limit: lines to give at most.
    """
    files = sorted(path for path in ROOT.rglob(pattern) if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES)
    hits: list[Hit] = []
    for number, path in enumerate(files, 1):
        if ctx.cancelled or len(hits) >= limit:
            break
        for at, text in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if words in text:
                hits.append(Hit(str(path.relative_to(ROOT)), at, text.strip()))
        ctx.from_thread(ctx.progress, number, total=len(files), message=path.name)
    return hits[:limit]


if __name__ == "__main__":
    app.run("stdio")
