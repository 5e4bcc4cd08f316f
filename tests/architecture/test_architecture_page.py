"""The page about the architecture names every folder that there is."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "topics" / "architecture.md"


def test_every_folder_of_the_package_is_in_the_table() -> None:
    """By its path, or by its name in the row of the folder around it."""
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `src/ferrule")]
    missing: list[str] = []
    for folder in sorted((ROOT / "src" / "ferrule").rglob("*")):
        if not (folder / "__init__.py").exists():
            continue
        path = folder.relative_to(ROOT).as_posix()
        around = f"`{folder.parent.relative_to(ROOT).as_posix()}`"
        if not any(f"`{path}`" in row or (around in row and f"`{folder.name}`" in row) for row in rows):
            missing.append(path)
    assert [path for path in missing if path.count("/") > 2 or not any(path in row for row in rows)] == []


def test_every_folder_in_the_table_exists() -> None:
    """A row about a folder that was moved misleads."""
    named = re.findall(r"`(src/ferrule/[a-z0-9_/]+)`", PAGE.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).is_dir()] == []
