# --8<-- [start:server]
from books.models import Book
from books.views import BookViewSet
from mcp_server import MCPToolset, drf_publish_create_mcp_tool, drf_publish_list_mcp_tool

drf_publish_list_mcp_tool(BookViewSet, name="book_list", actions={"get": "list"}, instructions="Books of the shop.")
drf_publish_create_mcp_tool(BookViewSet, name="book_create", actions={"post": "create"}, instructions="Add a book.")


class BookTools(MCPToolset):
    def count_books(self) -> int:
        """Count the books."""
        return Book.objects.count()


# --8<-- [end:server]
