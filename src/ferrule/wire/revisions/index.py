"""The index of the revisions: one import for each. A new revision is one file beside this one and one line here."""

# The imports are collected below, so that a revision needs one line and not two.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from typing import Final

from ferrule.wire.revisions.base import Revision
from ferrule.wire.revisions.r2024_11_05 import REVISION as R2024_11_05
from ferrule.wire.revisions.r2025_03_26 import REVISION as R2025_03_26
from ferrule.wire.revisions.r2025_06_18 import REVISION as R2025_06_18
from ferrule.wire.revisions.r2025_11_25 import REVISION as R2025_11_25
from ferrule.wire.revisions.r2026_07_28 import REVISION as R2026_07_28

__all__ = ["INDEX"]

INDEX: Final[tuple[Revision, ...]] = tuple(
    sorted((value for value in tuple(globals().values()) if isinstance(value, Revision)), key=lambda each: each.version)
)
"""Every revision, oldest first: versions are dates, so the order of their text is the order of time."""
