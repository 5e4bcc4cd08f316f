"""Warehouses, what they hold, and what went in and out."""

from catalog.models import Product
from django.db import models


class Warehouse(models.Model):
    """A place with products."""

    code = models.CharField(max_length=8, unique=True)
    city = models.CharField(max_length=60)

    def __str__(self) -> str:
        return self.code


class Stock(models.Model):
    """Pieces of a product in a warehouse."""

    warehouse = models.ForeignKey(Warehouse, on_delete=models.CASCADE, related_name="stocks")
    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="stocks")
    pieces = models.PositiveIntegerField(default=0)

    class Meta:
        """Options."""

        constraints = (models.UniqueConstraint(fields=("warehouse", "product"), name="one_stock_of_a_product"),)


class Movement(models.Model):
    """Pieces that came (positive) or went."""

    stock = models.ForeignKey(Stock, on_delete=models.CASCADE, related_name="movements")
    pieces = models.IntegerField()
    reason = models.CharField(max_length=80)
    at = models.DateTimeField(auto_now_add=True)
