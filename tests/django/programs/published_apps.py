"""A project with two published applications, exposed and called; prints what their tools answered as JSON.

Run in an environment with ``djoser`` and ``django-rest-passwordreset``. What a project has to say by hand stands at
``expose()``.
"""

# ruff: noqa: E402  # Django is set up before its applications are imported

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import django
from django.apps import apps
from django.conf import settings

settings.configure(
    SECRET_KEY="only for tests, and long enough for a key of 32 bytes",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="published_apps_urls",
    INSTALLED_APPS=[
        "django.contrib.auth",
        "django.contrib.contenttypes",
        "rest_framework",
        "rest_framework.authtoken",
        "djoser",
        "django_rest_passwordreset",
        "ferrule.django",
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    EMAIL_BACKEND="django.core.mail.backends.locmem.EmailBackend",
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
    AUTH_PASSWORD_VALIDATORS=[{"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"}],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    REST_FRAMEWORK={"DEFAULT_AUTHENTICATION_CLASSES": ["rest_framework.authentication.TokenAuthentication"]},
    DJOSER={"PASSWORD_RESET_CONFIRM_URL": "reset/{uid}/{token}", "LOGOUT_ON_PASSWORD_CHANGE": False},
    MCP={"REQUIRE_LOGIN": False, "STORE": "memory:"},
)
django.setup()

from django.core.management import call_command
from django.test import Client
from django.urls import include, path
from rest_framework.routers import SimpleRouter

from ferrule.django import mcp

djoser: Any = import_module("djoser.views")  # which other environments do not have
password_reset: Any = import_module("django_rest_passwordreset.urls")
router: Any = SimpleRouter()
password_reset.add_reset_password_urls_to_router(router, base_path="api/password")

urls: Any = ModuleType("published_apps_urls")
urls.urlpatterns = [
    path("auth/", include("djoser.urls")),
    path("auth/", include("djoser.urls.authtoken")),
    path("", include(router.urls)),
    path("mcp/", mcp.urls),
]
sys.modules["published_apps_urls"] = urls

# djoser: deleting a user takes a body, of which a description of DELETE says nothing; and its views for tokens have the
# texts of endpoints.
password = {"current_password": {"in": "body", "required": True, "schema": {"type": "string"}}}
mcp.expose(
    djoser.UserViewSet,
    rename={"user_me_get": "user_me"},
    add_parameters={"user_me_delete": password, "user_destroy": password},
)
mcp.expose(djoser.TokenCreateView, describe={"token_create_view_post": "Sign in."})
mcp.expose(djoser.TokenDestroyView, describe={"token_destroy_view_post": "Sign out."})
# django-rest-passwordreset: a router is exposed as it is.
mcp.expose(router)

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def send(method: str, params: dict[str, Any], token: str | None = None) -> Any:
    """Return the result of a request, or its error."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
        **({} if token is None else {"authorization": f"Token {token}"}),
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}})
    message = Client().post("/mcp/", body, content_type="application/json", headers=headers).json()
    return message.get("result", message.get("error"))


def call(name: str, arguments: dict[str, Any], token: str | None = None) -> Any:
    """Return the data of a call, or its text."""
    result = send("tools/call", {"name": name, "arguments": arguments}, token)
    if "content" not in result:
        return result
    return result.get("structuredContent", result["content"][0]["text"])


def main() -> None:
    """Do what an agent would do with the two applications."""
    call_command("migrate", verbosity=0)
    found: dict[str, Any] = {}
    tools = {tool["name"]: tool for tool in send("tools/list", {})["tools"]}
    found["anonymous"] = sorted(tools)
    found["create_arguments"] = sorted(tools["user_create"]["inputSchema"]["properties"])
    found["weak"] = call("user_create", {"username": "ann", "password": "1", "email": "ann@example.com"})
    user = {"username": "ann", "password": "long-enough-9", "email": "ann@example.com"}
    found["made"] = call("user_create", user)
    signed_in = call("token_create_view_post", {"username": "ann", "password": "long-enough-9"})
    token = signed_in["auth_token"]
    found["signed_in"] = sorted(tool["name"] for tool in send("tools/list", {}, token)["tools"])
    found["me"] = call("user_me", {}, token)
    found["changed"] = call("user_me_patch", {"email": "ann@example.org"}, token)
    found["others"] = call("user_retrieve", {"id": "me"}, token)
    found["asked"] = call("reset-password-request_create", {"email": "ann@example.org"})
    reset: Any = apps.get_model("django_rest_passwordreset", "ResetPasswordToken").objects.get()
    found["valid"] = call("reset-password-validate_create", {"token": reset.key})
    found["wrong"] = call("reset-password-validate_create", {"token": "nothing"})
    found["confirmed"] = call("reset-password-confirm_create", {"token": reset.key, "password": "another-one-9"})
    found["not_deleted"] = call("user_me_delete", {"current_password": "wrong"}, token)
    found["signed_out"] = call("token_destroy_view_post", {}, token)
    found["failures"] = [str(error) for error in mcp.exposures.failures]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
