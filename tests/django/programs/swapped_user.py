"""A project whose user model is its own, with UUIDs as keys; prints what its server does with the users."""

# ruff: noqa: E402  # Django is set up before its applications are imported

from __future__ import annotations

import asyncio
import io
import json
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import django
from django.conf import settings

folder = tempfile.TemporaryDirectory()
settings.configure(
    SECRET_KEY="only for tests, and long enough for a key of 32 bytes",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="swapped_user_urls",
    AUTH_USER_MODEL="accounts.Account",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "rest_framework",
        "rest_framework.authtoken",
        "ferrule.django",
        "accounts",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(Path(folder.name) / "db.sqlite3"),
            "OPTIONS": {"timeout": 60},  # threads of requests, of the store and of the task write to it
        }
    },
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    REST_FRAMEWORK={
        "DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    },
    USE_TZ=True,
    MCP={"NAME": "accounts"},
)
django.setup()

from accounts.models import Account
from django.core.management import call_command
from django.test import AsyncClient
from django.urls import path
from rest_framework import serializers, viewsets
from rest_framework.authtoken.models import Token
from rest_framework.routers import SimpleRouter

from ferrule import Client as Connected
from ferrule import Context
from ferrule.django import DjangoPrincipal, mcp
from ferrule.django.models import SessionRow, TaskRow
from ferrule.django.permissions import user_passes
from ferrule.django.testing import MCPClient
from ferrule.protocol.errors import RemoteError


class AccountSerializer(serializers.ModelSerializer[Account]):
    """A user as clients see it."""

    class Meta:
        """Options."""

        model = Account
        fields = ("id", "email")


class AccountViewSet(viewsets.ReadOnlyModelViewSet[Account]):
    """The user's own account."""

    queryset = Account.objects.all()

    def get_serializer_class(self) -> Any:
        """Return the serializer; fails for a user without an address."""
        user: Any = self.request.user
        assert user.email is not None
        return AccountSerializer

    def get_queryset(self) -> Any:
        """Return the own account."""
        return Account.objects.filter(pk=self.request.user.pk)


mcp.expose(AccountViewSet)


@mcp.tool
def who(ctx: Context) -> str:
    """Return who calls."""
    return f"{ctx.principal.id} {ctx.principal.user.email}"


@mcp.tool
async def count(ctx: Context) -> int:
    """Count the calls of the session."""
    ctx.session_state["number"] = number = ctx.session_state.get("number", 0) + 1
    return number


@mcp.tool(task="required")
def work(ctx: Context) -> str:
    """Work as a task."""
    return str(ctx.principal.user.email)


@mcp.tool(allow=user_passes(lambda user: user.email.startswith("ada")))
def for_ada() -> str:
    """For one user."""
    return ""


router = SimpleRouter()
router.register("accounts", AccountViewSet)
urls: Any = ModuleType("swapped_user_urls")
urls.urlpatterns = [*router.urls, path("mcp/", mcp.urls)]
sys.modules["swapped_user_urls"] = urls

call_command("migrate", run_syncdb=True, verbosity=0)
ada, bob = (Account.objects.create_user(f"{name}@example.com") for name in ("ada", "bob"))
headers = {user: {"authorization": f"Token {Token.objects.create(user=user).key}"} for user in (ada, bob)}


def command(*words: str, **options: Any) -> str:
    """Return what ``manage.py mcp`` prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        call_command("mcp", *words, **options)
    return out.getvalue()


async def sessions() -> list[Any]:
    """Return what the owner of a legacy session and another user get; ASGI hosts have sessions."""

    async def ask(user: Account, method: str, params: dict[str, Any]) -> Any:
        sent = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-11-25",
            **({} if session is None else {"mcp-session-id": session}),
            **headers[user],
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await AsyncClient().post("/mcp/", json.dumps(body), content_type="application/json", headers=sent)

    session: str | None = None
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    session = (await ask(ada, "initialize", hello)).headers["mcp-session-id"]
    answers = [await ask(user, "tools/call", {"name": "count", "arguments": {}}) for user in (ada, bob, ada)]
    rows = SessionRow.objects.values_list("value", flat=True)
    owners = [json.loads(bytes(value))["principal"] async for value in rows]
    counts = [
        answer.json()["result"]["structuredContent"]["result"] if answer.status_code == 200 else answer.status_code
        for answer in answers
    ]
    return [*counts, *owners]


def tasks() -> dict[str, Any]:
    """Return the owner and the result of a task, and what another user gets."""

    async def start(client: Connected) -> str:
        handle = await client.start_tool("work", {})
        await handle.result()
        return str(handle.task_id)

    async def look(client: Connected) -> str:
        found = await client.task(task_id, tool="work").result()
        return found.text

    task_id = MCPClient(http=True, headers=headers[ada]).run(start)
    of_ada = MCPClient(http=True, headers=headers[ada]).run(look)
    try:
        of_bob = MCPClient(http=True, headers=headers[bob]).run(look)
    except RemoteError as error:
        of_bob = str(error)
    owners = [bytes(owner).decode() for owner in TaskRow.objects.values_list("owner", flat=True)]
    return {"owners": owners, "ada": of_ada, "bob": of_bob}


async def aloud(user: Any) -> list[str]:
    """Return what a tool says in an event loop."""
    with mcp.as_user(user):
        async with Connected(mcp) as client:
            return [(await client.call_tool("who")).text, *sorted(tool.name for tool in await client.list_tools())]


over_http = {mode: MCPClient(http=True, headers=headers[ada], mode=mode) for mode in ("auto", "2025-11-25")}
seen = {
    "id": str(ada.pk),
    "who": [client.call("who") for client in over_http.values()],
    "accounts": [client.call("account_list") for client in over_http.values()],
    "tools": sorted(over_http["auto"].tool_names()),
    "tools_of_bob": sorted(MCPClient(http=True, headers=headers[bob]).tool_names()),
    "sessions": asyncio.run(sessions()),
    "tasks": tasks(),
    "as_user": asyncio.run(aloud(ada)),
    "again": DjangoPrincipal.of_id(str(ada.pk)).user == ada,
    "unknown": [DjangoPrincipal.of_id(id).user.is_anonymous for id in ("1", "no key", str(Token.objects.count()))],
    "command": command("call", "who", user="ada@example.com"),
    "token": command("token", "bob@example.com"),
}
folder.cleanup()
print(json.dumps(seen))
