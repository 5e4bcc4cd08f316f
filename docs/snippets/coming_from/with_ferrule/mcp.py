# --8<-- [start:server]
from books.models import Book
from books.views import BookViewSet

from ferrule.django import mcp

mcp.expose(BookViewSet, actions=["list", "create"], describe={"book_create": "Add a book."})


@mcp.tool
def count_books() -> int:
    """Count the books."""
    return Book.objects.count()


# --8<-- [end:server]
