"""What the application offers."""

from __future__ import annotations

from ferrule.django import mcp
from tests.django.shop.models import Invoice
from tests.django.shop.views import InvoiceViewSet

mcp.expose(InvoiceViewSet)


@mcp.tool
def count_invoices() -> int:
    """Count all invoices."""
    return Invoice.objects.count()
