"""Writes and unpacks the archive of a bundle: a ZIP file whose bytes only depend on its members."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

__all__ = ["unpack", "zip_bytes"]

# The first moment that a ZIP file can hold.
_TIME: Final = (1980, 1, 1, 0, 0, 0)


def zip_bytes(members: Mapping[str, bytes], executable: Collection[str] = ()) -> bytes:
    """Return a ZIP file: the manifest first, then the members by their paths, all with the same time.

    Args:
        members: path, with slashes, to content.
        executable: the paths of members that may be executed.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(members, key=lambda path: (path != "manifest.json", path)):
            entry = zipfile.ZipInfo(path, _TIME)
            entry.create_system = 3  # on every system the one whose permissions are written
            entry.external_attr = (0o100755 if path in executable else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, members[path])
    return made.getvalue()


def unpack(archive: bytes, folder: Path) -> None:
    """Unpack a ZIP file that `zip_bytes` made into an empty folder."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        opened.extractall(folder)
