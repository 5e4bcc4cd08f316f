"""What models may do with warehouses."""

from dataclasses import dataclass

from ferrule.django import mcp
from stock import urls
from stock.models import Stock

mcp.expose(urls.router)


@dataclass
class Pieces:
    """Pieces of a product in one warehouse."""

    warehouse: str
    city: str
    pieces: int


@mcp.tool(annotations={"readOnlyHint": True})
def where_is(sku: str) -> list[Pieces]:
    """Tell in which warehouses a product is, those with the most pieces first."""
    rows = Stock.objects.filter(product__sku=sku, pieces__gt=0).select_related("warehouse").order_by("-pieces")
    return [Pieces(row.warehouse.code, row.warehouse.city, row.pieces) for row in rows]
