"""The descriptions in a docstring: of the function, and of each parameter.

Docstrings of Google, NumPy and Sphinx (reST) style are parsed with ``docstring_parser``, which is imported only for a
docstring with a section of parameters. A docstring that cannot be parsed is used as a whole; it is never an error.
"""

from __future__ import annotations

import inspect
import re

import msgspec

__all__ = ["Doc", "parse", "summary"]

_SECTIONS = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Params|Keyword Args|Other Parameters|Returns?|Yields?|Raises|Examples?"
    r"|Attributes|Notes?|See Also)"
    r"[ \t]*:?[ \t]*$|:(?:param|arg|argument|parameter|key|keyword|type|returns?|rtype|raises?)\b)",
    re.MULTILINE,
)
_PARAMETERS = re.compile(
    r"^[ \t]*(?:(?:Args|Arguments|Parameters|Params|Keyword Args|Other Parameters)[ \t]*:?[ \t]*$"
    r"|:(?:param|arg|argument|parameter|key|keyword)\b)",
    re.MULTILINE,
)


class Doc(msgspec.Struct):
    """The parts of a docstring."""

    description: str | None = None
    """The text before the first section, with paragraphs kept; ``None`` when there is none."""
    parameters: dict[str, str] = {}
    """Name of a parameter → its description, on one line."""


def summary(text: str) -> str:
    """Return the part before the first section, dedented."""
    clean = inspect.cleandoc(text)
    found = _SECTIONS.search(clean)
    return (clean[: found.start()] if found else clean).strip()


def parse(text: str | None) -> Doc:
    """Return the parts of a docstring; an empty `Doc` for ``None`` and blank text."""
    if not text or not text.strip():
        return Doc()
    doc = Doc(summary(text) or None)
    if _PARAMETERS.search(inspect.cleandoc(text)):
        doc.parameters = _parameters(text)
    return doc


def _parameters(text: str) -> dict[str, str]:
    import docstring_parser

    try:
        parsed = docstring_parser.parse("-\n\n" + inspect.cleandoc(text))  # the library takes a first line as prose
    except docstring_parser.ParseError:
        return {}
    found: dict[str, str] = {}
    for entry in parsed.params:
        if not entry.description or entry.args[0] == "attribute":
            continue
        described = re.sub(r"\s*\n\s*", " ", entry.description.strip())
        for name in entry.arg_name.split(","):  # NumPy lets several parameters share one entry
            found[name.strip().lstrip("*")] = described
    return found
