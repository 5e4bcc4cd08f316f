"""Writes files as a whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

__all__ = ["replace_file"]


def replace_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file in one step: readers see the old content or the new one, and a failed attempt leaves the old one.

    What is no regular file, such as ``/dev/null``, ``/dev/stdout`` or a pipe, is not replaced: it gets the content.

    Args:
        path: the file; its folder exists. A link to a regular file is replaced.
        content: the new content.
        mode: the permissions of the file.

    Raises:
        OSError: it cannot be written, or is a folder.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # 0600
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
