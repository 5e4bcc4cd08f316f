"""Orders, their lines, and where they go."""

from catalog.models import Product
from django.conf import settings
from django.db import models


class Address(models.Model):
    """Where a customer wants things."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="addresses")
    name = models.CharField(max_length=80)
    street = models.CharField(max_length=120)
    city = models.CharField(max_length=60)
    country = models.CharField(max_length=2)


class Order(models.Model):
    """What a customer buys at once."""

    class State(models.TextChoices):
        """How far an order is."""

        DRAFT = "draft"
        PLACED = "placed"
        CANCELLED = "cancelled"

    customer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="orders")
    address = models.ForeignKey(Address, on_delete=models.PROTECT)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT)
    note = models.CharField(max_length=200, blank=True)
    made = models.DateTimeField(auto_now_add=True)


class OrderLine(models.Model):
    """Pieces of one product in an order."""

    order = models.ForeignKey(Order, on_delete=models.CASCADE, related_name="lines")
    product = models.ForeignKey(Product, on_delete=models.PROTECT)
    pieces = models.PositiveIntegerField()
    price = models.DecimalField(max_digits=10, decimal_places=2)
