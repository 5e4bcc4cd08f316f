"""URLs of orders."""

from rest_framework.routers import SimpleRouter

from sales import views

router = SimpleRouter()
router.register("addresses", views.AddressViewSet)
router.register("orders", views.OrderViewSet)
router.register(r"orders/(?P<order_pk>\d+)/lines", views.LineViewSet, basename="line")

urlpatterns = router.urls
