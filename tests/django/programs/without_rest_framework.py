"""A project without Django REST framework: functions as tools, and the users and sessions of Django.

Usage: without_rest_framework.py ADDRESS. Prints what its commands and its client in process say, as one JSON object,
and serves.
"""

# ruff: noqa: E402  # Django is set up before its applications are imported

from __future__ import annotations

import io
import json
import sys
import tempfile
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

blocked: Any = None
for package in ("rest_framework", "drf_spectacular", "django_filters"):
    sys.modules[package] = blocked  # as if it were not installed

import django
from django.conf import settings

folder = tempfile.TemporaryDirectory()
settings.configure(
    SECRET_KEY="only for tests, and long enough for a key of 32 bytes",
    DEBUG=True,
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="without_rest_framework_urls",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "django.contrib.sessions",
        "ferrule.django",
    ],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(Path(folder.name) / "db.sqlite3"),
            "OPTIONS": {"timeout": 60},
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    MCP={
        "NAME": "plain",
        "AUTHENTICATION": ["without_rest_framework_urls.user_of"],
        "SESSION_AUTHENTICATION": True,
    },
)


def user_of(request: Any) -> Any:
    """Return the user whose name is the token."""
    from django.contrib.auth.models import User

    kind, _, name = request.headers.get("authorization", "").partition(" ")
    return User.objects.filter(username=name).first() if kind == "Token" else None


urls: Any = ModuleType("without_rest_framework_urls")
urls.user_of = user_of
sys.modules["without_rest_framework_urls"] = urls
django.setup()

from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.middleware.csrf import _get_new_csrf_string
from django.test import Client
from django.urls import path

from ferrule import Context
from ferrule.django import mcp
from ferrule.django.permissions import is_staff
from ferrule.django.testing import MCPClient


@mcp.tool
def where(ctx: Context) -> str:
    """Return who calls."""
    return str(ctx.principal.user.username)


@mcp.tool
def count_users() -> int:
    """Count the users."""
    return User.objects.count()


@mcp.tool(allow=is_staff)
def for_staff() -> str:
    """For staff."""
    return "for staff"


urls.urlpatterns = [path("mcp/", mcp.urls), path(".well-known/", mcp.well_known)]


def command(*words: str, **options: Any) -> str:
    """Return what a command of ``manage.py`` prints, or its error."""
    out = io.StringIO()
    try:
        with redirect_stdout(out):
            call_command(*words, **options)
    except CommandError as error:
        return str(error)
    return out.getvalue()


def answer(client: Client, **headers: str) -> Any:
    """Return status, challenge and error message of a list."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": meta}}
    given = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
        **headers,
    }
    found: Any = client.post("/mcp/", json.dumps(body), content_type="application/json", headers=given)
    message = found.json().get("error", {}).get("message")
    return [found.status_code, found.headers.get("www-authenticate"), message]


def exposed(target: Any) -> str:
    """Return the error with which something is no tool."""
    try:
        mcp.expose(target)
    except (TypeError, ImportError) as error:
        return f"{type(error).__name__}: {error}"
    return "exposed"


call_command("migrate", verbosity=0)
ada = User.objects.create_user("ada", is_staff=True)
bob = User.objects.create_user("bob")
signed_in = Client(enforce_csrf_checks=True)
signed_in.force_login(ada)
signed_in.cookies["csrftoken"] = csrf = _get_new_csrf_string()
seen: dict[str, Any] = {
    "check": command("check"),
    "list": command("mcp", "list", user="bob"),
    "token": command("mcp", "token", "bob"),
    "tools": [sorted(MCPClient(user).tool_names()) for user in (ada, bob)],
    "anonymous": answer(Client()),
    "wrong": answer(Client(), authorization="Token nobody"),
    "right": answer(Client(), authorization="Token ada")[0],
    "session": [answer(signed_in, **{"x-csrftoken": token}) for token in ("x" * 32, csrf)],
    "metadata": Client().get("/.well-known/oauth-protected-resource").status_code,
    "exposed": exposed(lambda request: None),
}
if find_spec("ninja") is not None:
    from ninja import NinjaAPI

    api = NinjaAPI()

    @api.get("/hello", operation_id="hello", auth=None)
    def hello(request: Any) -> dict[str, str]:
        """Return the user."""
        return {"user": str(request.user)}

    urls.urlpatterns.append(path("api/", api.urls))
    mcp.expose(api)
    seen["ninja"] = MCPClient(ada).call("hello")
seen["imported"] = sorted(name for name in sys.modules if name.startswith("rest_framework") and sys.modules[name])
print(json.dumps(seen), flush=True)
if len(sys.argv) > 1:
    call_command("runserver", sys.argv[1], use_reloader=False)
