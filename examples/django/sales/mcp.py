"""What models may do with orders."""

# --8<-- [start:code]
from typing import Literal

from ferrule import Context, ToolError
from ferrule.django import mcp
from sales import services, views
from sales.models import Order

mcp.expose(views.AddressViewSet, actions=["list", "create"])
mcp.expose(views.OrderViewSet, rename={"POST /api/orders/{id}/cancel/": "order_cancel"})
mcp.expose(views.LineViewSet)


@mcp.tool(annotations={"destructiveHint": True})
def place_order(order: int, ctx: Context) -> str:
    """Place an order of the user, who is asked first."""
    found = Order.objects.filter(pk=order, customer=ctx.principal.user).first()  # their own only, as in the viewset
    if found is None:
        raise ToolError(f"You have no order {order}")
    if found.state != Order.State.DRAFT:
        raise ToolError(f"Order {order} is {found.state} already")
    question = f"Place order {order} for {services.total_of(found):.2f} €?"
    answer = ctx.from_thread(ctx.elicit, question, Literal["yes", "no"])
    if answer.data != "yes":
        raise ToolError("Nothing was ordered: the user did not agree.")
    try:
        return services.place(order)  # last: in the modern era the lines above run again when the answer comes
    except services.OrderError as error:
        raise ToolError(str(error)) from error


# --8<-- [end:code]
