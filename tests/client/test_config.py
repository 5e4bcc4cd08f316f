"""What a target given as text means."""

from __future__ import annotations

import pytest

from ferrule.client.config import split_command


@pytest.mark.parametrize(
    ("text", "posix", "windows"),
    [
        ("npx -y server", ["npx", "-y", "server"], ["npx", "-y", "server"]),
        ('"a b/s.exe" "c d"', ["a b/s.exe", "c d"], ["a b/s.exe", "c d"]),
        (r'"C:\Program Files\s.exe" C:\x\y', None, [r"C:\Program Files\s.exe", r"C:\x\y"]),
        (r"run it's # no comment", None, ["run", "it's", "#", "no", "comment"]),
        (r"'a b' c\ d", ["a b", "c d"], None),
    ],
)
def test_a_command_line_is_split_as_its_system_does(
    text: str, posix: list[str] | None, windows: list[str] | None
) -> None:
    """Quotation marks hold a path together and are not part of it; on Windows a backslash is part of a path."""
    if posix is not None:
        assert split_command(text, is_windows=False) == posix
    if windows is not None:
        assert split_command(text, is_windows=True) == windows
