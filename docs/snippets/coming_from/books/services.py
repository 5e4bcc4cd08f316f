from rest_framework.permissions import IsAuthenticated
from rest_framework_services.types.selector_kind import SelectorKind
from rest_framework_services.types.selector_spec import SelectorSpec
from rest_framework_services.types.service_spec import ServiceSpec

from books.models import Book
from books.views import BookSerializer


def books():
    return Book.objects.order_by("id")


def add_book(*, data):
    return Book.objects.create(**data)


BOOKS = SelectorSpec(
    kind=SelectorKind.LIST,
    selector=books,
    output_serializer=BookSerializer,
    permission_classes=[IsAuthenticated],
)
ADD_BOOK = ServiceSpec(
    service=add_book,
    input_serializer=BookSerializer,
    output_selector_spec=SelectorSpec(kind=SelectorKind.RETRIEVE, output_serializer=BookSerializer),
    permission_classes=[IsAuthenticated],
)
