"""Where the official JSON schemas of the revisions are.

No package carries them: the peers that the tests install have them as code of their own, and not the published files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

SCHEMAS: Final = Path(
    os.environ.get("FERRULE_MCP_SCHEMAS") or Path(__file__).resolve().parents[2] / "shared" / "data" / "mcp-schema"
)
"""Holds ``<version>.json`` for each revision; ``FERRULE_MCP_SCHEMAS`` names another folder."""

NO_SCHEMAS: Final = (
    "the official schemas are not beside this clone, and no package carries them: "
    "FERRULE_MCP_SCHEMAS names a folder with 2024-11-05.json and so on"
)
