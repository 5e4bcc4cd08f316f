"""Viewsets of products and what belongs to them."""

from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.pagination import CursorPagination, LimitOffsetPagination
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import IsAdminUser, IsAuthenticated
from rest_framework.response import Response
from rest_framework.throttling import ScopedRateThrottle

from catalog import serializers
from catalog.filters import ProductFilter
from catalog.models import Category, Offer, Photo, Product, Review, Supplier
from catalog.permissions import AuthorWrites, StaffWrites


class ByLimit(LimitOffsetPagination):
    """Pages by ``limit`` and ``offset``."""

    default_limit = 50
    max_limit = 200


class Newest(CursorPagination):
    """Pages by a cursor, the newest first."""

    page_size = 10
    ordering = "-id"


class CategoryViewSet(viewsets.ReadOnlyModelViewSet):
    """Kinds of products."""

    queryset = Category.objects.order_by("name")
    serializer_class = serializers.CategorySerializer
    pagination_class = ByLimit
    search_fields = ("name",)


class SupplierViewSet(viewsets.ModelViewSet):
    """Who delivers products."""

    queryset = Supplier.objects.order_by("name")
    serializer_class = serializers.SupplierSerializer
    permission_classes = (IsAdminUser,)
    filterset_fields = ("country",)


# --8<-- [start:products]
class ProductViewSet(viewsets.ModelViewSet):
    """Products. Find them by words in name and number, by price and category."""

    queryset = Product.objects.all()
    permission_classes = (IsAuthenticated, StaffWrites)
    lookup_field = "sku"
    lookup_value_regex = "[^/]+"
    filterset_class = ProductFilter
    search_fields = ("name", "sku")
    ordering_fields = ("price", "name")

    def get_queryset(self) -> Any:
        """Return what is sold; all products for the staff."""
        products = super().get_queryset().select_related("category", "supplier")
        if self.action != "list":
            products = products.prefetch_related("stocks")
        return products if self.request.user.is_staff else products.filter(is_sold=True)  # type: ignore[union-attr]

    def get_serializer_class(self) -> Any:
        """Return a short form for lists."""
        return serializers.ProductRowSerializer if self.action == "list" else serializers.ProductSerializer

    @extend_schema(request=serializers.PriceSerializer)
    @action(detail=True, methods=["post"], permission_classes=[IsAdminUser])
    def reprice(self, request: Any, sku: str) -> Response:
        """Set the price of a product."""
        product = self.get_object()
        given = serializers.PriceSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        product.price = given.validated_data["price"]
        product.save(update_fields=["price"])
        return Response(self.get_serializer(product).data)

    # --8<-- [end:products]


class OfProduct(viewsets.GenericViewSet):
    """What belongs to one product, whose number is in the path."""

    def get_product(self) -> Product:
        """Return the product; 404 if there is none."""
        return get_object_or_404(Product, sku=self.kwargs["product_sku"])

    def get_queryset(self) -> Any:
        """Return what belongs to the product."""
        return super().get_queryset().filter(product__sku=self.kwargs.get("product_sku"))

    def perform_create(self, serializer: Any) -> None:
        """Save it for the product."""
        serializer.save(product=self.get_product())


class PhotoViewSet(
    OfProduct, mixins.CreateModelMixin, mixins.ListModelMixin, mixins.DestroyModelMixin, viewsets.GenericViewSet
):
    """Pictures of a product."""

    queryset = Photo.objects.order_by("id")
    serializer_class = serializers.PhotoSerializer
    parser_classes = (MultiPartParser,)
    permission_classes = (IsAuthenticated, StaffWrites)
    pagination_class = ByLimit


@extend_schema_view(
    list=extend_schema(responses=serializers.any_offer(many=True)),
    retrieve=extend_schema(responses=serializers.any_offer()),
    create=extend_schema(request=serializers.any_offer(), responses={201: serializers.any_offer()}),
)
class OfferViewSet(mixins.CreateModelMixin, mixins.ListModelMixin, mixins.RetrieveModelMixin, viewsets.GenericViewSet):
    """Prices for some time: so many per cent less, or so many pieces for one price."""

    queryset = Offer.objects.select_related("product").order_by("id")
    permission_classes = (IsAuthenticated, StaffWrites)
    filterset_fields = ("kind", "product")

    def get_serializer_class(self) -> Any:
        """Return the form that the body asks for."""
        body: Any = self.request.data
        return serializers.OFFERS.get(str(body.get("kind")), serializers.PercentOfferSerializer)

    def list(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Offers, each in the form of its kind."""
        page = self.paginate_queryset(self.filter_queryset(self.get_queryset()))
        assert page is not None
        return self.get_paginated_response([self.as_data(offer) for offer in page])

    def retrieve(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Return one offer."""
        return Response(self.as_data(self.get_object()))

    def as_data(self, offer: Offer) -> Any:
        """Return an offer in the form of its kind."""
        return serializers.OFFERS[offer.kind](offer, context=self.get_serializer_context()).data


class ReviewViewSet(OfProduct, viewsets.ModelViewSet):
    """What customers say about a product."""

    queryset = Review.objects.select_related("author")
    serializer_class = serializers.ReviewSerializer
    permission_classes = (IsAuthenticated, AuthorWrites)
    pagination_class = Newest
    throttle_classes = (ScopedRateThrottle,)
    filter_backends = ()

    @property
    def throttle_scope(self) -> str | None:
        """Only writing is limited."""
        return "reviews" if self.request.method not in ("GET", "HEAD", "OPTIONS") else None

    def perform_create(self, serializer: Any) -> None:
        """Save a review of the user."""
        serializer.save(product=self.get_product(), author=self.request.user)
