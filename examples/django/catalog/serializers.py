"""Products and what belongs to them, as clients see them."""

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers

from catalog.models import Category, Offer, Photo, Product, Review, Supplier


class CategorySerializer(serializers.ModelSerializer):
    """A kind of products."""

    class Meta:
        """Options."""

        model = Category
        fields = ("id", "name", "parent")


class SupplierSerializer(serializers.ModelSerializer):
    """Who delivers products."""

    class Meta:
        """Options."""

        model = Supplier
        fields = ("id", "name", "country", "email")


class ProductRowSerializer(serializers.ModelSerializer):
    """A product in a list."""

    category = serializers.SlugRelatedField("name", read_only=True)

    class Meta:
        """Options."""

        model = Product
        fields = ("sku", "name", "price", "category")


class ProductSerializer(serializers.ModelSerializer):
    """A product with all that is known about it."""

    category = serializers.SlugRelatedField("name", queryset=Category.objects.all())
    supplier = serializers.SlugRelatedField("name", queryset=Supplier.objects.all())
    pieces_in_stock = serializers.SerializerMethodField()

    class Meta:
        """Options."""

        model = Product
        fields = ("sku", "name", "description", "category", "supplier", "price", "is_sold", "pieces_in_stock")

    def get_pieces_in_stock(self, product: Product) -> int:
        """Return the pieces in all warehouses."""
        return sum(stock.pieces for stock in product.stocks.all())  # type: ignore[attr-defined]


class PriceSerializer(serializers.Serializer):
    """A new price."""

    price = serializers.DecimalField(max_digits=10, decimal_places=2, min_value=0)


class PhotoSerializer(serializers.ModelSerializer):
    """A picture of a product."""

    class Meta:
        """Options."""

        model = Photo
        fields = ("id", "file", "caption")


class PercentOfferSerializer(serializers.ModelSerializer):
    """So many per cent less."""

    kind = serializers.ChoiceField(choices=["percent"])
    percent = serializers.IntegerField(min_value=1, max_value=90)

    class Meta:
        """Options."""

        model = Offer
        fields = ("id", "product", "kind", "percent", "until")


class BundleOfferSerializer(serializers.ModelSerializer):
    """So many pieces for one price."""

    kind = serializers.ChoiceField(choices=["bundle"])
    pieces = serializers.IntegerField(min_value=2)
    bundle_price = serializers.DecimalField(max_digits=10, decimal_places=2)

    class Meta:
        """Options."""

        model = Offer
        fields = ("id", "product", "kind", "pieces", "bundle_price", "until")


OFFERS = {"percent": PercentOfferSerializer, "bundle": BundleOfferSerializer}


def any_offer(*, many: bool | None = None) -> Any:
    """Describe an offer of either kind."""
    return PolymorphicProxySerializer("Offer", OFFERS, resource_type_field_name="kind", many=many)


class ReviewSerializer(serializers.ModelSerializer):
    """What a customer says about a product."""

    author = serializers.CharField(source="author.username", read_only=True)

    class Meta:
        """Options."""

        model = Review
        fields = ("id", "author", "stars", "text", "written")
