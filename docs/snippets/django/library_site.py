"""A project with the application ``library``: ``python library_site.py`` prints its tools and what they give."""

import json
import logging
import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.urls import include, path

folder = tempfile.TemporaryDirectory()
settings.configure(
    SECRET_KEY="only for this page",
    ROOT_URLCONF="library_site",
    ALLOWED_HOSTS=["testserver"],
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "rest_framework",
        "rest_framework.authtoken",
        "ferrule.django",
        "library",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": str(Path(folder.name) / "books.sqlite3")}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
        "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
        "PAGE_SIZE": 10,
    },
    MCP={"NAME": "library"},
    LOGGING_CONFIG=None,
)
sys.modules["library_site"] = sys.modules["__main__"]
django.setup()
logging.disable(logging.CRITICAL)

from library.api import api
from library.views import BookViewSet, PurchaseViewSet
from rest_framework.routers import SimpleRouter

from ferrule.django import mcp

router = SimpleRouter()
router.register("books", BookViewSet, basename="book")
router.register("purchases", PurchaseViewSet, basename="purchase")
urlpatterns = [path("api/", include(router.urls)), path("staff/", api.urls), path("mcp/", mcp.urls)]


def main() -> None:
    from django.contrib.auth.models import Group, Permission, User
    from django.core.management import call_command

    from ferrule.django.testing import MCPClient

    call_command("migrate", run_syncdb=True, verbosity=0)
    reader = User.objects.create(username="reader")
    reader.user_permissions.add(Permission.objects.get(codename="view_book"))
    colleague = User.objects.create(username="colleague", email="ada@library.example")
    colleague.groups.add(Group.objects.create(name="librarians"))
    staff = User.objects.create(username="staff", is_staff=True)
    for user in (reader, colleague, staff):
        print(user.username, sorted(MCPClient(user).tool_names()))

    client = MCPClient(staff)
    tools = {tool.name: tool for tool in client.list_tools()}
    for name in ("book_create", "purchase_create", "add_book", "long_books"):
        print(name, sorted(tools[name].input_schema["properties"]))
    print(json.dumps(client.call("book_create", title="Emma", pages=474)))
    print(json.dumps(client.call("purchase_create", title="Faust", cost="9.00")))
    print(json.dumps(client.call("add_book", title="Ulysses", pages=730)))
    print(json.dumps(client.call("long_books", at_least=500)["results"]))
    print(json.dumps(client.call("opening_hours", day="sunday")))


if __name__ == "__main__":
    main()
