"""Links for a README that put a server into a host: for Cursor, VS Code, Goose and LM Studio.

Links are public and stay in the history of a repository: they hold the names of variables and never values. Each host
asks its user for them, or shows a placeholder to replace. A command is that of other people's machines, so a path of
this one has no place in it.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from ferrule.wire.struct import Value

__all__ = ["LinkInput", "LinkedServer", "placeholders", "readme_block"]

_SECRET_NAME: Final = re.compile(r"auth|token|key|secret|password|cookie|credential", re.IGNORECASE)
_CURSOR_PICTURE: Final = "https://cursor.com/deeplink/mcp-install-dark.svg"
_VSCODE_PICTURE: Final = "https://img.shields.io/badge/VS_Code-Install-0098FF?logo=visualstudiocode&logoColor=white"
_GOOSE_PICTURE: Final = "https://block.github.io/goose/img/extension-install-dark.svg"
_LM_STUDIO_PICTURE: Final = "https://files.lmstudio.ai/deeplink/mcp-install-light.svg"
_PLACE: Final = re.compile(r"\$\{(?:env:)?(\w+)\}")


class LinkInput(Value, frozen=True):
    """A value that the user of a host gives.

    Attributes:
        name: the name of the environment variable, or of the placeholder in a header.
        description: what to ask for.
        is_secret: whether it is hidden while it is typed.
    """

    name: str
    description: str
    is_secret: bool


class LinkedServer(Value, frozen=True, kw_only=True):
    """A server as others start or reach it.

    Attributes:
        name: its name in the configuration of a host.
        description: a sentence for people.
        command: the command and its arguments; empty for a URL.
        url: the URL; ``None`` for a command.
        headers: headers with ``${NAME}`` in the place of what the user gives.
        inputs: the variables of the command, and the placeholders of the headers.
    """

    name: str
    description: str
    command: Sequence[str] = ()
    url: str | None = None
    headers: Mapping[str, str]
    inputs: Sequence[LinkInput]

    def __post_init__(self) -> None:
        parts = urlsplit(self.url or "")
        if parts.username or parts.password or _SECRET_NAME.search(parts.query):
            raise ValueError("the URL holds a secret, and links are public: use --header 'NAME: ${VARIABLE}'")
        for before, part in zip(("", *self.command), self.command, strict=False):
            option, sign, _ = part.partition("=")
            if _SECRET_NAME.search(option if sign else before) and (option if sign else before).startswith("-"):
                raise ValueError(
                    f"the option {option if sign else before} holds a value, and links are public: use --env"
                )
        for name, value in self.headers.items():
            if _SECRET_NAME.search(name) and not _PLACE.search(value):
                raise ValueError(
                    f"the header {name} holds a value, and links are public: write '{name}: ${{VARIABLE}}'"
                )


def placeholders(text: str) -> list[str]:
    """Return the names in the ``${NAME}`` of a text."""
    return _PLACE.findall(text)


def readme_block(server: LinkedServer) -> str:
    """Return Markdown with a link for each host, and the common entry for all others."""
    cursor = _query(name=server.name, config=_packed(_entry(server, "${env:%s}")))
    lm_studio = _query(name=server.name, config=_packed(_entry(server, "<%s>")))
    links = (
        ("Add to Cursor", _CURSOR_PICTURE, f"https://cursor.com/en/install-mcp?{cursor}"),
        ("Install in VS Code", _VSCODE_PICTURE, _vscode(server)),
        ("Install in Goose", _GOOSE_PICTURE, _goose(server)),
        ("Add to LM Studio", _LM_STUDIO_PICTURE, f"https://lmstudio.ai/install-mcp?{lm_studio}"),
    )
    lines = [f"[![{text}]({picture})]({link})" for text, picture, link in links]
    common = json.dumps({"mcpServers": {server.name: _entry(server, "<%s>")}}, indent=2, ensure_ascii=False)
    return "\n".join([*lines, "", "Any other host:", "", "```json", common, "```"])


def _entry(server: LinkedServer, place: str) -> dict[str, Any]:
    """Return the entry with placeholders of a host's own form, such as ``"${env:%s}"``."""
    if server.url is not None:
        headers = {name: _placed(value, place) for name, value in server.headers.items()}
        return {"url": server.url, **({"headers": headers} if headers else {})}
    program, *arguments = server.command
    env = {each.name: place % each.name for each in server.inputs}
    return {"command": program, "args": arguments, **({"env": env} if env else {})}


def _placed(text: str, place: str) -> str:
    """Return a text with each ``${NAME}`` in the form of a host."""
    return _PLACE.sub(lambda found: place % found[1], text)


def _vscode(server: LinkedServer) -> str:
    entry = _entry(server, "${input:%s}")
    inputs = [
        {"type": "promptString", "id": each.name, "description": each.description, "password": each.is_secret}
        for each in server.inputs
    ]
    config = {"type": "stdio" if server.url is None else "http", **entry}
    given = {"name": server.name, "config": _json(config), **({"inputs": _json(inputs)} if inputs else {})}
    return f"https://vscode.dev/redirect/mcp/install?{_query(**given)}"


def _goose(server: LinkedServer) -> str:
    about = [("id", server.name), ("name", server.name), ("description", server.description)]
    if server.url is not None:
        # A header is written NAME=VALUE; the value is a placeholder, which Goose shows to its user.
        headers = [("header", f"{name}={_placed(value, '<%s>')}") for name, value in server.headers.items()]
        fields = [("url", server.url), ("type", "streamable_http"), *headers]
    else:
        program, *arguments = server.command
        fields = [("cmd", program), *(("arg", each) for each in arguments)]
        fields += [("env", f"{each.name}={each.description}") for each in server.inputs]
    return f"https://block.github.io/goose/extension?{urlencode([*fields, *about], quote_via=quote)}"


def _query(**fields: str) -> str:
    return urlencode(fields, quote_via=quote, safe="")


def _packed(value: Any) -> str:
    return base64.b64encode(_json(value).encode()).decode()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
