"""Products, who makes them, what they cost for now, and what people say about them."""

from django.conf import settings
from django.db import models


class Category(models.Model):
    """A kind of products, perhaps below another one."""

    name = models.CharField(max_length=60, unique=True)
    parent = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True, related_name="children")

    def __str__(self) -> str:
        return self.name


class Supplier(models.Model):
    """Who delivers products."""

    name = models.CharField(max_length=80, unique=True)
    country = models.CharField(max_length=2, help_text="ISO 3166 code, such as NO")
    email = models.EmailField(blank=True)

    def __str__(self) -> str:
        return self.name


class Product(models.Model):
    """Something that is sold."""

    sku = models.CharField(max_length=20, unique=True, help_text="The shop's own number, such as BOLT-000042")
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True)
    category = models.ForeignKey(Category, on_delete=models.PROTECT, related_name="products")
    supplier = models.ForeignKey(Supplier, on_delete=models.PROTECT, related_name="products")
    price = models.DecimalField(max_digits=10, decimal_places=2, db_index=True)
    is_sold = models.BooleanField(default=True)

    class Meta:
        """Options."""

        ordering = ("id",)

    def __str__(self) -> str:
        return self.sku


class Photo(models.Model):
    """A picture of a product."""

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="photos")
    file = models.FileField(upload_to="photos")
    caption = models.CharField(max_length=120, blank=True)


class Offer(models.Model):
    """A price for some time: so many per cent less, or so many pieces for one price."""

    class Kind(models.TextChoices):
        """What an offer changes."""

        PERCENT = "percent"
        BUNDLE = "bundle"

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="offers")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    percent = models.PositiveSmallIntegerField(null=True)
    pieces = models.PositiveSmallIntegerField(null=True)
    bundle_price = models.DecimalField(max_digits=10, decimal_places=2, null=True)
    until = models.DateField()


class Review(models.Model):
    """What a customer says about a product."""

    product = models.ForeignKey(Product, on_delete=models.CASCADE, related_name="reviews")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    stars = models.PositiveSmallIntegerField(choices=[(n, str(n)) for n in range(1, 6)])
    text = models.TextField(blank=True, max_length=2000)
    written = models.DateTimeField(auto_now_add=True)
