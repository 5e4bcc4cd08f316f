"""Files within their bound, also by several processes, and logs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ferrule.app.middleware.audit.chain import check_chains
from ferrule.app.middleware.audit.sinks import AuditFile, AuditLog


def test_a_file_is_private_and_has_one_line_a_record(tmp_path: Path) -> None:
    sink = AuditFile(tmp_path / "audit.jsonl", fsync=True)
    for number in range(3):
        sink.write({}, b'{"n":%d}' % number)
    path = tmp_path / "audit.jsonl"
    assert path.read_bytes() == b'{"n":0}\n{"n":1}\n{"n":2}\n'
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600


def test_files_are_bounded_in_size_and_number(tmp_path: Path) -> None:
    sink = AuditFile(tmp_path / "audit.jsonl", max_bytes=1024, backups=2)
    for number in range(100):
        sink.write({}, json.dumps({"n": number, "text": "x" * 90}).encode())
    files = sorted(path.name for path in tmp_path.glob("audit.jsonl*") if not path.name.endswith(".lock"))
    assert files == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(path.stat().st_size <= 1024 for path in tmp_path.iterdir())
    kept = [
        json.loads(line)["n"]
        for name in ("audit.jsonl.2", "audit.jsonl.1", "audit.jsonl")
        for line in (tmp_path / name).read_bytes().splitlines()
    ]
    assert kept == list(range(100 - len(kept), 100))
    one = AuditFile(tmp_path / "one.jsonl", max_bytes=1024, backups=0)
    for _ in range(30):
        one.write({}, b"x" * 90)
    assert (tmp_path / "one.jsonl").stat().st_size <= 1024
    assert not (tmp_path / "one.jsonl.1").exists()


def test_a_file_that_was_moved_away_is_made_again(tmp_path: Path) -> None:
    """As programs do that rotate logs."""
    sink = AuditFile(tmp_path / "audit.jsonl")
    sink.write({}, b"1")
    (tmp_path / "audit.jsonl").rename(tmp_path / "old")
    sink.write({}, b"2")
    assert (tmp_path / "audit.jsonl").read_bytes() == b"2\n"


def test_a_name_with_the_id_of_the_process(tmp_path: Path) -> None:
    AuditFile(tmp_path / "audit-{pid}.jsonl").write({}, b"1")
    assert (tmp_path / f"audit-{os.getpid()}.jsonl").exists()


@pytest.mark.parametrize("wrong", [{"max_bytes": 10}, {"backups": -1}])
def test_impossible_bounds_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        AuditFile(tmp_path / "x", **wrong)


_WRITER = """
import sys
from ferrule.app.middleware.audit.chain import Chain
from ferrule.app.middleware.audit.sinks import AuditFile
sink, chain = AuditFile(sys.argv[1], max_bytes=20_000, backups=50), Chain(None)
for number in range(300):
    line, written = chain.link({"n": number, "text": "x" * 50})
    sink.write({}, line)
    written()
"""


@pytest.mark.skipif(os.name != "posix", reason="no locks between processes here: each has a file of its own")
def test_processes_write_to_one_file_without_loss_while_it_is_rotated(tmp_path: Path) -> None:
    """A chain for each of them, with all of its records in order."""
    path = tmp_path / "audit.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", _WRITER, str(path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    numbers = sorted(int(each.suffix[1:]) for each in tmp_path.glob("audit.jsonl.[0-9]*"))
    files = [*(tmp_path / f"audit.jsonl.{number}" for number in reversed(numbers)), path]
    assert len(files) > 3
    report = check_chains(line for file in files for line in file.read_bytes().splitlines())
    assert (report.problems, report.records, len(report.heads)) == ([], 900, 3)


def test_a_log_has_the_record_as_its_message(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="ferrule.audit"):
        AuditLog().write({"a": 1}, b'{"a":1}')
        AuditLog("my.audit", level=logging.WARNING).write({"a": 2}, b'{"a":2}')
    assert [(each.name, each.levelno, each.getMessage()) for each in caplog.records] == [
        ("ferrule.audit", logging.INFO, '{"a":1}'),
        ("my.audit", logging.WARNING, '{"a":2}'),
    ]
