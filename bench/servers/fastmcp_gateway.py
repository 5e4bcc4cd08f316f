"""The measured gateway, written with fastmcp: ``CONFIG PORT``."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports]

config, port = sys.argv[1:]
app = create_proxy(json.loads(Path(config).read_text()), name="gateway")
app.run("http", host="127.0.0.1", port=int(port), show_banner=False)
