"""The results of `ferrule doctor`: text for people, and a code for programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from ferrule.cli.exits import EXIT_FAILED, EXIT_OK
from ferrule.cli.output import terminal_safe

__all__ = ["Finding", "Level", "Report"]

Level: TypeAlias = Literal["ok", "note", "warn", "fail"]

_MARKS = {"ok": "ok  ", "note": "note", "warn": "WARN", "fail": "FAIL"}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    Attributes:
        code: stable, for programs: ``wrong-path``, ``stdout-noise`` …
        level: ``ok``: works; ``note``: worth knowing; ``warn``: works here, and may fail elsewhere; ``fail``.
        says: a sentence that describes the observation.
        fix: the recommended change; empty if there is none.
        facts: measured values and texts, for programs.
    """

    code: str
    level: Level
    says: str
    fix: str = ""
    facts: dict[str, Any] = field(default_factory=dict[str, Any])

    def lines(self) -> list[str]:
        """Return the lines that people read."""
        first, *rest = terminal_safe(self.says).split("\n")
        made = [f"{_MARKS[self.level]}  {first}", *(f"      {line}" for line in rest)]
        return [*made, f"      fix: {terminal_safe(self.fix)}"] if self.fix else made


class Report:
    """The results so far; each is shown at once.

    Args:
        show: called with each finding.
    """

    def __init__(self, show: Callable[[Finding], None]) -> None:
        self.findings: list[Finding] = []
        self._show = show

    def add(self, code: str, level: Level, says: str, fix: str = "", **facts: Any) -> None:
        """Add a result and show it."""
        found = Finding(code, level, says, fix, facts)
        self.findings.append(found)
        self._show(found)

    def has(self, code: str) -> bool:
        """Return whether there is a result with this code."""
        return any(found.code == code for found in self.findings)

    @property
    def status(self) -> int:
        """The exit status: 1 if a check failed, else 0."""
        return EXIT_FAILED if any(found.level == "fail" for found in self.findings) else EXIT_OK
