"""URLs of warehouses."""

from rest_framework.routers import SimpleRouter

from stock import views

router = SimpleRouter()
router.register("warehouses", views.WarehouseViewSet)
router.register(r"warehouses/(?P<warehouse_code>[^/.]+)/stock", views.StockViewSet)
router.register("movements", views.MovementViewSet)

urlpatterns = router.urls
