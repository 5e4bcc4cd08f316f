"""The digest of a definition: of a tool, a resource, a template or a prompt, as a server lists it.

Two definitions with the same digest say the same to a model and to a program. The order of members and of ``required``
does not count, nor do icons and ``_meta``, which hosts and servers use for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from ferrule.wire.codec import canonical
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["DEFINITION_KEYS", "definition_digest", "essential_definition"]

DEFINITION_KEYS: Final[Mapping[str, str]] = {
    "tools": "name",
    "resources": "uri",
    "templates": "uriTemplate",
    "prompts": "name",
}
"""Kind of definition → the member that names one of them."""

_LEFT_OUT: Final = frozenset({"_meta", "icons"})
_SCHEMAS: Final = ("inputSchema", "outputSchema")
_DATA: Final = frozenset({"default", "enum", "const", "examples"})


def essential_definition(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Return what counts of a definition: without icons, ``_meta`` and nulls, and with ``required`` in one order."""
    made: dict[str, Any] = {
        name: value for name, value in definition.items() if name not in _LEFT_OUT and value is not None
    }
    for name in _SCHEMAS:
        if name in made:
            made[name] = _ordered(made[name])
    return made


def definition_digest(definition: Mapping[str, Any]) -> str:
    """Return the digest of a definition, ``sha256:`` and 64 hexadecimal digits.

    Args:
        definition: the entry of ``tools/list`` or of another list, as JSON.

    Raises:
        EncodeError: it is no JSON, or nested too deep.
    """
    return f"sha256:{sha256(canonical(essential_definition(definition))).hexdigest()}"


def _ordered(schema: Any) -> Any:
    """Return a schema with each ``required`` sorted; values of ``default``, ``enum`` and the like are data."""
    if is_mapping(schema):
        made: dict[str, Any] = {}
        for name, value in schema.items():
            if name == "required" and is_list(value) and all(isinstance(each, str) for each in value):
                made[name] = sorted(value)
            else:
                made[name] = value if name in _DATA else _ordered(value)
        return made
    return [_ordered(each) for each in schema] if is_list(schema) else schema
