"""Notes: searches a folder of Markdown files. The folder is asked for when the bundle is installed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ferrule import Field, MCPServer, Setting, ToolError


@dataclass
class Settings:
    """What the person who installs the server decides."""

    folder: Annotated[Path, Setting("Folder with your notes", directory=True)]
    max_hits: Annotated[int, Setting("Most hits of one search"), Field(ge=1, le=100)] = 20


app = MCPServer("notes", version="1.0.0", title="Notes")
settings = app.declare_settings(Settings, prefix="NOTES_")


@dataclass
class Hit:
    """A line of a note."""

    file: str
    line: int
    text: str


@app.tool
def search(words: str) -> list[Hit]:
    """Find the lines of the notes in which the words are."""
    folder = settings.value.folder.expanduser()
    if not folder.is_dir():
        raise ToolError(f"The folder {folder} does not exist; change it in the settings of this extension.")
    hits: list[Hit] = []
    for path in sorted(folder.rglob("*.md")):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            if words.lower() in line.lower():
                hits.append(Hit(path.relative_to(folder).as_posix(), number, line.strip()[:200]))
                if len(hits) == settings.value.max_hits:
                    return hits
    return hits


if __name__ == "__main__":
    app.run()
