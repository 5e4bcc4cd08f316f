"""A project with books, whose tools are in the application that is named: ``python django_books.py with_ferrule``.

It prints the names of the tools, and what calls of them give.
"""

import json
import logging
import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.urls import include, path

CHOICE = sys.argv[1]
LIBRARY = {
    "with_ferrule": "ferrule.django",
    "with_ferrule_services": "ferrule.django",
    "with_django_mcp_server": "mcp_server",
    "with_services": "rest_framework_mcp",
}[CHOICE]
TOKENS = ["rest_framework.authentication.TokenAuthentication"]

folder = tempfile.TemporaryDirectory()
settings.configure(
    SECRET_KEY="only for this page",
    ALLOWED_HOSTS=["testserver"],
    ROOT_URLCONF="django_books",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "rest_framework",
        "rest_framework.authtoken",
        "books",
        CHOICE,
        *([] if CHOICE == "with_services" else [LIBRARY]),
    ],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder.name) / "books.sqlite3")}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": TOKENS,
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
        "PAGE_SIZE": 2,
    },
    MCP={"NAME": "books"},
    DJANGO_MCP_AUTHENTICATION_CLASSES=TOKENS,
    DJANGO_MCP_GLOBAL_SERVER_CONFIG={"name": "books", "stateless": True},
    LOGGING_CONFIG=None,
)
sys.modules["django_books"] = sys.modules["__main__"]
django.setup()
logging.disable(logging.CRITICAL)

from books.views import BookViewSet
from rest_framework.routers import SimpleRouter

router = SimpleRouter()
router.register("books", BookViewSet)
urlpatterns = [path("api/", include(router.urls))]
if LIBRARY == "mcp_server":
    urlpatterns.append(path("", include("mcp_server.urls")))
elif LIBRARY == "rest_framework_mcp":
    from with_services.mcp import mcp

    urlpatterns.append(path("mcp/", mcp.urls))
else:
    from ferrule.django import mcp

    urlpatterns.append(path("mcp/", mcp.urls))


def main() -> None:
    from books.models import Book
    from django.contrib.auth.models import User
    from django.core.management import call_command
    from django.test import Client
    from rest_framework.authtoken.models import Token

    call_command("migrate", run_syncdb=True, verbosity=0)
    Book.objects.bulk_create(Book(title=title, price=9) for title in ("Emma", "Faust", "Nana"))
    client = Client(headers={"authorization": f"Token {Token.objects.create(user=User.objects.create()).key}"})

    def ask(method: str, **params: object) -> dict:
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        if LIBRARY != "mcp_server":  # it knows the older era only
            headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
            headers |= {"mcp-name": str(params["name"])} if "name" in params else {}
            prefix = "io.modelcontextprotocol/"
            params["_meta"] = {f"{prefix}protocolVersion": "2026-07-28", f"{prefix}clientCapabilities": {}}
        answer = client.post(
            "/mcp" if LIBRARY == "mcp_server" else "/mcp/",
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}),
            content_type="application/json",
            headers=headers,
        )
        return json.loads(answer.content)

    def call(name: str, **arguments: object) -> str:
        result = ask("tools/call", name=name, arguments=arguments)
        if "error" in result:
            return f"error: {result['error']['message']}"
        result = result["result"]
        return ("error: " if result.get("isError") else "") + " ".join(part["text"] for part in result["content"])

    print([tool["name"] for tool in ask("tools/list")["result"]["tools"]])
    print(" ".join(call("book_list").split()))
    if LIBRARY == "mcp_server":
        print(call("count_books"))
        return
    print(" ".join(call("book_create", title="Ulysses", price="12.50").split()))
    print(" ".join(call("book_create", title="U" * 81, price="12.50").split()))
    if CHOICE == "with_ferrule":
        print(call("count_books"))


if __name__ == "__main__":
    main()
