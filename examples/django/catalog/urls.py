"""URLs of products."""

from rest_framework.routers import SimpleRouter

from catalog import views

router = SimpleRouter()
router.register("categories", views.CategoryViewSet)
router.register("suppliers", views.SupplierViewSet)
router.register("products", views.ProductViewSet)
router.register("offers", views.OfferViewSet)
router.register(r"products/(?P<product_sku>[^/]+)/photos", views.PhotoViewSet)
router.register(r"products/(?P<product_sku>[^/]+)/reviews", views.ReviewViewSet)

urlpatterns = router.urls
