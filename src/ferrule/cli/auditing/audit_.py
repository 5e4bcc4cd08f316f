"""``ferrule audit``: the hash chains of audit files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from ferrule.app.middleware.audit.chain import ChainHead, check_chains
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Quit
from ferrule.cli.output import print_text, say
from ferrule.wire.codec import decode
from ferrule.wire.faults import FerruleError

__all__ = ["command"]

_EXAMPLES = """\b
Examples:
  ferrule audit verify audit.jsonl
  ferrule audit heads audit.jsonl
"""


@click.group("audit", epilog=_EXAMPLES)
def command() -> None:
    """Check the hash chains of audit files: Audit(AuditFile("audit.jsonl"), chain=True, …)."""


_files = click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
_key = click.option("--key-env", metavar="NAME", help="The environment variable with the key of the audit.")
_partial = click.option("--partial", is_flag=True, help="The oldest files may be gone.")


@command.command("verify")
@_files
@_key
@_partial
@click.option("--heads", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Heads that were kept.")
def verify(files: tuple[Path, ...], key_env: str | None, partial: bool, heads: Path | None) -> int:
    """Find records of FILES that were changed, removed, added or reordered; with --heads also those cut off at the end.

    Older files of the same audit (FILE.1, FILE.2, …) are read, too.
    """
    kept = [] if heads is None else _read_heads(heads)
    report = check_chains(_lines(files), key=_key_of(key_env), heads=kept, is_partial=partial)
    for problem in report.problems:
        print_text(problem)
    say(f"{report.records} records in {len(report.heads)} chains: {len(report.problems) or 'no'} problems")
    if heads is None and not report.problems:
        say("Records cut off at the end are found only with --heads")
    return EXIT_FAILED if report.problems else EXIT_OK


@command.command("heads")
@_files
@_key
def print_heads(files: tuple[Path, ...], key_env: str | None) -> int:
    """Print the last record of each chain as JSON. Keep it where those who write the files cannot write."""
    report = check_chains(_lines(files), key=_key_of(key_env), is_partial=True)
    if report.problems:
        raise Quit(EXIT_FAILED, f"the chains are broken, see ferrule audit verify: {report.problems[0]}")
    print_text(
        json.dumps([{"writer": head.writer, "seq": head.seq, "hash": head.hash} for head in report.heads.values()])
    )
    return EXIT_OK


def _key_of(name: str | None) -> bytes | None:
    if name is None:
        return None
    found = os.environ.get(name)
    if not found:
        raise Quit(EXIT_USAGE, f"there is no environment variable {name}")
    return found.encode()


def _read_heads(path: Path) -> list[ChainHead]:
    try:
        found: Any = decode(path.read_bytes())
        return [ChainHead(str(each["writer"]), int(each["seq"]), str(each["hash"])) for each in found]
    except (FerruleError, TypeError, KeyError, ValueError) as error:
        raise Quit(EXIT_USAGE, f"{path} has no heads: it is made by ferrule audit heads") from error


def _lines(files: tuple[Path, ...]) -> Iterator[bytes]:
    """Yield the lines of files, of each with its older ones, the oldest first."""
    for file in files:
        older = [
            path for path in file.parent.glob(f"{file.name}.*") if re.fullmatch(r"\d+", path.name[len(file.name) + 1 :])
        ]
        for path in (*sorted(older, key=lambda each: -int(each.suffix[1:])), file):
            with path.open("rb") as opened:
                yield from opened
