"""Functions that refuse with exceptions of Django, of Django REST framework and of Django Ninja."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404
from django.shortcuts import get_object_or_404
from django.test import AsyncClient, Client, override_settings
from django.urls import Resolver404
from django.utils.translation import gettext_lazy
from ninja import errors as ninja
from ninja.errors import HttpError
from rest_framework import exceptions

from ferrule import Client as McpClient
from ferrule.django import DjangoServer, mcp
from ferrule.expose.answers.problems import MAX_PROBLEM_CHARS
from ferrule.protocol.errors import MCPError
from tests.django.test_threads import Table, in_process, make_server, post, rows, threads_end
from tests.transports.asgi.support import modern, modern_headers

__all__ = ["rows", "threads_end"]  # fixtures


class _Broken(exceptions.APIException):
    status_code = 503
    default_detail = "secret"


class _Odd(exceptions.APIException):
    status_code: Any = "secret"


def _missing() -> Exception:
    try:
        get_object_or_404(User.objects.none())  # makes no query, which an event loop may not
    except Http404 as error:
        return error
    raise AssertionError("there is a user")


_AMOUNT = ValidationError({"amount": [ValidationError("Above %(most)s.", params={"most": 5})], "__all__": ["No."]})

REFUSALS: dict[str, tuple[Callable[[], Exception], str]] = {
    "Http404": (lambda: Http404("no doctor"), "no doctor"),
    "Http404 of gettext_lazy": (lambda: Http404(gettext_lazy("no doctor")), "no doctor"),
    "Http404 without a text": (Http404, "Not Found"),
    "Http404 of an address": (lambda: Resolver404({"path": "x", "tried": [["secret"]]}), "Not Found"),
    "get_object_or_404": (_missing, "No User matches the given query."),
    "PermissionDenied": (lambda: PermissionDenied("not yours"), "not yours"),
    "PermissionDenied without a text": (PermissionDenied, "Forbidden"),
    "ValidationError": (lambda: ValidationError("too much"), "too much"),
    "ValidationError by field": (lambda: _AMOUNT, "amount: Above 5.\nNo."),
    "a long ValidationError": (lambda: ValidationError("x" * 9999), "x" * (MAX_PROBLEM_CHARS - 1) + "…"),
    "REST NotFound": (lambda: exceptions.NotFound("no doctor"), "no doctor"),
    "REST PermissionDenied": (lambda: exceptions.PermissionDenied("not yours"), "not yours"),
    "REST ValidationError": (lambda: exceptions.ValidationError("too much"), "too much"),
    "REST ValidationError by field": (
        lambda: exceptions.ValidationError({"lines": [{}, {"amount": ["Wrong."]}], "non_field_errors": ["No."]}),
        "lines[1].amount: Wrong.\nNo.",
    ),
    "REST Throttled": (
        lambda: exceptions.Throttled(wait=4.2),
        "Request was throttled. Expected available in 5 seconds.\nTry again after 5 s",
    ),
    "REST NotAuthenticated": (exceptions.NotAuthenticated, "Authentication credentials were not provided."),
    "Ninja HttpError": (lambda: HttpError(409, "It is sent."), "It is sent."),
    "Ninja HttpError without a text": (lambda: HttpError(409, ""), "Conflict"),
    "Ninja HttpError of a project": (lambda: HttpError(499, ""), "Refused with status 499"),
    "Ninja AuthorizationError": (ninja.AuthorizationError, "Forbidden"),
    "Ninja Throttled": (lambda: ninja.Throttled(wait=5), "Too many requests.\nTry again after 5 s"),
    "Ninja ValidationError": (
        lambda: ninja.ValidationError([{"type": "x", "loc": ["body", "lines", 1], "msg": "Wrong.", "ctx": "secret"}]),
        "body.lines.1: Wrong.",
    ),
    "a failing service of Ninja": (lambda: HttpError(503, "secret"), ""),
    "a failing service": (_Broken, ""),
    "a status that is none": (lambda: _Odd("secret"), ""),
    "DoesNotExist": (lambda: User.DoesNotExist("secret"), ""),
    "another exception": (lambda: ValueError("secret"), ""),
}
"""Exceptions, and the texts of the refusals; no text for an exception that is masked."""


def _server() -> DjangoServer:
    server = make_server()

    @server.tool
    def tool(which: str) -> None:
        """Fail."""
        raise REFUSALS[which][0]()

    @server.tool
    async def async_tool(which: str) -> None:
        """Fail."""
        raise REFUSALS[which][0]()

    @server.resource("data://{which}")
    def resource(which: str) -> str:
        """Fail."""
        raise REFUSALS[which][0]()

    @server.prompt
    async def prompt(which: str) -> str:
        """Fail."""
        raise REFUSALS[which][0]()

    return server


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("mode", ["auto", "2025-11-25"])
def test_refusals_of_functions_have_the_text_of_a_view(mode: str, debug: bool) -> None:
    """Of tools, resources and prompts; the others stay masked."""
    server = _server()

    async def talk() -> None:
        async with McpClient(server, mode=mode) as client:
            for which, (_, text) in REFUSALS.items():
                for name in ("tool", "async_tool"):
                    result = await client.call_tool(name, {"which": which}, raise_on_error=False)
                    assert (result.is_error, result.text) == (True, text or f"Tool `{name}` failed"), which
                with pytest.raises(MCPError) as failed:
                    await client.get_prompt("prompt", {"which": which})
                assert failed.value.message == (text or "Internal error"), which
                if " " not in which:
                    with pytest.raises(MCPError) as failed:
                        await client.read_resource(f"data://{which}")
                    assert failed.value.message == (text or "Internal error"), which

    with override_settings(DEBUG=debug):
        asyncio.run(talk())


def _request(name: str, arguments: dict[str, Any], token: str) -> dict[str, Any]:
    message = modern(1, "tools/call", {"name": name, "arguments": arguments})
    headers = modern_headers(message, host=None, content_type=None, authorization=f"Token {token}")
    return {"path": "/mcp/", "data": json.dumps(message), "content_type": "application/json", "headers": headers}


def test_functions_refuse_under_both_hosts(alice: Any) -> None:
    """In the thread of a request (WSGI) and on the event loop of the server (ASGI)."""

    @mcp.tool
    def refuse() -> None:
        """Refuse."""
        raise Http404("no doctor")

    @mcp.tool
    async def refuse_later() -> None:
        """Refuse."""
        raise exceptions.ValidationError({"name": ["Unknown."]})

    async def under_asgi(name: str) -> Any:
        return (await AsyncClient().post(**_request(name, {}, alice.token))).json()

    try:
        for name, text in (("refuse", "no doctor"), ("refuse_later", "name: Unknown.")):
            answers: list[Any] = [
                Client().post(**_request(name, {}, alice.token)).json(),
                asyncio.run(under_asgi(name)),
            ]
            for answer in answers:
                result = answer["result"]
                assert (result["isError"], result["content"][0]["text"]) == (True, text)
    finally:
        mcp.remove_tool("refuse")
        mcp.remove_tool("refuse_later")


def test_a_refusal_rolls_back(rows: Table) -> None:
    """The transaction of ``ATOMIC_REQUESTS`` ends as with any exception."""
    server = make_server()

    @server.tool
    def refuse_after_write() -> None:
        """Refuse."""
        rows.add("lost")
        raise PermissionDenied("not yours")

    under_wsgi = post(server.endpoint, "refuse_after_write")
    assert (under_wsgi["isError"], under_wsgi["content"][0]["text"]) == (True, "not yours")
    assert in_process(server, "refuse_after_write").text == "not yours"
    assert rows.titles() == []
