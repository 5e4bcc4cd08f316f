"""Runs the legs of the official conformance suite and counts for itself; ``scripts/conformance`` calls it.

The suite's exit code is not enough: it forgives scenarios that are not scored for a revision, and it passes a
scenario in which nothing succeeded. So the ``checks.json`` that it writes per scenario are counted here.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
LEGS = ("2025-11-25", "2026-07-28", "all")
START_TIMEOUT_S = 30.0
LEG_TIMEOUT_S = 300.0

# Scenarios of extensions that Ferrule does not serve yet: the tasks and the skills extension.
NOT_YET = ("tasks-", "sep-2640-")


def suite() -> list[str]:
    """The command of the suite."""
    node = shutil.which("node")
    folder = Path(os.environ.get("FERRULE_PEER_NODE_DIR", ROOT / ".cache" / "node"))
    entry = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if node is None or not entry.exists():
        raise SystemExit("the suite is not installed; scripts/conformance installs it")
    return [node, str(entry)]


class ServerUnderTest:
    """conformance/server.py on a free port."""

    def __enter__(self) -> str:
        command = [sys.executable, "-u", str(ROOT / "conformance" / "server.py"), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("serving "):
            self.__exit__()
            raise SystemExit("conformance/server.py did not start")
        url = line.split()[1]
        wait_for(url)
        return url

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def wait_for(url: str) -> None:
    """Until the server answers anything."""
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        try:
            urlopen(url, timeout=1).close()
        except URLError as error:
            if hasattr(error, "code"):
                return
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{url} does not answer")


def tally(folder: Path) -> tuple[int, int, list[str]]:
    """(checks passed, checks failed, complaints) of a leg's output folder."""
    passed = failed = 0
    complaints: list[str] = []
    for file in sorted(folder.rglob("checks.json")):
        scenario = file.parent.name
        checks = json.loads(file.read_text())
        good = [check for check in checks if check["status"] == "SUCCESS"]
        bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
        passed += len(good)
        failed += len(bad)
        is_not_yet = any(part in scenario for part in NOT_YET)
        if is_not_yet:
            continue
        complaints += [f"{scenario}: {c['id']}: {c['status']}: {c.get('errorMessage', '')}" for c in bad]
        if not good:
            complaints.append(f"{scenario}: nothing succeeded")
    return passed, failed, complaints


def run_server_leg(leg: str, out: Path, extra: list[str]) -> bool:
    """One leg against a fresh server; whether everything that counts passed."""
    choice = ["--suite", "all"] if leg == "all" else ["--requirements", leg]
    with ServerUnderTest() as url:
        command = [*suite(), "server", "--url", url, *choice, "-o", str(out), *extra]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LEG_TIMEOUT_S)
    scenarios = len(list(out.rglob("checks.json")))
    passed, failed, complaints = tally(out)
    print(f"server {leg}: {scenarios} scenarios, {passed} checks passed, {failed} failed, {len(complaints)} count")
    for complaint in complaints:
        print(f"  {complaint}")
    if not scenarios:
        print(done.stdout[-2000:], done.stderr[-2000:])
    return bool(scenarios) and not complaints


def main() -> None:
    """Run the legs; exit 1 when one is not clean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("side", choices=["server"])
    parser.add_argument("legs", nargs="*", help=f"of {', '.join(LEGS)}; all three without")
    parser.add_argument("-o", "--output", type=Path, help="keep the suite's output in this folder")
    arguments = parser.parse_args()
    clean = True
    with tempfile.TemporaryDirectory() as scratch:
        for leg in arguments.legs or LEGS:
            if leg not in LEGS:
                parser.error(f"no leg {leg!r}")
            out = (arguments.output or Path(scratch)) / f"server-{leg}"
            clean = run_server_leg(leg, out, []) and clean
    sys.exit(not clean)


if __name__ == "__main__":
    main()
