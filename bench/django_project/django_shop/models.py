"""Products."""

from __future__ import annotations

from django.db import models


class Product(models.Model):
    """Something that is sold."""

    name = models.CharField(max_length=80)
    price = models.DecimalField(max_digits=10, decimal_places=2)
    pieces = models.IntegerField()
