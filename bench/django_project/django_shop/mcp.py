"""The view as a tool; both Ferrule and django-mcp-server import this module."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

from django.conf import settings

from django_shop.models import Product
from django_shop.views import ProductSerializer, ProductViewSet

if settings.CANDIDATE == "ferrule":
    from ferrule.django import mcp

    mcp.expose(ProductViewSet, actions=["list", "retrieve"])
elif settings.CANDIDATE == "django-mcp-server":
    from mcp_server import MCPToolset, drf_publish_list_mcp_tool

    class OnePage(ProductViewSet):
        """Pages are turned off for tools there, so the view cuts its rows."""

        queryset = Product.objects.order_by("id")

        def get_queryset(self) -> Any:
            return super().get_queryset()[:20]

    drf_publish_list_mcp_tool(OnePage, name="product_list", actions={"get": "list"}, instructions="Products.")

    class Products(MCPToolset):
        """There is no retrieving view: a method, with the view's serializer."""

        def product_retrieve(self, id: int) -> dict[str, Any]:
            """Return a product."""
            return dict(ProductSerializer(Product.objects.get(pk=id)).data)
