"""Viewsets of warehouses."""

from typing import Any

from catalog.permissions import StaffWrites
from catalog.views import Newest
from django.db import transaction
from django.db.models import F
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.permissions import IsAdminUser, IsAuthenticated
from rest_framework.response import Response

from stock.models import Movement, Stock, Warehouse


class WarehouseSerializer(serializers.ModelSerializer):
    """A place with products."""

    class Meta:
        """Options."""

        model = Warehouse
        fields = ("code", "city")


class StockSerializer(serializers.ModelSerializer):
    """Pieces of a product in a warehouse."""

    product = serializers.SlugRelatedField("sku", read_only=True)

    class Meta:
        """Options."""

        model = Stock
        fields = ("product", "pieces")


class MovementSerializer(serializers.ModelSerializer):
    """Pieces that came or went."""

    product = serializers.CharField(source="stock.product.sku", read_only=True)
    warehouse = serializers.CharField(source="stock.warehouse.code", read_only=True)

    class Meta:
        """Options."""

        model = Movement
        fields = ("id", "product", "warehouse", "pieces", "reason", "at")


class RestockSerializer(serializers.Serializer):
    """Pieces that came."""

    pieces = serializers.IntegerField(min_value=1, max_value=10_000)
    reason = serializers.CharField(max_length=80, default="delivery")


class WarehouseViewSet(viewsets.ReadOnlyModelViewSet):
    """Places with products."""

    queryset = Warehouse.objects.order_by("code")
    serializer_class = WarehouseSerializer
    lookup_field = "code"
    permission_classes = (IsAuthenticated, StaffWrites)


class StockViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """What one warehouse holds."""

    queryset = Stock.objects.select_related("product").order_by("id")
    serializer_class = StockSerializer
    permission_classes = (IsAdminUser,)
    lookup_field = "product__sku"
    lookup_url_kwarg = "sku"
    lookup_value_regex = "[^/]+"

    def get_queryset(self) -> Any:
        """Return what is in the warehouse of the path."""
        return super().get_queryset().filter(warehouse__code=self.kwargs.get("warehouse_code"))

    @extend_schema(request=RestockSerializer, responses=StockSerializer)
    @action(detail=True, methods=["post"])
    def restock(self, request: Any, warehouse_code: str, sku: str) -> Response:
        """Book pieces that came."""
        given = RestockSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        stock = self.get_object()
        with transaction.atomic():
            Stock.objects.filter(pk=stock.pk).update(pieces=F("pieces") + given.validated_data["pieces"])
            Movement.objects.create(stock=stock, **given.validated_data)
        stock.refresh_from_db()
        return Response(self.get_serializer(stock).data)


class MovementViewSet(viewsets.ReadOnlyModelViewSet):
    """What came and went, the newest first."""

    queryset = Movement.objects.select_related("stock__product", "stock__warehouse")
    serializer_class = MovementSerializer
    permission_classes = (IsAdminUser,)
    pagination_class = Newest
    filter_backends = ()
