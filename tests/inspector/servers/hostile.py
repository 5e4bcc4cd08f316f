"""A server without a library whose every text is hostile: names, titles, schemas, results, errors, addresses, files."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

TEXTS = {
    "markup": "<img src=x onerror='window.pwned = 1'><script>window.pwned = 2</script>",
    "quotes": '" onmouseover="window.pwned = 3" x=\'',
    "turned": "safe\u202egnp.exe\u2066x\u200b\U000e0041",
    "control": "nul\x00 bell\x07 escape\x1b[31m line\u2028end",
    "word": "w" * 100_000,
    "combined": "a" + "\u0301" * 2_000,
    "wide": "\ufdfd" * 300,
    "address": "javascript:window.pwned=4",
    "markdown": "# [x](javascript:window.pwned=5) ![y](http://127.0.0.1:9/z.png) <b>**bold**</b>",
    "lone": "LONE-SURROGATE",
    "proto": "__proto__",
}


def schema(text: str) -> dict[str, Any]:
    """Properties of each kind, named, described and filled with a text."""
    said = {"title": text, "description": text}
    return {
        "type": "object",
        "properties": {
            text: {"type": "string", "default": text, "pattern": text, "format": text, **said},
            "choice": {"enum": [text, "b"], "enumNames": [text, text], **said},
            "union": {"anyOf": [{"title": text, "type": "string"}, {"const": text}, {"type": "null"}], **said},
            "list": {"type": "array", "items": {"enum": [text]}, "default": [text], **said},
            "inner": {"type": "object", "properties": {text: {"type": "number"}}, **said},
            "json": {"default": {text: text}, **said},
        },
    }


def tool(name: str, text: str) -> dict[str, Any]:
    """A tool all of whose texts are one."""
    hints = {"title": text, "readOnlyHint": True, "destructiveHint": True}
    return {
        "name": f"{name} {text}",
        "title": text,
        "description": text,
        "inputSchema": schema(text),
        "annotations": hints,
    }


def result(text: str) -> dict[str, Any]:
    """A result with a text in every place, and a file whose name and type are that text."""
    data = base64.b64encode(b"\x89PNG no").decode()
    return {
        "content": [
            {"type": "text", "text": text},
            {"type": "resource_link", "uri": text, "name": text, "title": text, "description": text, "mimeType": text},
            {"type": "resource", "resource": {"uri": text, "mimeType": text, "text": text}},
            {"type": "resource", "resource": {"uri": f"file:///{text}", "mimeType": "image/png", "blob": data}},
            {"type": "image", "data": data, "mimeType": f"image/png;{text}"},
            {"type": "image", "data": text, "mimeType": text},
            {"type": "audio", "data": data, "mimeType": text},
        ],
        "structuredContent": {"rows": [{text: text, "b": [text]}, {text: text, "b": {text: text}}]},
    }


def answer(method: str, params: Any) -> Any:
    """The result of a request; an exception with a hostile message for the tool that fails."""
    texts = TEXTS.items()
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
            "serverInfo": {"name": TEXTS["markup"], "title": TEXTS["turned"], "version": TEXTS["quotes"]},
            "instructions": "\n".join(TEXTS.values()),
        }
    if method == "tools/list":
        return {
            "tools": [tool(name, text) for name, text in texts]
            + [{"name": name, "inputSchema": {"type": "object"}} for name in ("fails", "asks")]
        }
    if method == "resources/list":
        return {
            "resources": [{"uri": f"x:{text}", "name": text, "title": text, "description": text} for _, text in texts]
        }
    if method == "resources/templates/list":
        return {
            "resourceTemplates": [
                {"uriTemplate": f"y:{text}{{a}}", "name": text, "description": text} for _, text in texts
            ]
        }
    if method == "prompts/list":
        said = [(name, {"name": f"{name} {text}", "title": text, "description": text}) for name, text in texts]
        return {
            "prompts": [
                each | {"arguments": [{"name": TEXTS[name], "description": TEXTS[name]}]} for name, each in said
            ]
        }
    if method == "tools/call" and params["name"] == "fails":
        raise ValueError("\n".join(TEXTS.values()))
    if method == "tools/call":
        return result(TEXTS[params["name"].split(" ")[0]])
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": params["uri"], "mimeType": "text/markdown"}]}
    if method == "prompts/get":
        return {"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}
    return None


def ask(id: int) -> None:
    """Ask a question with a hostile form for the call, and answer the call with what came back."""
    text = TEXTS["markup"]
    asked = {"message": "\n".join(TEXTS.values()), "requestedSchema": schema(text) | {"required": ["choice"]}}
    send({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": asked})
    reply = json.loads(sys.stdin.readline())
    send({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": json.dumps(reply)}]}})


def send(message: Any) -> None:
    """Write a message, with lone surrogates where a text asks for them."""
    sys.stdout.write(json.dumps(message).replace("LONE-SURROGATE", "lone\\ud800end\\udc00") + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "tools/call" and message["params"]["name"] == "asks":
            ask(message["id"])
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            found = answer(message["method"], message.get("params"))
            reply |= {"result": found} if found is not None else {"error": {"code": -32601, "message": TEXTS["markup"]}}
        except ValueError as error:
            reply |= {"error": {"code": -32000, "message": str(error), "data": TEXTS}}
        send(reply)
