"""Viewsets of orders: each customer has their own."""

from decimal import Decimal
from typing import Any

from catalog.models import Product
from catalog.views import Newest
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.response import Response

from sales import services
from sales.models import Address, Order, OrderLine


class AddressSerializer(serializers.ModelSerializer):
    """Where a customer wants things."""

    class Meta:
        """Options."""

        model = Address
        fields = ("id", "name", "street", "city", "country")


class LineSerializer(serializers.ModelSerializer):
    """Pieces of one product."""

    product = serializers.SlugRelatedField("sku", queryset=Product.objects.filter(is_sold=True))
    price = serializers.DecimalField(max_digits=10, decimal_places=2, read_only=True)

    class Meta:
        """Options."""

        model = OrderLine
        fields = ("id", "product", "pieces", "price")
        extra_kwargs = {"pieces": {"min_value": 1, "max_value": 1000}}


class OwnAddresses(serializers.PrimaryKeyRelatedField):
    """The id of an address of the user."""

    def get_queryset(self) -> Any:
        """Return the user's addresses."""
        request = self.context.get("request")
        return Address.objects.filter(owner=request.user) if request else Address.objects.none()


class OrderSerializer(serializers.ModelSerializer):
    """An order with its lines."""

    address = OwnAddresses()
    lines = LineSerializer(many=True, read_only=True)
    total = serializers.SerializerMethodField()

    class Meta:
        """Options."""

        model = Order
        fields = ("id", "state", "address", "note", "lines", "total", "made")
        read_only_fields = ("state",)

    def get_total(self, order: Order) -> Decimal:
        """Return what the order costs."""
        return sum((line.pieces * line.price for line in order.lines.all()), Decimal(0))  # type: ignore[attr-defined]


class AddressViewSet(viewsets.ModelViewSet):
    """Addresses of the user."""

    queryset = Address.objects.order_by("id")
    serializer_class = AddressSerializer

    def get_queryset(self) -> Any:
        """Return the user's own addresses."""
        return super().get_queryset().filter(owner=self.request.user)

    def perform_create(self, serializer: Any) -> None:
        """Save an address of the user."""
        serializer.save(owner=self.request.user)


class OrderViewSet(mixins.CreateModelMixin, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Orders of the user, the newest first."""

    queryset = Order.objects.prefetch_related("lines__product")
    serializer_class = OrderSerializer
    pagination_class = Newest
    filterset_fields = ("state",)

    def get_queryset(self) -> Any:
        """Return the user's own orders."""
        return super().get_queryset().filter(customer=self.request.user)

    def perform_create(self, serializer: Any) -> None:
        """Save an order of the user."""
        serializer.save(customer=self.request.user)

    @extend_schema(request=None)
    @action(detail=True, methods=["post"])
    def cancel(self, request: Any, pk: str) -> Response:
        """Cancel an order; its pieces go back."""
        try:
            services.cancel(self.get_object().pk)
        except services.OrderError as error:
            raise serializers.ValidationError(str(error)) from error
        return Response(self.get_serializer(self.get_object()).data)


class LineViewSet(mixins.CreateModelMixin, mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet):
    """Lines of a draft."""

    queryset = OrderLine.objects.select_related("product").order_by("id")
    serializer_class = LineSerializer

    def get_queryset(self) -> Any:
        """Return the lines of the order in the path."""
        return super().get_queryset().filter(order=self.kwargs.get("order_pk"), order__customer=self.request.user)

    def get_draft(self) -> Order:
        """Return the order in the path; 404 if it is not the user's, or is placed."""
        order: Order = get_object_or_404(
            Order, pk=self.kwargs["order_pk"], customer=self.request.user, state=Order.State.DRAFT
        )
        return order

    def perform_create(self, serializer: Any) -> None:
        """Save a line with the price of today."""
        serializer.save(order=self.get_draft(), price=serializer.validated_data["product"].price)

    def perform_destroy(self, instance: OrderLine) -> None:
        """Remove a line of a draft."""
        self.get_draft()
        instance.delete()
