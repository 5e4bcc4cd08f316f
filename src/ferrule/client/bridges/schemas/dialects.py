"""What each model API takes of JSON Schema, as tables.

Sources, read 2026-11-29: OpenAI, "Structured outputs", supported schemas, and "Function calling"; Anthropic, "Define
tools" and "Structured outputs", JSON Schema limitations; Google, "Structured outputs", JSON Schema support, and the
reference of ``FunctionDeclaration`` and ``Schema``. What an API refuses without saying so in its documentation is from
its error messages: a union at the root, an array without ``items``, names of properties.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

__all__ = [
    "ANTHROPIC",
    "ANTHROPIC_STRICT",
    "GEMINI",
    "GEMINI_OPENAPI",
    "OPENAI",
    "OPENAI_STRICT",
    "Dialect",
]

_JSON_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
_SIMPLE = _JSON_TYPES - {"array", "object"}
_WORDS = frozenset({"title", "description"})
_STRINGS = frozenset({"minLength", "maxLength", "pattern"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ARRAYS = frozenset({"items", "minItems", "maxItems"})
_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_CORE = _WORDS | {"type", "enum", "anyOf", "format"}
_ALL = (
    _CORE
    | _STRINGS
    | _NUMBERS
    | _ARRAYS
    | _OBJECTS
    | frozenset({"const", "default", "examples", "prefixItems", "uniqueItems", "patternProperties"})
    | frozenset({"minProperties", "maxProperties", "contentEncoding", "contentMediaType"})
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """A subset of JSON Schema.

    Attributes:
        name: the name in error messages.
        keywords: the keywords that stay. Bounds, defaults and formats among the others are written in the description.
        formats: the formats of text that stay; ``None``: all.
        recursion: whether a schema may contain itself; otherwise it is unrolled twice and then open.
        type_lists: whether ``type`` may be a list.
        nullable: whether null is ``nullable: true`` and not a type.
        enums: the types of the values of sets that stay.
        typed: whether every schema needs a type, so that "any value" is a union of all types.
        closed: whether every object must have ``additionalProperties: false``.
        all_required: whether every property must be required, so that an optional one takes null.
        property_names: what names of properties look like; ``None``: anything.
        max_depth, max_properties, max_enum, max_chars: limits of nesting, of properties, of values in all sets, and of
            characters in names and sets; ``None``: no documented limit.
    """

    name: str
    keywords: frozenset[str]
    formats: frozenset[str] | None = None
    recursion: bool = True
    type_lists: bool = True
    nullable: bool = False
    enums: frozenset[str] = _JSON_TYPES
    typed: bool = False
    closed: bool = False
    all_required: bool = False
    property_names: re.Pattern[str] | None = None
    max_depth: int | None = None
    max_properties: int | None = None
    max_enum: int | None = None
    max_chars: int | None = None

    @property
    def is_strict(self) -> bool:
        """Whether some schemas cannot be written in it, such as an object of any members."""
        return self.closed


_STRICT_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})

OPENAI: Final = Dialect("OpenAI", _ALL)
OPENAI_STRICT: Final = Dialect(
    "OpenAI, strict",
    _CORE | _NUMBERS | _ARRAYS | _OBJECTS | {"pattern", "const"},
    formats=_STRICT_FORMATS,
    enums=_SIMPLE,
    closed=True,
    all_required=True,
    max_depth=10,
    max_properties=5000,
    max_enum=1000,
    max_chars=120_000,
)
ANTHROPIC: Final = Dialect("Anthropic", _ALL, property_names=re.compile(r"[A-Za-z0-9_.-]{1,64}"))
ANTHROPIC_STRICT: Final = replace(
    ANTHROPIC,
    name="Anthropic, strict",
    keywords=_CORE | _OBJECTS | {"items", "const", "default"},
    formats=_STRICT_FORMATS | {"uri"},
    recursion=False,
    enums=_SIMPLE,
    closed=True,
)
GEMINI: Final = Dialect(
    "Gemini",
    _CORE | _ARRAYS | _OBJECTS | {"minimum", "maximum", "prefixItems"},
    formats=frozenset({"date-time", "date", "time"}),
    recursion=False,
    enums=frozenset({"string", "integer", "number"}),
)
GEMINI_OPENAPI: Final = Dialect(
    "Gemini, OpenAPI",
    _CORE
    | _ARRAYS
    | _STRINGS
    | {"minimum", "maximum", "properties", "required", "minProperties", "maxProperties", "nullable"},
    formats=frozenset({"date-time", "enum"}),
    recursion=False,
    type_lists=False,
    nullable=True,
    enums=frozenset({"string"}),
    typed=True,
    property_names=re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}"),
)
