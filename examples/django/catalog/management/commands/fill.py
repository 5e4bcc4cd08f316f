"""``manage.py fill``: a catalogue of any size, with stock, and two users."""

from __future__ import annotations

import random
import time
from argparse import ArgumentParser
from decimal import Decimal
from typing import Any

from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone
from rest_framework.authtoken.models import Token
from sales.models import Address
from stock.models import Stock, Warehouse

from catalog.models import Category, Offer, Product, Supplier

BATCH = 5000
KINDS = ("bolt", "nut", "washer", "hinge", "ferrule", "bracket", "rivet", "spring", "dowel", "clamp")
METALS = ("brass", "steel", "zinc", "copper", "bronze", "titanium")
SIZES = range(2, 42, 2)


class Command(BaseCommand):
    """Fill the database."""

    help = "Fill an empty database: products with stock, the customer ada and the member of the staff sam"

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--products", type=int, default=100_000)
        parser.add_argument("--password", default="tell nobody", help="of both users")

    @transaction.atomic
    def handle(self, *args: Any, products: int, password: str, **options: Any) -> None:
        """Fill the database, in one transaction."""
        if Product.objects.exists():
            raise CommandError("There are products already")
        begun = time.perf_counter()
        self.make_users(password)
        chance = random.Random(7)  # the same catalogue each time
        categories = Category.objects.bulk_create(Category(name=f"{kind}s") for kind in KINDS)
        suppliers = Supplier.objects.bulk_create(Supplier(name=f"Works {n}", country="NO") for n in range(1, 41))
        warehouses = Warehouse.objects.bulk_create(
            Warehouse(code=code, city=city)
            for code, city in (("OSL", "Oslo"), ("GOT", "Gothenburg"), ("AAR", "Aarhus"))
        )
        made: list[Product] = []
        for number in range(1, products + 1):
            place = chance.randrange(len(KINDS))
            made.append(
                Product(
                    sku=f"{KINDS[place].upper()}-{number:06}",
                    name=f"{chance.choice(METALS)} {KINDS[place]} M{chance.choice(SIZES)}",
                    description=f"Number {number} of the catalogue.",
                    category=categories[place],
                    supplier=chance.choice(suppliers),
                    price=Decimal(chance.randint(5, 50_000)) / 100,
                )
            )
        made = Product.objects.bulk_create(made, batch_size=BATCH)
        Stock.objects.bulk_create(
            (
                Stock(warehouse=chance.choice(warehouses), product=product, pieces=chance.randint(0, 200))
                for product in made
            ),
            batch_size=BATCH,
        )
        today = timezone.now().date()
        Offer.objects.create(product=made[0], kind="percent", percent=10, until=today)
        Offer.objects.create(product=made[-1], kind="bundle", pieces=10, bundle_price=Decimal("9.90"), until=today)
        self.stdout.write(f"{products} products in {time.perf_counter() - begun:.1f} s")

    def make_users(self, password: str) -> None:
        """Make ada, who buys, and sam, who works here; print their tokens."""
        users: Any = get_user_model().objects
        for user in (users.create_user("ada", password=password), users.create_superuser("sam", password=password)):
            token, _ = Token.objects.get_or_create(user=user)
            self.stdout.write(f"{user.get_username()}: Token {token.key}")
        ada = users.get(username="ada")
        Address.objects.create(owner=ada, name="Ada", street="Gaten 1", city="Oslo", country="NO")
