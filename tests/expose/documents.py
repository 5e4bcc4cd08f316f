"""OpenAPI documents for tests, written for them, and a short way to make one."""

from __future__ import annotations

from typing import Any

__all__ = ["FORUM", "SHOP", "document"]


def document(paths: dict[str, Any], *, openapi: str = "3.1.0", **parts: Any) -> dict[str, Any]:
    """Return an OpenAPI document with these paths."""
    return {"openapi": openapi, "info": {"title": "Test", "version": "1"}, "paths": paths, **parts}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"content": {"application/json": {"schema": schema}}}


def _to(kind: str, name: str) -> dict[str, str]:
    return {"$ref": f"#/components/{kind}/{name}"}


SHOP: dict[str, Any] = document(
    {
        "/items": {
            "get": {
                "operationId": "items/list",
                "tags": ["items"],
                "parameters": [
                    _to("parameters", "Page"),
                    {"name": "filter", "in": "query", "style": "deepObject", "schema": _to("schemas", "Filter")},
                    {"name": "X-Tenant", "in": "header", "schema": {"type": "string"}},
                ],
                "responses": {
                    "200": {"description": "all", **_json({"type": "array", "items": _to("schemas", "Item")})},
                    "default": _to("responses", "Problem"),
                },
            },
            "post": {
                "operationId": "items/create",
                "requestBody": {"required": True, **_json(_to("schemas", "Item"))},
                "responses": {"2XX": {"description": "made", **_json(_to("schemas", "Item"))}},
                "security": [{"key": []}, {}],
            },
        },
        "/items/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}],
            "patch": {
                "requestBody": {
                    "content": {
                        "application/merge-patch+json": {"schema": _to("schemas", "Item")},
                        "multipart/form-data": {
                            "schema": {
                                "type": "object",
                                "properties": {"picture": {"type": "string", "format": "binary"}},
                            },
                            "encoding": {"picture": {"contentType": "image/png"}},
                        },
                    }
                },
                "responses": {"204": {"description": "changed"}},
            },
        },
    },
    openapi="3.0.3",
    components={
        "parameters": {"Page": {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1}}},
        "responses": {"Problem": {"description": "no", **_json({"type": "object"})}},
        "schemas": {
            "Item": {
                "type": "object",
                "required": ["id", "name"],
                "properties": {
                    "id": {"type": "integer", "readOnly": True},
                    "name": {"type": "string", "nullable": True, "example": "lamp"},
                    "price": {"type": "number", "minimum": 0, "exclusiveMinimum": True},
                    "parts": {"type": "array", "items": _to("schemas", "Item")},
                    "kind": _to("schemas", "Kind"),
                },
            },
            "Kind": {"type": "string", "enum": ["new", "old"]},
            "Filter": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    },
)

FORUM: dict[str, Any] = document(
    {
        "/posts": {
            "post": {
                "operationId": "addPost",
                "requestBody": {
                    "required": True,
                    **_json(
                        {
                            "oneOf": [_to("schemas", "Post"), _to("schemas", "Poll")],
                            "discriminator": {"propertyName": "kind", "mapping": {"post": "Post", "poll": "Poll"}},
                        }
                    ),
                },
                "responses": {"201": {"description": "made", **_json(_to("schemas", "Post"))}},
            }
        },
        "/posts/{post}/files/{file}": {"$ref": "#/components/pathItems/File"},
    },
    servers=[{"url": "https://forum.example/{v}", "variables": {"v": {"default": "1"}}}],
    components={
        "pathItems": {
            "File": {
                "get": {
                    "parameters": [
                        {"name": "post", "in": "path", "required": True, "schema": {"type": ["string", "null"]}},
                        {"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}},
                    ],
                    "responses": {"200": {"description": "a file", "content": {"image/*": {}}}},
                }
            }
        },
        "schemas": {
            "Post": {
                "type": "object",
                "$defs": {"Tag": {"type": "string", "pattern": "^[a-z]+$"}},
                "properties": {
                    "kind": {"const": "post"},
                    "tags": {"type": "array", "items": {"$ref": "#/components/schemas/Post/$defs/Tag"}},
                    "answers": {"type": "array", "items": _to("schemas", "Post")},
                },
                "patternProperties": {"^x-": True},
            },
            "Poll": {
                "allOf": [_to("schemas", "Post"), {"properties": {"choices": {"prefixItems": [{"type": "string"}]}}}],
                "if": {"properties": {"kind": {"const": "poll"}}},
                "then": {"required": ["choices"]},
            },
        },
    },
)
