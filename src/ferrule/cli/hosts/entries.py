"""The forms of an entry that are not common to hosts: written for Codex, Copilot CLI and Goose, and read of all.

The common form is ``command``, ``args``, ``env`` or ``url``, ``headers``, and sometimes ``type``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ferrule.wire.json_types import is_mapping

__all__ = ["codex_entry", "common_entry", "copilot_entry", "goose_entry", "to_plain_entry"]

_TOKEN_VARIABLE: Final = re.compile(r"Bearer\s+\$(?:\{(?:env:)?(\w+)\}|(\w+))")
# What other hosts call a key of the common form.
_KEYS: Final = {"cmd": "command", "envs": "env", "uri": "url", "http_headers": "headers"}
_TYPES: Final = {"local": "stdio", "streamable_http": "http"}
# Goose has entries that are parts of itself.
_NO_SERVERS: Final = frozenset({"builtin", "platform", "frontend", "inline_python"})
# Keys that mean something else, or nothing, in the file of another host.
_OF_ONE_HOST: Final = frozenset(
    {"tools", "bundled", "name", "description", "timeout", "enabled", "env_keys", "source", "enabled_tools"}
)
_GOOSE_TIMEOUT_S: Final = 300


def codex_entry(plain: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry for Codex, which takes a token from an environment variable and not from its file.

    Raises:
        ValueError: there is a token in a header.
    """
    made = {key: value for key, value in plain.items() if key != "headers"}
    headers = dict(plain.get("headers") or {})
    for header in [each for each in headers if each.lower() == "authorization"]:
        found = _TOKEN_VARIABLE.fullmatch(str(headers.pop(header)).strip())
        if found is None:
            raise ValueError(
                "Codex takes no token in its file: name an environment variable that has it, "
                "--header 'Authorization: Bearer ${NAME}'"
            )
        made["bearer_token_env_var"] = found[1] or found[2]
    return {**made, "http_headers": headers} if headers else made


def copilot_entry(plain: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry for GitHub Copilot CLI, which lists the tools that it may use."""
    return {"type": "http" if "url" in plain else "local", **plain, "tools": ["*"]}


def goose_entry(plain: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return an entry for Goose."""
    made: dict[str, Any] = {"enabled": True, "name": name, "description": "", "timeout": _GOOSE_TIMEOUT_S}
    if "url" in plain:
        headers = plain.get("headers")
        return {"type": "streamable_http", **made, "uri": plain["url"], **({"headers": headers} if headers else {})}
    env = plain.get("env")
    started = {"cmd": plain["command"], "args": list(plain.get("args") or ())}
    return {"type": "stdio", **made, **started, **({"envs": env} if env else {})}


def common_entry(entry: Any) -> Any:
    """Return the entry of any host in the common form; ``None`` for one that is no server.

    What is no object is returned as it is, for the reader to refuse.
    """
    if not is_mapping(entry):
        return entry
    if entry.get("type") in _NO_SERVERS:
        return None
    made: dict[str, Any] = {_KEYS.get(key, key): value for key, value in entry.items()}
    made.update({"type": _TYPES[made["type"]]} if made.get("type") in _TYPES else {})
    if is_mapping(nested := made.get("command")):  # Zed, in older files
        made |= {"command": nested.get("path"), "args": nested.get("args"), "env": nested.get("env")}
    variable = made.pop("bearer_token_env_var", None)
    if isinstance(variable, str):
        made["headers"] = {**(made.get("headers") or {}), "Authorization": f"Bearer ${{{variable}}}"}
    return made


def to_plain_entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in the plain form, to write it for another host: with ``url`` as the key of a URL."""
    made = dict(common_entry(entry) or {})
    for key in ("serverUrl", "httpUrl"):
        if key in made:
            made.setdefault("url", made.pop(key))
    dropped = _OF_ONE_HOST if made.get("type") == "sse" else _OF_ONE_HOST | {"type"}
    return {key: value for key, value in made.items() if key not in dropped and value is not None}
