"""URLs: the views, and the endpoint of the candidate at ``mcp/``."""

# pyright: reportMissingImports=false
from __future__ import annotations

from typing import Any

from django.conf import settings
from django.urls import include, path
from rest_framework.routers import SimpleRouter

from django_shop.models import Product
from django_shop.views import ProductSerializer, ProductViewSet

router = SimpleRouter()
router.register("products", ProductViewSet)

urlpatterns: list[Any] = [path("api/", include(router.urls))]
if settings.CANDIDATE == "ferrule":
    from ferrule.django import mcp

    urlpatterns.append(path("mcp/", mcp.urls))
elif settings.CANDIDATE == "django-mcp-server":
    urlpatterns.append(path("", include("mcp_server.urls")))
elif settings.CANDIDATE == "djangorestframework-mcp-server":
    from rest_framework.authentication import TokenAuthentication
    from rest_framework.permissions import IsAuthenticated
    from rest_framework.request import Request
    from rest_framework_mcp import MCPServer
    from rest_framework_mcp.auth.backends import AllowAnyBackend
    from rest_framework_mcp.auth.types import TokenInfo
    from rest_framework_services.types.selector_kind import SelectorKind
    from rest_framework_services.types.selector_spec import SelectorSpec

    class Tokens(AllowAnyBackend):
        """The same tokens as those of the views."""

        def authenticate(self, request: Any) -> Any:
            user = Request(request, authenticators=[TokenAuthentication()]).user
            return TokenInfo(user=user, scopes=()) if user.is_authenticated else None

    def products() -> Any:
        """Return the products."""
        return Product.objects.order_by("id")

    def product(id: int) -> Any:
        """Return one product."""
        return Product.objects.filter(pk=id)

    server = MCPServer(name="shop", auth_backend=Tokens())
    server.register_selector_tool(
        name="product_list",
        description="Products.",
        paginate=True,
        spec=SelectorSpec(
            kind=SelectorKind.LIST,
            permission_classes=[IsAuthenticated],
            selector=products,
            output_serializer=ProductSerializer,
        ),
    )
    server.register_selector_tool(
        name="product_retrieve",
        description="A product.",
        spec=SelectorSpec(
            kind=SelectorKind.RETRIEVE,
            permission_classes=[IsAuthenticated],
            selector=product,
            output_serializer=ProductSerializer,
        ),
    )
    urlpatterns.append(path("mcp/", server.urls))
