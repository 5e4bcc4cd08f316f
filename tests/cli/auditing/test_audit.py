"""``ferrule audit``: what a check of files finds, with and without heads and a key."""

from __future__ import annotations

from pathlib import Path

from ferrule.app.middleware.audit.chain import Chain
from ferrule.app.middleware.audit.sinks import AuditFile
from tests.cli.support import ferrule


def write(path: Path, count: int, key: bytes | None = None) -> None:
    sink, chain = AuditFile(path, max_bytes=2000, backups=9), Chain(key)
    for number in range(count):
        line, written = chain.link({"member": f"tool {number}"})
        sink.write({}, line)
        written()


def test_an_unchanged_audit_of_several_files(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 30)
    assert (tmp_path / "audit.jsonl.2").exists()
    done = ferrule("audit", "verify", str(path))
    assert (done.returncode, "30 records in 1 chains: no problems" in done.stderr) == (0, True)
    assert "only with --heads" in done.stderr


def test_a_changed_record_a_lost_file_and_a_lost_end(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 30)
    heads = tmp_path / "heads.json"
    heads.write_text(ferrule("audit", "heads", str(path)).stdout, encoding="utf-8")
    assert ferrule("audit", "verify", str(path), "--heads", str(heads)).returncode == 0

    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"tool 29", b"tool 92"))
    done = ferrule("audit", "verify", str(path))
    assert (done.returncode, "record 30 was changed" in done.stdout) == (1, True)

    path.write_bytes(whole[: whole.rindex(b'{"member"')])
    assert ferrule("audit", "verify", str(path)).returncode == 0
    done = ferrule("audit", "verify", str(path), "--heads", str(heads))
    assert (done.returncode, "missing at the end" in done.stdout) == (1, True)

    path.write_bytes(whole)
    oldest = max(tmp_path.glob("audit.jsonl.[0-9]*"), key=lambda each: int(each.suffix[1:]))
    oldest.unlink()
    assert ferrule("audit", "verify", str(path)).returncode == 1
    assert ferrule("audit", "verify", str(path), "--partial").returncode == 0


def test_a_key_from_the_environment(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 3, b"0123456789abcdef")
    done = ferrule("audit", "verify", str(path), "--key-env", "AUDIT_KEY", AUDIT_KEY="0123456789abcdef")
    assert done.returncode == 0, done.stderr
    assert ferrule("audit", "verify", str(path)).returncode == 1
    done = ferrule("audit", "verify", str(path), "--key-env", "NO_SUCH_KEY")
    assert (done.returncode, "no environment variable NO_SUCH_KEY" in done.stderr) == (2, True)


def test_heads_that_are_none_and_chains_that_are_broken(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 3)
    done = ferrule("audit", "verify", str(path), "--heads", str(path))
    assert (done.returncode, "has no heads" in done.stderr) == (2, True)
    path.write_bytes(path.read_bytes().replace(b"tool 1", b"tool 2"))
    assert ferrule("audit", "heads", str(path)).returncode == 1
