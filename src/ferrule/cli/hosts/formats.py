"""The formats of hosts' configuration files: JSON with comments, TOML and YAML, each edited in place.

An edit changes the entry of one server and keeps all other text: comments, order, spelling, line ends. TOML and YAML
have no library in the standard library that writes them so, and one more dependency for two hosts is not worth it. So
the text is edited by its lines, and each edit is checked: the new text is parsed, and has to say what the old one said
with the one entry changed. Where it does not, because the servers are written in a form that is not edited here (a TOML
inline table, a YAML flow mapping), the file is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ferrule.cli.hosts.edits import FormatError
from ferrule.protocol.jsonc import JsoncError, parse_jsonc, remove_member, set_member
from ferrule.wire.struct import Value

__all__ = ["ConfigFormat", "format_of"]


class ConfigFormat(Value, frozen=True):
    """One format.

    Attributes:
        parse: returns the document in a text; ``None`` for an empty one.
        set_entry: ``(text, key, name, entry)`` returns the text with an entry added or replaced.
        remove_entry: ``(text, key, name)`` returns the text without an entry; unchanged if there is none.
    """

    parse: Callable[[str], Any]
    set_entry: Callable[[str, str, str, Mapping[str, Any]], str]
    remove_entry: Callable[[str, str, str], str]


def format_of(path: Path) -> ConfigFormat:
    """Return the format of a file by its name: ``.toml``, ``.yaml``, ``.yml``, and JSON for all others."""
    suffix = path.suffix.lower()
    if suffix == ".toml":
        from ferrule.cli.hosts import toml_text

        return ConfigFormat(toml_text.parse, toml_text.set_entry, toml_text.remove_entry)
    if suffix in (".yaml", ".yml"):
        from ferrule.cli.hosts import yaml_text

        return ConfigFormat(yaml_text.parse, yaml_text.set_entry, yaml_text.remove_entry)
    return _JSON


def _json_problem(edit: Callable[[], Any]) -> Any:
    try:
        return edit()
    except JsoncError as error:
        raise FormatError(str(error)) from error


_JSON: Final = ConfigFormat(
    lambda text: _json_problem(lambda: parse_jsonc(text)),
    lambda text, key, name, entry: _json_problem(lambda: set_member(text, [key, name], dict(entry))),
    lambda text, key, name: _json_problem(lambda: remove_member(text, [key, name])),
)
