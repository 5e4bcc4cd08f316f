"""A project with specifications of the package ``djangorestframework-services``; prints what its tools answer.

Run in an environment with that package.
"""

# ruff: noqa: E402  # Django is set up before its applications are imported

from __future__ import annotations

import json
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="only for tests, and long enough for a key of 32 bytes",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF="service_specs_urls",
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "ferrule.django"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    USE_TZ=True,
    MCP={"REQUIRE_LOGIN": False, "STORE": "memory:"},
)
django.setup()

from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import Client
from django.urls import path
from rest_framework import permissions, serializers

from ferrule.django import mcp

specs: Any = import_module("rest_framework_services")  # which other environments do not have


class GroupInput(serializers.Serializer[Any]):
    """What a group is made of."""

    name = serializers.CharField(max_length=20)


class GroupOutput(serializers.ModelSerializer[Group]):
    """A group as clients see it."""

    class Meta:
        """Options."""

        model = Group
        fields = ("id", "name")


def create_group(*, data: Any, user: Any) -> Group:
    """Create a group."""
    if data["name"] == "taken":
        raise specs.ServiceValidationError({"name": ["Not this one"]})
    if data["name"] == "never":
        raise specs.ServiceError("Never")
    return Group.objects.create(**data)


def groups(*, starts: str = "") -> Any:
    """List groups."""
    return Group.objects.filter(name__startswith=starts).order_by("id")


def group(*, pk: int) -> Any:
    """Find a group."""
    return Group.objects.filter(pk=pk)


def rename_group(*, instance: Group, data: Any) -> Group:
    """Rename a group."""
    instance.name = data["name"]
    instance.save()
    return instance


anyone = [permissions.AllowAny]
one, many = specs.SelectorKind.RETRIEVE, specs.SelectorKind.LIST
found = specs.SelectorSpec(kind=one, selector=group, output_serializer=GroupOutput, permission_classes=anyone)
shown = specs.SelectorSpec(kind=one, output_serializer=GroupOutput)
mcp.add_service(
    "create_group",
    specs.ServiceSpec(
        service=create_group, input_serializer=GroupInput, output_selector_spec=shown, permission_classes=anyone
    ),
)
mcp.add_service(
    "rename_group",
    specs.ServiceSpec(
        service=rename_group,
        input_serializer=GroupInput,
        instance_selector_spec=found,
        output_selector_spec=shown,
        permission_classes=anyone,
    ),
)
mcp.add_service("group", found)
mcp.add_service(
    "groups",
    specs.SelectorSpec(kind=many, selector=groups, output_serializer=GroupOutput, permission_classes=anyone),
)

urls: Any = ModuleType("service_specs_urls")
urls.urlpatterns = [path("mcp/", mcp.urls)]
sys.modules["service_specs_urls"] = urls

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def send(method: str, params: dict[str, Any]) -> Any:
    """Return the result of a request."""
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": method,
        **({"mcp-name": params["name"]} if "name" in params else {}),
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": _META}})
    return Client().post("/mcp/", body, content_type="application/json", headers=headers).json()["result"]


def call(tool: str, /, **arguments: Any) -> Any:
    """Return the data of a call, or its text."""
    result = send("tools/call", {"name": tool, "arguments": arguments})
    return result.get("structuredContent", result["content"][0]["text"])


call_command("migrate", verbosity=0)
print(
    json.dumps(
        {
            "arguments": {
                tool["name"]: sorted(tool["inputSchema"]["properties"]) for tool in send("tools/list", {})["tools"]
            },
            "made": call("create_group", name="a"),
            "taken": call("create_group", name="taken"),
            "never": call("create_group", name="never"),
            "all": call("groups"),
            "some": call("groups", starts="b"),
            "one": call("group", pk=1),
            "none": call("group", pk=9),
            "renamed": call("rename_group", pk=1, name="z"),
        }
    )
)
