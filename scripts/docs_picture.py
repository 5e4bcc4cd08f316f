"""Make the picture of `ferrule dev` on the first page and in the README again: `docs/images/dev.png`.

It shows the server of the tutorial after some calls. Needs Chromium and Playwright, which the tests of the inspector
use; `FERRULE_CHROMIUM` names another browser than the one on `PATH`. Look at the picture before you commit it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURE: Final = ROOT / "docs" / "images" / "dev.png"
SERVER: Final = ROOT / "docs" / "snippets" / "tutorial" / "notes" / "notes.py"
MAX_BYTES: Final = 120_000


def take(url: str, path: Path) -> None:
    """Call two tools of the page at a URL, and save what it shows then."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("FERRULE_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_context(viewport={"width": 1180, "height": 660}, color_scheme="light").new_page()
        page.goto(url)
        call(page, "add_note", title="Milk", text="Buy two litres")
        call(page, "add_note", title="Bread", text="Rye, sliced")
        call(page, "find_notes", word="e")
        page.screenshot(path=path)
        browser.close()


def call(page: Any, tool: str, **arguments: str) -> None:
    """Fill in the form of a tool, call it, and wait for its result."""
    page.locator(f'.list-side .item[data-key="{tool}"]').locator("visible=true").click()
    for name, value in arguments.items():
        page.locator("#view-tools").get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Call", exact=True).locator("visible=true").first.click()
    expected = "Bread" if tool == "find_notes" else next(iter(arguments.values()))
    page.get_by_text(re.compile(expected)).locator("visible=true").last.wait_for()
    page.get_by_text("Done", exact=True).locator("visible=true").last.wait_for()


def main() -> None:
    """Run the inspector on a new file of notes, and take its picture.

    Raises:
        SystemExit: the picture is larger than the pages allow.
    """
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NOTES_FILE": str(Path(folder) / "notes.db"), "PYTHONUNBUFFERED": "1"}
        command = [sys.executable, "-m", "ferrule", "dev", str(SERVER), "--no-open", "--no-reload"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            assert process.stderr is not None
            url = next(found[1] for line in process.stderr if (found := re.search(r"(http://\S+token=\S+)", line)))
            PICTURE.parent.mkdir(exist_ok=True)
            take(url, PICTURE)
        finally:
            process.terminate()
            process.communicate()
    size = PICTURE.stat().st_size
    print(f"{PICTURE.relative_to(ROOT)}: {size:,} bytes")
    if size > MAX_BYTES:
        sys.exit(f"more than {MAX_BYTES:,} bytes")


if __name__ == "__main__":
    main()
