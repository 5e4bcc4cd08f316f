"""The files with the last known lists of servers."""

from __future__ import annotations

import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ferrule.client.gateway.pages import RawList
from ferrule.client.gateway.upstreams import list_cache
from ferrule.client.gateway.upstreams.list_cache import KnownServer, ListCache, default_folder, digest_of
from ferrule.client.targets import HttpTarget, StdioTarget
from ferrule.transports.stdio.client import StdioServer


def known(*names: str) -> KnownServer:
    """What is known of a server with these tools."""
    lists = {"tools/list": RawList([{"name": name} for name in names], {"ttlMs": 5})}
    return KnownServer({"tools": {"listChanged": True}}, "Read.", lists)


def test_what_is_stored_is_loaded_by_another_process(tmp_path: Path) -> None:
    """Capabilities, instructions and lists with what stands beside the items."""
    assert ListCache(tmp_path / "a" / "b").store("key", known("one", "two"))
    assert ListCache(tmp_path / "a" / "b").load("key") == known("one", "two")
    assert ListCache(tmp_path / "a" / "b").load("other") is None


@pytest.mark.skipif(sys.platform == "win32", reason="modes of POSIX")
def test_only_the_user_can_read_the_files(tmp_path: Path) -> None:
    """Lists may tell what somebody works on."""
    ListCache(tmp_path / "lists").store("key", known("one"))
    assert stat.S_IMODE((tmp_path / "lists").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "lists" / "key.json").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff" * 8,
        b'{"format":0}',
        b'{"format":1,"capabilities":1,"lists":{}}',
        b'{"format":1,"capabilities":{},"lists":{"tools/list":[1,2]}}',
    ],
)
def test_a_file_that_cannot_be_read_counts_as_not_there(content: bytes, tmp_path: Path) -> None:
    """Another version, or a disk that was full."""
    (tmp_path / "key.json").write_bytes(content)
    assert ListCache(tmp_path).load("key") is None


def test_files_are_bounded_in_size_and_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that was written longest ago goes first."""
    monkeypatch.setattr(list_cache, "MAX_FILES", 3)
    monkeypatch.setattr(list_cache, "MAX_FILE_BYTES", 500)
    cache = ListCache(tmp_path)
    for number in range(5):
        cache.store(f"k{number}", known("x"))
        os.utime(tmp_path / f"k{number}.json", (number, number))
    cache.store("last", known("x"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k3.json", "k4.json", "last.json"]
    assert not cache.store("k3", known("y" * 600))
    assert cache.load("k3") == known("x")


def test_a_folder_that_cannot_be_written_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway works without it."""
    (tmp_path / "file").write_text("")
    assert not ListCache(tmp_path / "file").store("key", known("one"))
    assert "cannot be kept" in caplog.text


def test_many_writers_leave_a_whole_file(tmp_path: Path) -> None:
    """Each file is replaced as a whole, so a reader sees one of the versions."""
    names = [[f"t{number}-{index}" for index in range(50)] for number in range(8)]

    def write(number: int) -> list[KnownServer | None]:
        cache = ListCache(tmp_path)
        found: list[KnownServer | None] = []
        for _ in range(20):
            cache.store("key", known(*names[number]))
            found.append(cache.load("key"))
        return found

    with ThreadPoolExecutor(8) as pool:
        seen = [each for found in pool.map(write, range(8)) for each in found]
    assert all(each in [known(*some) for some in names] for each in seen)
    assert [path.name for path in tmp_path.iterdir()] == ["key.json"]


def test_the_key_depends_on_the_server_and_on_no_secret() -> None:
    """Values of variables and headers, and user and query of a URL, may be secret."""
    plain = HttpTarget("https://h/mcp", {"authorization": "Bearer a"})
    same = HttpTarget("https://me:pw@h/mcp?key=b", {"Authorization": "Bearer b"})
    assert digest_of("x", plain) == digest_of("x", same)
    assert digest_of("x", plain) != digest_of("y", plain)
    assert digest_of("x", plain) != digest_of("x", HttpTarget("https://h/other"))
    one = StdioTarget(StdioServer("uvx", args=["a"], env={"TOKEN": "1"}))
    two = StdioTarget(StdioServer("uvx", args=["a"], env={"TOKEN": "2"}))
    assert digest_of("x", one) == digest_of("x", two)
    assert digest_of("x", one) != digest_of("x", StdioTarget(StdioServer("uvx", args=["b"], env={"TOKEN": "1"})))


def test_the_folder_of_the_user_can_be_named_or_switched_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By one variable."""
    monkeypatch.setenv("FERRULE_GATEWAY_CACHE", str(tmp_path))
    assert default_folder() == tmp_path
    monkeypatch.setenv("FERRULE_GATEWAY_CACHE", "")
    assert default_folder() is None
    monkeypatch.delenv("FERRULE_GATEWAY_CACHE")
    found = default_folder()
    assert found is not None
    assert found.parts[-2:] == ("ferrule", "gateway")
