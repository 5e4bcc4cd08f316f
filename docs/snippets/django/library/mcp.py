# --8<-- [start:version]
from ferrule.django import mcp
from library import views

mcp.expose(views.BookViewSet, actions=["create"], version="2")
# --8<-- [end:version]

# --8<-- [start:user]
from django.contrib.auth.models import User

mcp.expose(views.PurchaseViewSet, actions=["create"], describe_as=lambda: User(is_staff=True))
# --8<-- [end:user]

# --8<-- [start:services]
from library import services

mcp.add_service("add_book", services.ADD_BOOK)
mcp.add_service("long_books", services.LONG_BOOKS)
# --8<-- [end:services]

# --8<-- [start:ninja]
from library.api import api

mcp.expose(api)
# --8<-- [end:ninja]

# --8<-- [start:permissions]
from ferrule.django.permissions import has_perm, in_group, is_staff, user_passes
from library.models import Book


@mcp.tool(allow=has_perm("library.view_book"))
def count_books() -> int:
    """Count the books."""
    return Book.objects.count()


@mcp.tool(allow=is_staff)
def count_users() -> int:
    """Count the users."""
    return User.objects.count()


@mcp.tool(allow=in_group("librarians"))
def count_pages() -> int:
    """Count the pages of all books."""
    return sum(Book.objects.values_list("pages", flat=True))


@mcp.tool(allow=user_passes(lambda user: user.email.endswith("@library.example")))
def desk_number() -> str:
    """Return the telephone number of the library, for its staff."""
    return "217"


# --8<-- [end:permissions]
