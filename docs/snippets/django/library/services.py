from dataclasses import dataclass
from typing import Any

from rest_framework.permissions import IsAuthenticated

from library.models import Book
from library.views import BookSerializer, LongBookSerializer


# --8<-- [start:specs]
@dataclass(frozen=True)
class ServiceSpec:
    service: Any
    input_serializer: Any
    output_serializer: Any
    permission_classes: Any = (IsAuthenticated,)


@dataclass(frozen=True)
class SelectorSpec:
    selector: Any
    kind: str  # "list" or "retrieve"
    output_serializer: Any
    permission_classes: Any = (IsAuthenticated,)


def add_book(*, data, user):
    """Add a book to the library."""
    return Book.objects.create(**data)


def long_books(*, at_least: int):
    """List the books with so many pages or more."""
    return Book.objects.filter(pages__gte=at_least).order_by("id")


ADD_BOOK = ServiceSpec(add_book, LongBookSerializer, BookSerializer)
LONG_BOOKS = SelectorSpec(long_books, "list", LongBookSerializer)
# --8<-- [end:specs]
