"""Events as their hosts send them, with the members that the developer guides of AWS show."""

from __future__ import annotations

import base64
import json
from typing import Any

from ferrule.wire.revisions import LATEST_MODERN_VERSION

HOST = "mcp.example.com"
FORMS = ("rest", "http", "url", "alb", "alb-multi")
META = {
    "io.modelcontextprotocol/protocolVersion": LATEST_MODERN_VERSION,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
}


def modern(method: str, params: dict[str, Any] | None = None, **more: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A message of the modern era, and the headers that it repeats itself in."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
    headers = {"mcp-method": method, "mcp-protocol-version": LATEST_MODERN_VERSION, **more}
    if params and "name" in params:
        headers["mcp-name"] = params["name"]
    return message, headers


def legacy(method: str, params: dict[str, Any] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """A message of the handshake era."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}, {"mcp-protocol-version": "2025-11-25"}


def event(
    form: str,
    message: Any = None,
    headers: dict[str, str] | None = None,
    *,
    method: str = "POST",
    path: str = "/mcp",
    encoded: bool = False,
) -> dict[str, Any]:
    """An event of a host.

    Args:
        form: "rest", "http" (HTTP API), "url" (function URL), "alb", or "alb-multi" with multi-value headers.
        message: the body as JSON, or bytes; ``None`` for none.
        headers: further headers.
        method, path: of the request.
        encoded: the body is base64.
    """
    raw = message if isinstance(message, bytes) else b"" if message is None else json.dumps(message).encode()
    body = base64.b64encode(raw).decode() if encoded else raw.decode()
    all_headers = {
        "host": HOST,
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        **(headers or {}),
    }
    common: dict[str, Any] = {"headers": all_headers, "body": body or None, "isBase64Encoded": encoded}
    if form == "rest":
        return {
            **common,
            "resource": "/{proxy+}",
            "path": path,
            "httpMethod": method,
            "multiValueHeaders": {name: [value] for name, value in all_headers.items()},
            "queryStringParameters": None,
            "multiValueQueryStringParameters": None,
            "pathParameters": {"proxy": path[1:]},
            "stageVariables": None,
            "requestContext": {
                "apiId": "id",
                "httpMethod": method,
                "identity": {"sourceIp": "203.0.113.7", "userAgent": "t"},
                "path": f"/prod{path}",
                "stage": "prod",
                "requestId": "r",
                "resourcePath": "/{proxy+}",
            },
        }
    if form in ("http", "url"):
        return {
            **common,
            "version": "2.0",
            "routeKey": "$default",
            "rawPath": path,
            "rawQueryString": "",
            "cookies": ["a=1", "b=2"],
            "requestContext": {
                "accountId": "1",
                "apiId": "id",
                "domainName": HOST,
                "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.7"},
                "stage": "$default",
            },
        }
    all_headers |= {"x-forwarded-for": "198.51.100.1, 203.0.113.7", "x-forwarded-proto": "https"}
    found = {
        **common,
        "requestContext": {"elb": {"targetGroupArn": "arn:aws:elasticloadbalancing:…"}},
        "httpMethod": method,
        "path": path,
        "queryStringParameters": {},
        "body": body,  # empty, never null
    }
    if form == "alb-multi":
        found["multiValueHeaders"] = {name: [value] for name, value in all_headers.items()}
        found["multiValueQueryStringParameters"] = {}
        del found["headers"], found["queryStringParameters"]
    return found


def headers_of(result: dict[str, Any]) -> dict[str, str]:
    """The headers of a result of either kind, with names in lower case."""
    many = result.get("multiValueHeaders")
    pairs = [(name, ", ".join(values)) for name, values in many.items()] if many else result["headers"].items()
    return {name.lower(): value for name, value in pairs}
