"""``python -m ferrule_compat``: the command, where ``ferrule-compat`` is not on PATH."""

from __future__ import annotations

import sys

from ferrule_compat.runner import main

if __name__ == "__main__":
    sys.exit(main())
