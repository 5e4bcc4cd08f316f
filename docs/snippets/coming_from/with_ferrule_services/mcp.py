# --8<-- [start:server]
from books import services

from ferrule.django import mcp

mcp.add_service("book_list", services.BOOKS, describe={"book_list": "Books of the shop."})
mcp.add_service("book_create", services.ADD_BOOK, describe={"book_create": "Add a book."})
# --8<-- [end:server]
