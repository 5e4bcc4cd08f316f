"""What the application keeps."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db import models


class Invoice(models.Model):
    """What a customer owes."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    title = models.CharField(max_length=80)
    amount = models.DecimalField(max_digits=10, decimal_places=2)
    paid = models.BooleanField(default=False)


class Shelf(models.Model):
    """Where books stand."""

    slug = models.SlugField(unique=True)
    label = models.CharField(max_length=40, blank=True)


class Book(models.Model):
    """What stands on a shelf."""

    class Kind(models.TextChoices):
        """Kinds of books."""

        NOVEL = "novel", "A novel"
        ATLAS = "atlas", "An atlas"

    shelf = models.ForeignKey(Shelf, on_delete=models.CASCADE, related_name="books")
    code = models.UUIDField(default=uuid.uuid4)
    title = models.CharField(max_length=80)
    kind = models.CharField(max_length=8, choices=Kind.choices, default=Kind.NOVEL)
    price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
    cover = models.FileField(upload_to="covers", blank=True)
