"""A wheel of this source tree, for tests that install Ferrule elsewhere. No build tool and no network is needed."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from ferrule import __version__

SOURCE = Path(__file__).resolve().parents[1] / "src"


def make_wheel(folder: Path) -> Path:
    """Write the wheel into a folder and return its path; it has the metadata of the installed Ferrule."""
    info = f"ferrule-{__version__}.dist-info"
    members = {
        path.relative_to(SOURCE).as_posix(): path.read_bytes()
        for path in sorted(SOURCE.joinpath("ferrule").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    members[f"{info}/METADATA"] = (distribution("ferrule").read_text("METADATA") or "").encode()
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    members[f"{info}/entry_points.txt"] = b"[console_scripts]\nferrule = ferrule.cli:main\n"
    rows = [f"{path},{_digest(content)},{len(content)}" for path, content in members.items()]
    members[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    wheel = folder / f"ferrule-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in members.items():
            archive.writestr(path, content)
    return wheel


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
