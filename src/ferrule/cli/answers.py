"""Answers to the questions of a server that are given on the command line, for scripts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import click

from ferrule.cli.arguments import read_arguments, read_json
from ferrule.cli.output import say
from ferrule.wire.json_types import is_list, is_mapping, is_object

__all__ = ["TypedAnswers", "answer_options"]

Handler: TypeAlias = "Callable[[Any, Any], Awaitable[Any]]"


def answer_options(command: Any) -> Any:
    """Add ``--answer``, ``--yes`` and ``--decline`` to a command (``answers``, ``yes``, ``declines``)."""
    for option in (
        click.option("--decline", "declines", is_flag=True, help="Decline every question of the server."),
        click.option("--yes", is_flag=True, help="Accept every question, with its defaults, and yes for yes or no."),
        click.option("--answer", "answers", multiple=True, metavar="NAME=VALUE|JSON",
                     help="Answer a field of any question, or one question as an object; repeatable."),
    ):  # fmt: skip
        command = option(command)
    return command


class TypedAnswers:
    """What was given on the command line.

    Args:
        answers: ``name=value`` and ``name:=JSON`` for a field of any question, and objects for one question each.
        yes: accept with defaults, and with true for a truth value without one.
        declines: decline everything.

    Raises:
        click.UsageError: an answer is malformed, or ``yes`` and ``declines`` are both given.
    """

    def __init__(self, answers: Sequence[str], *, yes: bool, declines: bool) -> None:
        if declines and (yes or answers):
            raise click.UsageError("--decline answers every question; leave out --yes and --answer")
        self._pairs: list[str] = []
        self._objects: list[dict[str, Any]] = []
        for text in answers:
            if text.lstrip().startswith("{"):
                self._objects.append(_object(text))
            elif "=" in text[1:]:
                self._pairs.append(text)
            else:
                raise click.UsageError(f"--answer is NAME=VALUE or a JSON object, not {text!r}")
        self._yes = yes
        self._declines = declines

    @property
    def are_given(self) -> bool:
        """Whether questions are answered."""
        return bool(self._pairs or self._objects or self._yes or self._declines)

    def handler(self, otherwise: Handler | None) -> Handler:
        """Return a handler of questions.

        Args:
            otherwise: asks a person what was not answered; ``None`` refuses it.
        """

        async def answer(params: Any, question: Any) -> Any:
            from ferrule.wire.types import ElicitResult

            if self._declines:
                return ElicitResult("decline")
            if params.mode == "url":
                if not self._yes:
                    return await _left(otherwise, params, question, "it asks to open a page: --yes says that you did")
                say(f"{question.server} asks to open {params.url}")
                return ElicitResult("accept")
            schema: Any = params.requested_schema or {}
            content = self._content(schema)
            missing = [name for name in _required(schema) if name not in content]
            if missing or not (content or self._yes):
                return await _left(otherwise, params, question, _hint(params.message, schema, missing))
            return ElicitResult("accept", content=content)

        return answer

    def _content(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers to one form."""
        fields = schema.get("properties")
        known: Mapping[str, Any] = fields if is_mapping(fields) else {}
        pairs = [text for text in self._pairs if text.partition("=")[0].removesuffix(":") in known]
        made = read_arguments(pairs, schema)
        if self._objects and not pairs:
            return self._objects.pop(0)
        if self._yes:
            for name, field in known.items():
                if name not in made and is_mapping(field):
                    if "default" in field:
                        made[name] = field["default"]
                    elif field.get("type") == "boolean":
                        made[name] = True
        return made


def _object(text: str) -> dict[str, Any]:
    try:
        value = read_json(text)
    except ValueError as error:
        raise click.UsageError(f"--answer: {error}") from error
    if not is_object(value):
        raise click.UsageError("--answer takes an object, or NAME=VALUE")
    return value


def _required(schema: Mapping[str, Any]) -> list[str]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str)] if is_list(names) else []


async def _left(otherwise: Handler | None, params: Any, question: Any, hint: str) -> Any:
    from ferrule.protocol.errors import MCPError

    if otherwise is None:
        raise MCPError(hint)
    return await otherwise(params, question)


def _hint(message: str, schema: Mapping[str, Any], missing: Sequence[str]) -> str:
    fields = schema.get("properties")
    names = missing or (list(fields) if is_mapping(fields) else [])
    how = " ".join(f"--answer {name}=…" for name in names) or "--yes"
    return f"{message!r} was not answered; {how}"
