"""ferrule.cli.files: a file is written as a whole, or not at all."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ferrule.cli.files import replace_file


def test_a_failed_attempt_leaves_the_old_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no second file beside it."""

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    path = tmp_path / "a"
    replace_file(path, b"old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        replace_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_the_file_has_the_given_permissions(tmp_path: Path) -> None:
    """Of its owner alone where none are given: a configuration may hold secrets."""
    for given, expected in (((), 0o600), ((0o644,), 0o644)):
        replace_file(tmp_path / "a", b"", *given)
        assert (tmp_path / "a").stat().st_mode & 0o7777 == expected


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes of POSIX")
def test_what_is_no_regular_file_gets_the_content_and_stays(tmp_path: Path) -> None:
    """A device that is replaced by a file breaks every other program of the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        link = tmp_path / "link"
        link.symlink_to(pipe)
        for path in (pipe, link):
            replace_file(path, b"content")
            assert os.read(reader, 100) == b"content"
        assert pipe.is_fifo()
        assert link.is_symlink()
    finally:
        os.close(reader)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe"]


def test_a_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        replace_file(tmp_path, b"")
    assert list(tmp_path.iterdir()) == []
