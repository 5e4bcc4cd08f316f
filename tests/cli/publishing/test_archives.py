"""ferrule.cli.publishing.archives: the same bytes for the same files."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from ferrule.cli.publishing.archives import unpack, zip_bytes


def test_the_bytes_only_depend_on_the_members(tmp_path: Path) -> None:
    """Two machines, or one twice, make a file with the same digest."""
    members = {"b.txt": b"b", "manifest.json": b"{}", "a/run.sh": b"#!/bin/sh"}
    made = zip_bytes(members, ["a/run.sh"])
    assert made == zip_bytes(dict(reversed(members.items())), {"a/run.sh"})
    assert made != zip_bytes(members)
    with zipfile.ZipFile(io.BytesIO(made)) as archive:
        assert archive.namelist() == ["manifest.json", "a/run.sh", "b.txt"]
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert [oct(entry.external_attr >> 16) for entry in archive.infolist()] == ["0o100644", "0o100755", "0o100644"]
    unpack(made, tmp_path)
    assert (tmp_path / "a" / "run.sh").read_bytes() == b"#!/bin/sh"
