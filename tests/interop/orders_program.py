"""The example of orders, with a payment provider that can be slow or take its process with it."""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent.parent / "examples" / "orders.py"

example = runpy.run_path(str(EXAMPLE), run_name="orders_example")
app = example["app"]
charge_card = example["charge_card"]


def troubled(amount_cents: int, idempotency_key: str) -> str:
    """Charge, then what the environment says."""
    charge = charge_card(amount_cents, idempotency_key)
    time.sleep(float(os.environ.get("TROUBLE_WAIT_S", "0")))
    if os.environ.get("TROUBLE") == "killed":
        os._exit(9)
    return charge


if __name__ == "__main__":
    from ferrule.app.rounds.settings import RoundsSettings

    app.lowlevel.attachments[RoundsSettings].step_wait_s = float(os.environ.get("STEP_WAIT_S", "5"))
    app.tools.index.live["order"].spec.function.__globals__["charge_card"] = troubled
    app.run("http", port=int(sys.argv[1]))
