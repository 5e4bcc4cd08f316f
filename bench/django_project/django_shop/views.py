"""The view that is measured."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers, viewsets

from django_shop.models import Product


class ProductSerializer(serializers.ModelSerializer[Any]):
    """A product as clients see it."""

    class Meta:
        """Options."""

        model = Product
        fields = ("id", "name", "price", "pieces")


class ProductViewSet(viewsets.ModelViewSet[Any]):
    """Products."""

    queryset = Product.objects.order_by("id")
    serializer_class = ProductSerializer
