"""The rules about annotations: what a tool says about its effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ferrule.checks.picture import ServerPicture
from ferrule.checks.table import RuleFinding
from ferrule.wire.json_types import is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["check_hints"]

_CHANGES = pattern(
    r"(?i)(?:.*[_.-])?(?:delete|remove|destroy|drop|purge|erase|wipe|kill|revoke|uninstall|truncate)(?:[_.-].*)?"
)
_BREAK = pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_EFFECTS: Final = ("readOnlyHint", "destructiveHint")


def check_hints(picture: ServerPicture) -> Iterator[RuleFinding]:
    """Return the findings about annotations: F40 to F42."""
    for kind, name, definition in picture.named():
        if kind != "tools":
            continue
        given = definition.get("annotations")
        hints: Any = given if is_mapping(given) else {}
        if not any(isinstance(hints.get(hint), bool) for hint in _EFFECTS):
            yield RuleFinding("F40", kind, name, "", "has neither readOnlyHint nor destructiveHint")
        if hints.get("readOnlyHint") is True:
            if hints.get("destructiveHint") is True:
                yield RuleFinding("F41", kind, name, "/annotations", "is said to be read-only and destructive")
            if _CHANGES.fullmatch(_BREAK.sub("_", name)):
                yield RuleFinding("F42", kind, name, "/annotations/readOnlyHint", "is said to be read-only")
