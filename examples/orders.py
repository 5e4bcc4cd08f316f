"""A tool that asks its user two questions, has the client's model write a line, and charges a card.

The body below is independent of protocol eras. For a legacy client each question is a request that it answers; for a
modern client the call ends with its questions, and the retry runs the body again up to where it stood. The card is
charged once all the same: `ctx.step` records what it did, and with a store that all workers share (``once=True``) not
even the same retry sent twice, or a worker killed after the charge, charges again.

python examples/orders.py                         serves over stdin and stdout
python examples/orders.py http --port 8000        serves http://127.0.0.1:8000/mcp

Environment: ORDERS_STATE_KEY (32 characters or more, the same in every worker), ORDERS_STORE (such as
sqlite:///orders.db) and ORDERS_LEDGER (the file that stands for the payment provider).
"""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import Literal

from ferrule import Context, MCPServer, ToolError

PRICES_CENTS = {"S": 900, "M": 1100, "L": 1300}

state_key = os.environ.get("ORDERS_STATE_KEY")
app = MCPServer(
    "orders",
    version="1.0",
    state_keys=None if state_key is None else [state_key],
    store=os.environ.get("ORDERS_STORE", "memory:"),
)


@dataclass
class Receipt:
    """What was bought, and the charge that pays for it."""

    product: str
    size: str
    charge: str
    note: str


def charge_card(amount_cents: int, idempotency_key: str) -> str:
    """The payment provider: one line of a ledger per charge."""
    ledger = os.environ.get("ORDERS_LEDGER", "orders-ledger.txt")
    with open(ledger, "a", encoding="utf-8") as lines:
        lines.write(f"{amount_cents} {idempotency_key}\n")
    return f"ch_{idempotency_key[:8]}"


@app.tool
async def order(product: str, ctx: Context) -> Receipt:
    """Order a product: asks for the size and for consent, then charges the card."""
    size = await ctx.elicit(f"Which size of {product}?", Literal["S", "M", "L"])
    if size.data is None:
        raise ToolError("Nothing was ordered: no size was chosen.")
    amount_cents = PRICES_CENTS[size.data]
    consent = await ctx.elicit(f"Charge {amount_cents / 100:.2f} euros for one {product} in {size.data}?", bool)
    if not consent.data:
        raise ToolError("Nothing was ordered: the charge was not agreed to.")
    thanks = await ctx.sample(f"Thank somebody for ordering one {product}, in one short line.", max_tokens=60)
    charge = await ctx.step("charge", charge_card, amount_cents, ctx.idempotency_key("charge"), once=True)
    blocks = thanks.content if isinstance(thanks.content, list) else [thanks.content]
    return Receipt(product, size.data, charge, " ".join(block.text or "" for block in blocks))


def main() -> None:
    """Serve as the command line says."""
    parser = argparse.ArgumentParser(description="An example of Ferrule: questions, a sampled line and one charge.")
    parser.add_argument("transport", nargs="?", choices=["stdio", "http"], default="stdio")
    parser.add_argument("--port", type=int, default=8000)
    options = parser.parse_args()
    if options.transport == "http":
        app.run("http", port=options.port)
    else:
        app.run("stdio")


if __name__ == "__main__":
    main()
