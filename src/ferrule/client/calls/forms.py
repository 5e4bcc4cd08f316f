"""Ready-made handlers of questions: fill in the defaults, decline, or ask at the terminal."""

from __future__ import annotations

import select
import sys
import threading
from collections.abc import Mapping
from typing import Any, Final, cast

import anyio.to_thread

from ferrule.client.calls.callbacks import SamplingRefused, ServerQuestion
from ferrule.client.calls.terminal_text import terminal_safe
from ferrule.wire.types import CreateMessageRequestParams, ElicitRequestParams, ElicitResult, ToolContentBlock

__all__ = ["ask_at_terminal", "decline", "fill_defaults", "sample_at_terminal"]

_LOOK_S: Final = 0.1
"""Seconds between two checks of a reading thread for cancellation."""


async def fill_defaults(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Accept a form with its defaults; decline one that requires a field without a default, and every URL.

    For programs without a user, and tests.
    """
    if params.mode == "url":
        return ElicitResult("decline")
    schema = params.requested_schema or {}
    properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
    content = {name: field["default"] for name, field in properties.items() if "default" in field}
    if any(name not in content for name in schema.get("required") or ()):
        return ElicitResult("decline")
    return ElicitResult("accept", content=content)


async def decline(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Decline everything."""
    return ElicitResult("decline")


async def ask_at_terminal(params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
    """Ask on stderr and read the answers from stdin, field by field; an empty line selects the default, Ctrl-D cancels.

    It handles forms and URLs: a URL is shown in full and never opened. A second question waits for the end of the first
    one. Control characters in the server's text are escaped (see `terminal_safe`).
    """
    return cast("ElicitResult", await _in_turn("ask", params, question))


async def sample_at_terminal(params: CreateMessageRequestParams, question: ServerQuestion) -> str:
    """Return one line that the user types at the terminal in place of the model's answer.

    For trying a server out without a model.

    Raises:
        SamplingRefused: the user typed an empty line or Ctrl-D.
    """
    return cast("str", await _in_turn("sample", params, question))


async def _in_turn(what: str, params: Any, question: ServerQuestion) -> Any:
    """Return the result of the method ``what`` of a `_Form`, called in a thread; questions wait for each other."""
    async with _terminal():
        unwanted = threading.Event()
        try:
            asked = getattr(_Form(unwanted), what)
            return await anyio.to_thread.run_sync(asked, params, question, abandon_on_cancel=True)
        finally:
            unwanted.set()  # otherwise the thread waits for a line, and the interpreter's exit waits for the thread


_locks: dict[int, anyio.Lock] = {}


def _terminal() -> anyio.Lock:
    """Return the lock that makes questions of one event loop wait for each other."""
    from ferrule.transports.watch import runs_on_trio

    if runs_on_trio():
        import trio

        key = id(trio.lowlevel.current_root_task())
    else:
        import asyncio

        key = id(asyncio.get_running_loop())
    return _locks.setdefault(key, anyio.Lock())


class _Form:
    """One question at the terminal, in a thread of its own."""

    def __init__(self, unwanted: threading.Event) -> None:
        self._unwanted = unwanted

    def ask(self, params: ElicitRequestParams, question: ServerQuestion) -> ElicitResult:
        """Ask for each field, then whether to send the answers, and return the result."""
        _print(f"\n{question.server} asks: {params.message}\n")
        try:
            if params.mode == "url":
                _print(f"  Open this page yourself if you trust it: {params.url}\n")
                return ElicitResult("accept" if self._yes("  Will you?") else "decline")
            schema = params.requested_schema or {}
            properties = cast("Mapping[str, Mapping[str, Any]]", schema.get("properties") or {})
            required = set(cast("list[str]", schema.get("required") or []))
            content = {name: self._field(name, field, name in required) for name, field in properties.items()}
            given = {name: value for name, value in content.items() if value is not None}
            if len(properties) == 1 and all(field.get("type") == "boolean" for field in properties.values()):
                return ElicitResult("accept", content=given)  # yes or no was the question: it is not asked twice
            return ElicitResult("accept", content=given) if self._yes("  Send this?") else ElicitResult("decline")
        except EOFError:
            return ElicitResult("cancel")

    def sample(self, params: CreateMessageRequestParams, question: ServerQuestion) -> str:
        """Return one line that the user types for the model; raise `SamplingRefused` for an empty one."""
        _print(f"\n{question.server} asks your model (at most {params.max_tokens} tokens):\n")
        if params.system_prompt:
            _print(f"  system: {params.system_prompt}\n")
        for message in params.messages:
            blocks = message.content if isinstance(message.content, list) else [message.content]
            _print("".join(f"  {message.role}: {_words(block)}\n" for block in blocks))
        try:
            text = self._read("  Answer for it (an empty line refuses): ")
        except EOFError:
            text = ""
        if not text:
            raise SamplingRefused
        return text

    def _field(self, name: str, field: Mapping[str, Any], is_required: bool) -> Any:
        choices = _choices(field)
        label = field.get("title") or name
        kind = "y/n" if field.get("type") == "boolean" else field.get("type", "text")
        hint = f" {sorted(choices)}" if choices else f" ({kind})"
        default = f" [{field['default']}]" if "default" in field else ""
        if field.get("description"):
            _print(f"  {field['description']}\n")
        while True:
            text = self._read(f"  {label}{hint}{default}: ")
            if not text:
                if "default" in field:
                    return field["default"]
                if not is_required:
                    return None
                continue
            value = _value(text, field, choices)
            if value is not None:
                return value
            _print("  That does not fit.\n")

    def _yes(self, prompt: str) -> bool:
        return self._read(f"{prompt} [y/N] ").lower() in ("y", "yes")

    def _read(self, prompt: str) -> str:
        _print(prompt)
        if sys.platform != "win32" and sys.stdin.isatty():  # on Windows, `select` takes sockets only
            while not select.select([sys.stdin], [], [], _LOOK_S)[0]:
                if self._unwanted.is_set():
                    raise EOFError
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.strip()


def _words(block: ToolContentBlock) -> str:
    return block.text if isinstance(block.text, str) else f"[{block.type}]"


def _print(text: str) -> None:
    print(terminal_safe(text), end="", file=sys.stderr, flush=True)


def _choices(field: Mapping[str, Any]) -> list[str]:
    items = cast("Mapping[str, Any]", field.get("items") or {})
    for source in (field, items):
        if "enum" in source:
            return [str(value) for value in source["enum"]]
        for key in ("oneOf", "anyOf"):
            if key in source:
                return [str(option["const"]) for option in source[key]]
    return []


def _value(text: str, field: Mapping[str, Any], choices: list[str]) -> Any:
    kind = field.get("type")
    try:
        if kind == "array":
            picked = [part.strip() for part in text.split(",")]
            return picked if all(part in choices for part in picked) else None
        if choices:
            return text if text in choices else None
        if kind == "integer":
            return int(text)
        if kind == "number":
            return float(text)
    except ValueError:
        return None
    if kind == "boolean":
        return {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}.get(text.lower())
    return text
