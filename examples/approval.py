"""A person approves before anything happens: a form for the user, and an effect that is taken once.

The model proposes the payment, but the question goes to the user: what the form says, the model can neither see
beforehand nor answer. The same body serves both eras; in the modern one it runs again after each answer, and `ctx.step`
sees to it that the money leaves once. A larger one is orders.py.

python examples/approval.py                       shows it in both eras
python examples/approval.py stdio                 serves over stdin and stdout (or http --port 8000)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from ferrule import Client, Context, Field, MCPServer, ToolError

app = MCPServer("approval", version="1.0")

FREE_UP_TO_EUR = 50
ACCOUNT: list[str] = []


@dataclass
class Approval:
    """What the user fills in."""

    approve: bool
    reason: Annotated[str, Field("for the books", max_length=80)] = ""


def transfer(payee: str, amount_eur: float) -> str:
    """Stands for the bank."""
    ACCOUNT.append(payee)
    return f"transfer {len(ACCOUNT)}"


@app.tool(annotations={"destructiveHint": True})
async def pay(payee: str, amount_eur: Annotated[float, Field(gt=0, le=10_000)], ctx: Context) -> str:
    """Pay somebody; the user is asked for larger amounts."""
    reason = "small amount"
    if amount_eur > FREE_UP_TO_EUR:
        answer = await ctx.elicit(f"Pay {amount_eur:.2f} € to {payee}?", Approval)
        if answer.action != "accept":  # declined or dismissed: not the same as a no in the form
            raise ToolError(f"Nothing was paid: the user chose to {answer.action}.")
        if not answer.data.approve:
            raise ToolError(f"Nothing was paid: {answer.data.reason or 'the user said no'}.")
        reason = answer.data.reason
    receipt = await ctx.step("transfer", transfer, payee, amount_eur)
    return f"{receipt}: {amount_eur:.2f} € to {payee} ({reason})"


def user(params: Any) -> dict[str, Any] | None:
    """The user of the demonstration: approves of Ada, refuses Bob with a reason, and dismisses the rest."""
    if "Ada" in params.message:
        return {"approve": True, "reason": "invoice 17"}
    if "Bob" in params.message:
        return {"approve": False, "reason": "paid last week"}
    return None


async def show(client: Client) -> None:
    """Four payments, three questions."""
    for payee, amount_eur in (("Eve", 12), ("Ada", 800), ("Bob", 800), ("Mallory", 9999)):
        result = await client.call_tool("pay", {"payee": payee, "amount_eur": amount_eur})
        print(f"  {'refused' if result.is_error else 'done   '}  {result.text}")


if __name__ == "__main__":
    from showing import main

    main(app, show, elicitation_handler=user)
