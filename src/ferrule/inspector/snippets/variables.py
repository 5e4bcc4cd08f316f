"""Environment variables in the place of secret arguments, for the code of a call.

An argument is secret by the schema of its tool (``format: password``, ``writeOnly``), or by its name, at any depth.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from ferrule.protocol.secret_forms import is_secret_name
from ferrule.wire.json_types import is_list, is_mapping

__all__ = ["Variable", "Variables"]

_PREFIX: Final = "ARGUMENT_"


class Variable(str):
    """The place of a secret in a JSON value: a text that stands nowhere else, so that it can be found in encoded JSON.

    Attributes:
        name: the name of the environment variable.
        is_text: whether the secret is a text; of other values the variable holds the JSON.
    """

    __slots__ = ("is_text", "name")

    name: str
    is_text: bool

    @property
    def python(self) -> str:
        """The expression that reads it."""
        read = f'os.environ["{self.name}"]'
        return read if self.is_text else f"json.loads({read})"

    def in_shell(self, command: str) -> str:
        """Return a command, whose words are in single quotes, with the variable in the place of this text."""
        place = str(self) if self.is_text else f'"{self}"'
        return command.replace(place, f"'\"${self.name}\"'")


class Variables:
    """The secrets of one call.

    Attributes:
        found: the variables, in order.
    """

    def __init__(self) -> None:
        self.found: list[Variable] = []

    def in_arguments(self, arguments: Mapping[str, Any], secret: frozenset[str]) -> dict[str, Any]:
        """Return the arguments of a tool or prompt with variables in place of secrets.

        Args:
            arguments: the arguments.
            secret: the names of those that are secret by their schema.
        """
        return {
            name: self._variable(name, value) if name in secret and value is not None else self._member(name, value)
            for name, value in arguments.items()
        }

    def in_value(self, value: Any) -> Any:
        """Return a JSON value with variables in place of the members whose names are those of secrets."""
        if is_mapping(value):
            return {name: self._member(name, item) for name, item in value.items()}
        if is_list(value):
            return [self.in_value(item) for item in value]
        return value

    @property
    def imports(self) -> set[str]:
        """The statements that their Python needs."""
        imports = {"import os"} if self.found else set[str]()
        return imports if all(each.is_text for each in self.found) else {"import json", *imports}

    def in_shell(self, commands: str) -> str:
        """Return shell commands, whose words are in single quotes, with the variables in their places."""
        for each in self.found:
            commands = each.in_shell(commands)
        return commands

    def _member(self, name: str, value: Any) -> Any:
        is_plain = not (is_mapping(value) or is_list(value) or isinstance(value, bool) or value is None or value == "")
        return self._variable(name, value) if is_plain and is_secret_name(name) else self.in_value(value)

    def _variable(self, name: str, value: Any) -> Variable:
        made = Variable(f"secret{secrets.token_hex(12)}")
        base = _PREFIX + re.sub("[^A-Z0-9]+", "_", name.upper()).strip("_")
        taken = {each.name for each in self.found}
        made.name = next(
            n for n in (base, *(f"{base}_{count}" for count in range(2, len(taken) + 3))) if n not in taken
        )
        made.is_text = isinstance(value, str)
        self.found.append(made)
        return made
