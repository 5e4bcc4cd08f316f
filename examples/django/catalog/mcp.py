"""What models may do with products."""

# --8<-- [start:code]
from catalog import views
from ferrule.django import mcp

mcp.expose(views.CategoryViewSet, actions=["list"])
mcp.expose(views.SupplierViewSet, actions=["list", "retrieve", "partial_update"])
mcp.expose(
    views.ProductViewSet,
    actions=["list", "retrieve", "create", "partial_update", "reprice"],
    describe={"product_list": "Find products: words in search=, price_max=, category=, in_stock=true."},
)
mcp.expose(views.OfferViewSet, rename={"GET /api/offers/": "offer_list"})
mcp.expose(views.PhotoViewSet)
mcp.expose(views.ReviewViewSet, actions=["list", "create", "partial_update", "destroy"])
# --8<-- [end:code]
