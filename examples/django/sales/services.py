"""What happens to orders: plain functions, which views, tools and commands call."""

from decimal import Decimal

from django.db import transaction
from django.db.models import F, Sum
from stock.models import Movement, Stock

from sales.models import Order


class OrderError(ValueError):
    """An order cannot be changed in this way."""


def total_of(order: Order) -> Decimal:
    """Return what an order costs."""
    return order.lines.aggregate(total=Sum(F("pieces") * F("price")))["total"] or Decimal(0)  # type: ignore[attr-defined]


# --8<-- [start:place]
@transaction.atomic
def place(order_id: int) -> str:
    """Take the pieces of an order from the warehouses, and return its state.

    Raises:
        OrderError: it is no draft, it is empty, or a product is not there.
    """
    order = Order.objects.select_for_update().get(pk=order_id)
    if order.state != Order.State.DRAFT:
        raise OrderError(f"Order {order_id} is {order.state} already")
    lines = list(order.lines.select_related("product"))  # type: ignore[attr-defined]
    if not lines:
        raise OrderError(f"Order {order_id} is empty")
    for line in lines:
        stock = Stock.objects.filter(product=line.product, pieces__gte=line.pieces).order_by("-pieces").first()
        taken = stock and Stock.objects.filter(pk=stock.pk, pieces__gte=line.pieces).update(
            pieces=F("pieces") - line.pieces
        )
        if not taken:
            raise OrderError(f"No warehouse has {line.pieces} of {line.product.sku}")
        Movement.objects.create(stock=stock, pieces=-line.pieces, reason=f"order {order_id}")
    order.state = Order.State.PLACED
    order.save(update_fields=["state"])
    return order.state


# --8<-- [end:place]


@transaction.atomic
def cancel(order_id: int) -> str:
    """Put the pieces of an order back, and return its state.

    Raises:
        OrderError: it is cancelled already.
    """
    order = Order.objects.select_for_update().get(pk=order_id)
    if order.state == Order.State.CANCELLED:
        raise OrderError(f"Order {order_id} is cancelled already")
    for movement in Movement.objects.filter(reason=f"order {order_id}").select_related("stock"):
        Stock.objects.filter(pk=movement.stock.pk).update(pieces=F("pieces") - movement.pieces)
        Movement.objects.create(stock=movement.stock, pieces=-movement.pieces, reason=f"back from order {order_id}")
    order.state = Order.State.CANCELLED
    order.save(update_fields=["state"])
    return order.state
