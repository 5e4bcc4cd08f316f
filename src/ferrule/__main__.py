"""``python -m ferrule``: the command line, where the ``ferrule`` program is not on PATH."""

from __future__ import annotations

import sys

from ferrule.cli import main

if __name__ == "__main__":
    sys.exit(main())
