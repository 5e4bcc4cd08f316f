# --8<-- [start:server]
from books import services
from rest_framework.authentication import TokenAuthentication
from rest_framework.request import Request
from rest_framework_mcp import MCPServer
from rest_framework_mcp.auth.backends import AllowAnyBackend
from rest_framework_mcp.auth.types import TokenInfo


class TokenBackend(AllowAnyBackend):
    def authenticate(self, request):
        user = Request(request, authenticators=[TokenAuthentication()]).user
        return TokenInfo(user=user, scopes=()) if user.is_authenticated else None


mcp = MCPServer(name="books", auth_backend=TokenBackend())
mcp.register_selector_tool(name="book_list", spec=services.BOOKS, description="Books of the shop.", paginate=True)
mcp.register_service_tool(name="book_create", spec=services.ADD_BOOK, description="Add a book.")
# --8<-- [end:server]
