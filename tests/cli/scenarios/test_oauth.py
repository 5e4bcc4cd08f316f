"""``--oauth``: the browser is needed for the first command only."""

from __future__ import annotations

import json
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import HERE, ferrule, serving, terminal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the browser is a shell command")

BROWSER = """\
import sys, urllib.request
with open({log!r}, "a") as log:
    log.write(sys.argv[1] + "\\n")
urllib.request.build_opener(urllib.request.ProxyHandler({{}})).open(sys.argv[1]).read()
"""


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A protected server."""
    program = str(HERE / "servers" / "protected.py")
    root = str(HERE.parents[1])
    with serving(tmp_path / "log", program, command=(sys.executable,), env={"PYTHONPATH": root}) as server:
        yield server.url


def browser(tmp_path: Path) -> str:
    """Something that consents, as the value of $BROWSER; its visits are in ``visits``."""
    (tmp_path / "browser.py").write_text(BROWSER.format(log=str(tmp_path / "visits")))
    return f"{sys.executable} {tmp_path / 'browser.py'} %s"


def test_one_visit_to_the_browser_is_enough_for_many_commands(tmp_path: Path, url: str) -> None:
    """Each command is a process of its own; without a memory each would open a page."""
    opens = browser(tmp_path)
    for _ in range(2):
        done = ferrule("call", url, "whoami", "--oauth", home=tmp_path, BROWSER=opens)
        assert (done.returncode, done.stdout[:4]) == (0, "demo"), done.stderr
    assert len((tmp_path / "visits").read_text().splitlines()) == 1
    bridged = f"{sys.executable} -m ferrule run {url} --oauth"
    assert ferrule("call", bridged, "whoami", home=tmp_path, BROWSER=opens).stdout.startswith("demo")
    assert len((tmp_path / "visits").read_text().splitlines()) == 1
    kept = [path for path in (tmp_path / ".local").rglob("*") if path.is_file()]
    assert kept
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert not any(b"eyJ" in path.read_bytes() for path in kept)  # no token in the clear


def test_without_it_the_command_says_what_to_do(tmp_path: Path, url: str) -> None:
    """A 401 is the first response that a user of a protected server gets."""
    done = ferrule("list", url, home=tmp_path)
    assert done.returncode == 4
    assert "--oauth signs in through the browser at http" in done.stderr
    assert "auth=" not in done.stderr
    assert "Traceback" not in done.stderr


def test_the_doctor_signs_in_and_looks_behind(tmp_path: Path, url: str) -> None:
    """Without it, the report ends at discovery; with it, the checks continue as the signed-in user."""
    found = json.loads(ferrule("doctor", url, "-o", "json", home=tmp_path).stdout)
    assert [each["code"] for each in found] == ["resource-metadata", "issuer-metadata", "auth-required"]
    done = ferrule("doctor", url, "--oauth", "-o", "json", home=tmp_path, BROWSER=browser(tmp_path))
    found = json.loads(done.stdout)
    assert done.returncode == 0
    assert {"auth-required", "era-works", "streams"} <= {each["code"] for each in found}


def test_over_ssh_the_address_is_pasted_and_ctrl_c_ends_it(tmp_path: Path, url: str) -> None:
    """There is no browser to see, and a thread that waits for a line must not keep the program."""
    variables: Any = {"SSH_CONNECTION": "1 2 3 4", "DISPLAY": "", "WAYLAND_DISPLAY": ""}
    with terminal("call", url, "whoami", "--oauth", home=tmp_path, **variables) as screen:
        screen.read_until("Address: ")
        screen.press(b"\x03")
        assert screen.wait() == 130
        assert "Traceback" not in screen.seen
