"""Prints the output of commands: tables and text for people, JSON for programs.

Results go to stdout, everything else (progress, logs, questions, errors) to stderr, so that a pipe has results only.
Text from a server is escaped by `terminal_safe` before it is printed on a terminal: an escape sequence in a tool's
description could otherwise change the screen.

rich is used for tables if it is installed and stdout is a terminal, and nowhere else.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import click

from ferrule.client.calls.terminal_text import terminal_safe

__all__ = [
    "Progress",
    "is_terminal",
    "print_json",
    "print_json_line",
    "print_rows",
    "print_text",
    "say",
    "terminal_safe",
]


def is_terminal(stream: TextIO | None = None) -> bool:
    """Return whether a stream is a terminal (stdout unless another is given)."""
    found = sys.stdout if stream is None else stream
    try:
        return found.isatty()
    except (AttributeError, ValueError):
        return False


def print_text(text: str) -> None:
    """Print a server's text on stdout: escaped on a terminal, unchanged in a pipe."""
    click.echo(terminal_safe(text) if is_terminal() else text, color=True)  # or click strips escapes


def say(text: str) -> None:
    """Print text that is not part of the result, on stderr."""
    click.echo(terminal_safe(text) if is_terminal(sys.stderr) else text, err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON on stdout."""
    from ferrule.wire.codec import to_builtins

    text = json.dumps(to_builtins(value), indent=2, ensure_ascii=False)
    click.echo(terminal_safe(text) if is_terminal() else text)


def print_json_line(value: Any) -> None:
    """Print a value as one line of JSON on stdout and flush it, for programs that read the output line by line."""
    from ferrule.wire.codec import to_builtins

    text = json.dumps(to_builtins(value), ensure_ascii=False, separators=(",", ":"))
    click.echo(terminal_safe(text) if is_terminal() else text)
    sys.stdout.flush()


def print_rows(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print a table: by rich on a terminal if rich is installed, else as aligned text. Without rows, print nothing."""
    cells = [[terminal_safe(_one_line(value)) for value in row] for row in rows]
    if not cells:
        return
    if is_terminal() and _print_rich(title, columns, cells):
        return
    widths = [max(len(column), *(len(row[at]) for row in cells)) for at, column in enumerate(columns)]
    click.echo(title)
    for row in (columns, *cells):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        click.echo(f"  {line}")
    click.echo()


def _one_line(value: Any) -> str:
    text = "" if value is None else str(value)
    return " ".join(text.split())


def _print_rich(title: str, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(title=title, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for at, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=at == 0 and max(len(row[0]) for row in cells) < 40)
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=sys.stdout, highlight=False, emoji=False, markup=False)
    console.print(table)
    console.print()
    return True


class Progress:
    """The progress of a call on stderr: a bar on a terminal, a line per report with ``verbose``, else nothing."""

    def __init__(self, *, verbose: bool = False) -> None:
        self._is_bar = is_terminal(sys.stderr)
        self._verbose = verbose
        self._is_shown = False

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Show progress; the function for ``on_progress``."""
        words = terminal_safe(_one_line(message))
        if not self._is_bar:
            if self._verbose:
                click.echo(f"progress {_count(progress, total)} {words}".rstrip(), err=True)
            return
        width = max(20, shutil.get_terminal_size().columns - 1)
        line = f"{_bar(progress, total)} {_count(progress, total)} {words}".rstrip()
        sys.stderr.write(f"\r{line[:width].ljust(width)}")
        sys.stderr.flush()
        self._is_shown = True

    def clear(self) -> None:
        """Remove the bar, before other text is printed."""
        if self._is_shown:
            width = max(20, shutil.get_terminal_size().columns - 1)
            sys.stderr.write(f"\r{' ' * width}\r")
            sys.stderr.flush()
            self._is_shown = False


def _count(progress: float, total: float | None) -> str:
    return f"{progress:g}" if not total else f"{progress:g}/{total:g}"


def _bar(progress: float, total: float | None) -> str:
    size = 24
    if not total or total <= 0:
        return f"[{'·' * size}]"
    done = max(0, min(size, round(size * progress / total)))
    return f"[{'#' * done}{' ' * (size - done)}]"
