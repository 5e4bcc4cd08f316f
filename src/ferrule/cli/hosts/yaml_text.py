"""Edits one member of a mapping of a YAML file, and keeps all other text.

The positions come from PyYAML, which the extra ``ferrule[openapi]`` brings.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from ferrule.cli.hosts.edits import FormatError, checked_edit, quoted
from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.yaml_data import YamlError, decode_yaml

__all__ = ["parse", "remove_entry", "set_entry"]

# Truth values and null in YAML 1.1, which hosts may read.
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})
_MAX_CHARS = 1 << 20
"""Of a file that is read; a file of half of it takes a second."""
_MAX_CHARS_IN_PYTHON = 1 << 17
"""The same where PyYAML has no parser in C, which is thirty times as fast."""
_MAX_VALUES: Final = 200_000
_NEEDS: Final = "a YAML file is read with PyYAML: pip install 'ferrule[openapi]'"


@lru_cache(maxsize=2)
def parse(text: str) -> Any:
    """Return the document, which is not to be changed; ``None`` for an empty text.

    Raises:
        FormatError: it is not YAML, is larger than 1 MiB or expands to more than 200,000 values; or PyYAML is missing.
    """
    with _reading(text):
        return decode_yaml(text, _MAX_VALUES, needs=_NEEDS)


def set_entry(text: str, key: str, name: str, entry: Mapping[str, Any]) -> str:
    """Return the text with the entry of a server added as the last one, or replaced.

    Raises:
        FormatError: the text is not YAML, or its servers are written in braces.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    root = _composed(text)
    lines = text.splitlines(keepends=True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += newline
    if root is None:
        after = [*lines, f"{key}:{newline}", *_lines(name, entry, 2, newline)]
        return checked_edit(parse, text, "".join(after), key, name, entry)
    found = _member(root, key)
    if found is None:
        lines += [f"{key}:{newline}", *_lines(name, entry, 2, newline)]
    elif getattr(found[1], "flow_style", True):  # a scalar: nothing behind the key; or braces
        at: int = found[0].start_mark.line
        if found[1].value:
            raise FormatError(f"the servers in {key!r} are written in braces, which cannot be edited here")
        head = lines[at].partition("{")[0] if "{" in lines[at] else lines[at]
        lines[at : at + 1] = [f"{head.rstrip()}{newline}", *_lines(name, entry, 2, newline)]
    else:
        indent = found[1].start_mark.column
        own = _range(lines, found[1], name)
        start, end = own if own is not None else (_end(lines, found[1], len(found[1].value) - 1),) * 2
        lines[start:end] = _lines(name, entry, indent, newline)
    return checked_edit(parse, text, "".join(lines), key, name, entry)


def remove_entry(text: str, key: str, name: str) -> str:
    """Return the text without the entry of a server; unchanged if there is none.

    Raises:
        FormatError: as `set_entry`.
    """
    root = _composed(text)
    found = None if root is None else _member(root, key)
    lines = text.splitlines(keepends=True)
    if found is not None and found[1].id == "mapping":
        own = _range(lines, found[1], name)
        if own is not None:
            del lines[slice(*own)]
    return checked_edit(parse, text, "".join(lines), key, name, None)


@contextmanager
def _reading(text: str) -> Generator[Any]:
    """Enter with the loader of PyYAML, in C where there is one, for a text that is not too large."""
    try:
        import yaml
    except ImportError as error:
        raise FormatError(_NEEDS) from error
    # A build of PyYAML without its parser in C lacks the name.
    loader = getattr(yaml, "CSafeLoader", None)
    most = _MAX_CHARS_IN_PYTHON if loader is None else _MAX_CHARS
    if len(text) > most:
        raise FormatError(f"it has more than {most} characters")
    # The collector looks at each new object again and again, and none of them can be freed before the end.
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield loader or yaml.SafeLoader
    except (yaml.YAMLError, YamlError, RecursionError, ValueError) as error:
        raise FormatError(str(error)) from error
    finally:
        if was_enabled:
            gc.enable()


def _composed(text: str) -> Any:
    """Return the root mapping as a node with positions; ``None`` for an empty text."""
    parse(text)  # checks the nesting, for which the parser in C has no bound
    with _reading(text) as loader:
        import yaml

        root: Any = yaml.compose(text, Loader=loader)
    if root is not None and (root.id != "mapping" or root.flow_style):
        raise FormatError("the document is no mapping, or is written in braces, which cannot be edited here")
    return root


def _member(mapping: Any, name: str) -> tuple[Any, Any] | None:
    return next((pair for pair in mapping.value if pair[0].value == name), None)


def _range(lines: list[str], mapping: Any, name: str) -> tuple[int, int] | None:
    """Return first line and end of a member; comments before the next member belong to that one."""
    for at, (key, _) in enumerate(mapping.value):
        if key.value == name:
            return key.start_mark.line, _end(lines, mapping, at)
    return None


def _end(lines: list[str], mapping: Any, at: int) -> int:
    """Return the line behind a member of a mapping."""
    members = mapping.value
    start = members[at][0].start_mark.line
    end: int = members[at + 1][0].start_mark.line if at + 1 < len(members) else mapping.end_mark.line
    if at + 1 == len(members) and mapping.end_mark.column > 0:
        end += 1  # the document ends within its last line
    end = min(end, len(lines))
    while end > start + 1 and (not lines[end - 1].strip() or lines[end - 1].lstrip().startswith("#")):
        end -= 1
    return end


def _lines(name: str, entry: Mapping[str, Any], indent: int, newline: str) -> list[str]:
    inner = " " * (indent + 2)
    body = [f"{inner}{_key(each)}: {_written(value)}{newline}" for each, value in entry.items()]
    return [f"{' ' * indent}{_key(name)}:{newline}", *body]


def _key(name: str) -> str:
    is_plain = name.isascii() and name.replace("_", "").replace("-", "").isalpha() and name[0].isalpha()
    return name if is_plain and name.lower() not in _WORDS else quoted(name)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if is_list(value):
        return f"[{', '.join(_written(part) for part in value)}]"
    if is_mapping(value):
        return "{" + ", ".join(f"{quoted(str(key))}: {_written(part)}" for key, part in value.items()) + "}"
    return str(value) if isinstance(value, int | float) else quoted(str(value))
