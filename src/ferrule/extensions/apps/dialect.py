"""The messages between a view and its host: who sends what, and its form.

They are JSON-RPC 2.0 over ``postMessage``, with a handshake of their own that is independent of the revision between
host and server. `MESSAGES` describes each with JSON Schemas. For the test host of `ferrule.testing`, and for hosts.

Source: MCP Apps 2026-01-26, "Communication Protocol"; the forms of the fields are those of the package
``@modelcontextprotocol/ext-apps`` 2.0, whose ``schema.json`` the tests compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal

from ferrule.app.signatures.validation import problems_by
from ferrule.extensions.apps.policy import CSP_KEYS, PERMISSIONS
from ferrule.wire.json_types import is_object
from ferrule.wire.struct import Value

__all__ = ["DISPLAY_MODES", "MESSAGES", "VIEW_PROTOCOL", "Message", "Sender", "problems_of", "problems_of_result"]

VIEW_PROTOCOL: Final = "2026-01-26"
"""The version that both sides name in ``ui/initialize``."""

DISPLAY_MODES: Final = ("inline", "fullscreen", "pip")

Sender = Literal["view", "host"]
Schema = dict[str, Any]


class Message(Value, frozen=True):
    """One kind of message.

    Attributes:
        method: its method.
        senders: who may send it.
        params: schema of its params.
        needs_params: whether params are required.
        result: schema of the result; ``None`` for a notification.
        capability: the capability of the host that a view needs to send it; empty for none.
    """

    method: str
    senders: tuple[Sender, ...]
    params: Schema
    needs_params: bool = True
    result: Schema | None = None
    capability: str = ""


def _object(
    required: Mapping[str, Schema] | None = None, optional: Mapping[str, Schema] | None = None, *, is_open: bool = False
) -> Schema:
    fields = {**(required or {}), **(optional or {})}
    return {"type": "object", "properties": fields, "required": list(required or {}), "additionalProperties": is_open}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _one_of(*values: str) -> Schema:
    return {"enum": list(values)}


_TEXT: Final[Schema] = {"type": "string"}
_NUMBER: Final[Schema] = {"type": "number"}
_FLAG: Final[Schema] = {"type": "boolean"}
_MAP: Final[Schema] = {"type": "object"}
_EMPTY: Final = _object()
_MODE: Final = _one_of(*DISPLAY_MODES)

_ICONS: Final = _list(
    _object({"src": _TEXT}, {"mimeType": _TEXT, "sizes": _list(_TEXT), "theme": _one_of("light", "dark")})
)
_IMPLEMENTATION: Final = _object(
    {"name": _TEXT, "version": _TEXT},
    {"title": _TEXT, "icons": _ICONS, "description": _TEXT, "websiteUrl": _TEXT},
)
_ANNOTATIONS: Final = _object(
    None,
    {
        "audience": _list(_one_of("user", "assistant")),
        "priority": {"type": "number", "minimum": 0, "maximum": 1},
        "lastModified": _TEXT,
    },
)
_BLOCK_EXTRAS: Final = {"annotations": _ANNOTATIONS, "_meta": _MAP}


def _kind(name: str) -> Schema:
    return {"const": name}


_CONTENTS: Final[Schema] = {
    "anyOf": [_object({"uri": _TEXT, each: _TEXT}, {"mimeType": _TEXT, "_meta": _MAP}) for each in ("text", "blob")]
}
_EMBEDDED: Final = _object({"type": _kind("resource"), "resource": _CONTENTS}, _BLOCK_EXTRAS)
_LINK: Final = _object(
    {"type": _kind("resource_link"), "name": _TEXT, "uri": _TEXT},
    {
        "title": _TEXT,
        "icons": _ICONS,
        "description": _TEXT,
        "mimeType": _TEXT,
        "size": _NUMBER,
        **_BLOCK_EXTRAS,
    },
)
_BLOCK: Final[Schema] = {
    "anyOf": [
        _object({"type": _kind("text"), "text": _TEXT}, _BLOCK_EXTRAS),
        *(
            _object({"type": _kind(each), "data": _TEXT, "mimeType": _TEXT}, _BLOCK_EXTRAS)
            for each in ("image", "audio")
        ),
        _LINK,
        _EMBEDDED,
    ]
}
_TOOL_RESULT: Final = _object(
    {"content": _list(_BLOCK)}, {"_meta": _MAP, "structuredContent": {}, "isError": _FLAG}, is_open=True
)
_FAILURE: Final = _object(None, {"isError": _FLAG}, is_open=True)

_CSP: Final = _object(None, {key: _list(_TEXT) for key in CSP_KEYS})
_PERMISSIONS: Final = _object(None, dict.fromkeys(PERMISSIONS, _EMPTY))
_MODALITIES: Final = _object(
    None, dict.fromkeys(("text", "image", "audio", "resource", "resourceLink", "structuredContent"), _EMPTY)
)
_CHANGES: Final = _object(None, {"listChanged": _FLAG})
_EXPERIMENTAL: Final[Schema] = {"type": "object", "additionalProperties": _MAP}

_APP_CAPABILITIES: Final = _object(
    None, {"experimental": _EXPERIMENTAL, "tools": _CHANGES, "availableDisplayModes": _list(_MODE)}
)
_HOST_CAPABILITIES: Final = _object(
    None,
    {
        "experimental": _EXPERIMENTAL,
        "openLinks": _EMPTY,
        "downloadFile": _EMPTY,
        "serverTools": _CHANGES,
        "serverResources": _CHANGES,
        "logging": _EMPTY,
        "sandbox": _object(None, {"permissions": _PERMISSIONS, "csp": _CSP}),
        "updateModelContext": _MODALITIES,
        "message": _MODALITIES,
        "sampling": _object(None, {"tools": _EMPTY}),
    },
)
_HINTS: Final = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_INPUT_SCHEMA: Final = _object({"type": _kind("object")}, {"properties": _MAP, "required": _list(_TEXT)}, is_open=True)
_TOOL: Final = _object(
    {"name": _TEXT, "inputSchema": _INPUT_SCHEMA},
    {
        "title": _TEXT,
        "icons": _ICONS,
        "description": _TEXT,
        "outputSchema": _MAP,
        "annotations": _object(None, {"title": _TEXT, **dict.fromkeys(_HINTS, _FLAG)}),
        "execution": _object(None, {"taskSupport": _one_of("required", "optional", "forbidden")}),
        "_meta": _MAP,
    },
)
_HOST_CONTEXT: Final = _object(
    None,
    {
        "toolInfo": _object({"tool": _TOOL}, {"id": {"type": ["string", "integer"]}}),
        "theme": _one_of("light", "dark"),
        "styles": _object(
            None,
            {
                "variables": {
                    "type": "object",
                    "propertyNames": {"pattern": "^--(color|font|border|shadow)-[a-z0-9-]+$"},
                    "additionalProperties": {"type": ["string", "null"]},
                },
                "css": _object(None, {"fonts": _TEXT}),
            },
        ),
        "displayMode": _MODE,
        "availableDisplayModes": _list(_MODE),
        "containerDimensions": _object(
            None, {"height": _NUMBER, "maxHeight": _NUMBER, "width": _NUMBER, "maxWidth": _NUMBER}
        ),
        "locale": _TEXT,
        "timeZone": _TEXT,
        "userAgent": _TEXT,
        "platform": _one_of("web", "desktop", "mobile"),
        "deviceCapabilities": _object(None, {"touch": _FLAG, "hover": _FLAG}),
        "safeAreaInsets": _object(dict.fromkeys(("top", "right", "bottom", "left"), _NUMBER)),
    },
    is_open=True,
)
_ARGUMENTS: Final = _object(None, {"arguments": _MAP})

_VIEW: Final[tuple[Sender, ...]] = ("view",)
_HOST: Final[tuple[Sender, ...]] = ("host",)
_BOTH: Final[tuple[Sender, ...]] = ("view", "host")

MESSAGES: Final[Mapping[str, Message]] = {
    message.method: message
    for message in (
        # The handshake.
        Message(
            "ui/initialize",
            _VIEW,
            _object({"appInfo": _IMPLEMENTATION, "appCapabilities": _APP_CAPABILITIES, "protocolVersion": _TEXT}),
            result=_object(
                {
                    "protocolVersion": _TEXT,
                    "hostInfo": _IMPLEMENTATION,
                    "hostCapabilities": _HOST_CAPABILITIES,
                    "hostContext": _HOST_CONTEXT,
                },
                is_open=True,
            ),
        ),
        Message("ui/notifications/initialized", _VIEW, _EMPTY, needs_params=False),
        # Requests of the view.
        Message("ui/open-link", _VIEW, _object({"url": _TEXT}), result=_FAILURE, capability="openLinks"),
        Message(
            "ui/download-file",
            _VIEW,
            _object({"contents": _list({"anyOf": [_EMBEDDED, _LINK]})}),
            result=_FAILURE,
            capability="downloadFile",
        ),
        Message("ui/message", _VIEW, _object({"role": _kind("user"), "content": _list(_BLOCK)}), result=_FAILURE),
        Message(
            "ui/update-model-context",
            _VIEW,
            _object(None, {"content": _list(_BLOCK), "structuredContent": _MAP}),
            result=_MAP,
        ),
        Message(
            "ui/request-display-mode", _VIEW, _object({"mode": _MODE}), result=_object({"mode": _MODE}, is_open=True)
        ),
        Message(
            "tools/call",
            _BOTH,  # a view may have tools of its own, for the host
            _object({"name": _TEXT}, {"arguments": _MAP, "_meta": _MAP}, is_open=True),
            result=_TOOL_RESULT,
            capability="serverTools",
        ),
        Message(
            "resources/read",
            _VIEW,
            _object({"uri": _TEXT}, {"_meta": _MAP}, is_open=True),
            result=_object({"contents": _list(_CONTENTS)}, is_open=True),
            capability="serverResources",
        ),
        Message(
            "sampling/createMessage",
            _VIEW,
            _object({"messages": _list(_MAP), "maxTokens": _NUMBER}, is_open=True),
            result=_MAP,
            capability="sampling",
        ),
        Message("ping", _BOTH, _object(is_open=True), needs_params=False, result=_MAP),
        # Notifications of the view.
        Message("ui/notifications/size-changed", _VIEW, _object(None, {"width": _NUMBER, "height": _NUMBER})),
        Message("ui/notifications/request-teardown", _VIEW, _EMPTY, needs_params=False),
        Message(
            "notifications/message",
            _VIEW,
            _object(
                {
                    "level": _one_of("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"),
                    "data": {},
                },
                {"logger": _TEXT},
                is_open=True,
            ),
        ),
        Message("notifications/tools/list_changed", _VIEW, _object(is_open=True), needs_params=False),
        Message("notifications/cancelled", _BOTH, _object(None, {"requestId": {}, "reason": _TEXT}, is_open=True)),
        Message("notifications/progress", _BOTH, _object({"progressToken": {}, "progress": _NUMBER}, is_open=True)),
        # Of the host.
        Message("ui/notifications/tool-input-partial", _HOST, _ARGUMENTS),
        Message("ui/notifications/tool-input", _HOST, _ARGUMENTS),
        Message("ui/notifications/tool-result", _HOST, _TOOL_RESULT),
        Message("ui/notifications/tool-cancelled", _HOST, _object(None, {"reason": _TEXT})),
        Message("ui/notifications/host-context-changed", _HOST, _HOST_CONTEXT),
        # The text of the specification has a reason here, the schema of the package has none.
        Message("ui/resource-teardown", _HOST, _object(None, {"reason": _TEXT}), result=_MAP),
        Message("tools/list", _HOST, _object(is_open=True), needs_params=False, result=_MAP),
    )
}
"""The messages by method, without those between a host and its sandbox proxy."""


def problems_of(message: Any, sender: Sender) -> list[str]:
    """Return what is wrong with a request or a notification; empty if nothing is.

    Args:
        message: the message as it was posted.
        sender: who posted it.
    """
    if not is_object(message) or message.get("jsonrpc") != "2.0":
        return ["it is not a JSON-RPC 2.0 message"]
    method = message.get("method")
    found = MESSAGES.get(method) if isinstance(method, str) else None
    if found is None:
        return [f"there is no message {method!r} in the dialect of views"]
    if sender not in found.senders:
        return [f"a {sender} does not send {method}"]
    is_request, has_id = found.result is not None, message.get("id") is not None
    if is_request is not has_id:
        return [f"{method} is a {'request, which has an id' if is_request else 'notification, which has no id'}"]
    if "params" not in message:
        return [f"{method} has no params"] if found.needs_params else []
    return [f"{method}: params: {problem}" for problem in _checker(found.method, "params")(message["params"])]


def problems_of_result(method: str, result: Any) -> list[str]:
    """Return what is wrong with the result of a request; empty if nothing is.

    Raises:
        KeyError: there is no such request.
    """
    if MESSAGES[method].result is None:
        raise KeyError(method)
    return [f"{method}: result: {problem}" for problem in _checker(method, "result")(result)]


@cache
def _checker(method: str, part: Literal["params", "result"]) -> Callable[[Any], list[str]]:
    message = MESSAGES[method]
    return problems_by(message.params if part == "params" else message.result or {})
