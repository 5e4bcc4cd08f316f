"""Filters of products, which are arguments of the tool."""

from typing import Any

import django_filters

from catalog.models import Product


class ProductFilter(django_filters.FilterSet):
    """Price from and to, kind, and whether there is any."""

    price_min = django_filters.NumberFilter(field_name="price", lookup_expr="gte", help_text="the lowest price")
    price_max = django_filters.NumberFilter(field_name="price", lookup_expr="lte", help_text="the highest price")
    category = django_filters.CharFilter(field_name="category__name", help_text="name of the category")
    in_stock = django_filters.BooleanFilter(method="filter_in_stock", help_text="only what can be delivered now")

    class Meta:
        """Options."""

        model = Product
        fields = ("price_min", "price_max", "category", "in_stock")

    def filter_in_stock(self, queryset: Any, name: str, value: bool) -> Any:
        """Keep products of which a warehouse has any, or none."""
        from django.db.models import Exists, OuterRef
        from stock.models import Stock

        has_any = Exists(Stock.objects.filter(product=OuterRef("pk"), pieces__gt=0))
        return queryset.filter(has_any if value else ~has_any)
