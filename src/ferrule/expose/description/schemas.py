"""Converts schemas of OpenAPI 3.0, 3.1 and 3.2 to JSON Schema 2020-12, for arguments and for results.

Published descriptions often have errors, which are repaired where possible: a keyword whose value has the wrong type is
removed, a misspelt type is corrected, a reference without a target accepts any value. Each repair is noted.

* ``readOnly`` schemas are left out of inputs, ``writeOnly`` ones out of results.
* ``nullable``, boolean ``exclusiveMinimum`` and ``example`` (3.0) get the form of 2020-12.
* ``discriminator`` becomes a constant of the discriminating member in each alternative.
* References become references into ``$defs``, so that recursive types work; small definitions replace their references.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias
from urllib.parse import unquote, urldefrag

from msgspec import Struct

from ferrule.expose.description.keywords import (
    ANNOTATIONS,
    LISTS,
    MAPS,
    PLACES,
    is_small,
    one_enumeration,
    or_null,
    plain_keywords,
    says_the_name,
    type_names,
    without_keywords,
)
from ferrule.expose.description.names import clean
from ferrule.expose.description.references import References, UnresolvedReference, resolved
from ferrule.expose.operations import Schema
from ferrule.wire.codec import encode
from ferrule.wire.json_types import is_list, is_object

__all__ = ["Definition", "Direction", "Flat", "Member", "SchemaConverter"]

Direction: TypeAlias = Literal["input", "output"]

MAX_NESTING = 60
"""Maximum depth of a schema; deeper parts accept any value."""

MAX_FLAT_MEMBERS = 1000
"""Maximum number of members and ``allOf`` parts of a body whose members become arguments."""

MAX_HIDDEN_NAMES = 2000
"""Maximum number of read-only or write-only members of an object that are removed from ``required``."""

MAX_DEFINITION_NAME = 80
"""Maximum number of characters of a definition's name."""

MAX_NOTES = 20
"""Maximum number of notes about repairs of one schema."""


class Member(Struct, frozen=True, kw_only=True):
    """A member of an object: its schema, as described, and the URI of the schema's document."""

    raw: Any
    base: str


class Flat(Struct, frozen=True, kw_only=True):
    """An object schema whose members are known: its ``properties``, also through references and ``allOf``."""

    members: dict[str, Member]
    required: frozenset[str]


class Definition:
    """One entry of ``$defs``.

    Args:
        name: its name in ``$defs``.
        schema: the converted schema.
        references: absolute references of the definitions that it uses.
        notes: descriptions of its repairs.
        is_inexact: whether it accepts more than described, because a part was repaired or left out.
    """

    __slots__ = ("_forms", "is_inexact", "name", "notes", "references", "schema")

    def __init__(
        self, name: str, schema: Schema, references: tuple[str, ...], notes: tuple[str, ...], *, is_inexact: bool
    ) -> None:
        self.name = name
        self.schema = schema
        self.references = references
        self.notes = notes
        self.is_inexact = is_inexact
        self._forms: dict[frozenset[str], tuple[Schema, int]] = {}

    def form(self, without: frozenset[str]) -> tuple[Schema, int]:
        """Return the schema without some keywords, and its size as an entry of ``$defs`` in bytes; made once."""
        made = self._forms.get(without)
        if made is None:
            schema: Schema = without_keywords(self.schema, without) if without else self.schema
            made = self._forms[without] = schema, len(encode(schema)) + len(self.name) + 4
        return made


_NOT_BESIDE_ALTERNATIVES = frozenset({"oneOf", "anyOf", "enum", "type", "description", "discriminator"})
"""Keywords beside which alternatives are not made one enumeration."""


class SchemaConverter:
    """Converts the schemas of one document for one direction; a definition is converted once.

    Args:
        references: the references of the document.
        has_nullable: whether the document is OpenAPI 3.0, whose schemas are not JSON Schema.
        direction: ``input`` leaves out read-only members, ``output`` write-only ones.
    """

    def __init__(self, references: References, *, has_nullable: bool, direction: Direction) -> None:
        self._references = references
        self._has_nullable = has_nullable
        self._hidden_flag = "readOnly" if direction == "input" else "writeOnly"
        self._definitions: dict[str, Definition] = {}
        self._names: dict[str, str] = {}
        self._taken: dict[str, int] = {}
        self._hidden: dict[str, frozenset[str]] = {}
        self._notes: list[str] = []
        self._used: dict[str, None] = {}
        self._losses = 0

    def convert(self, raw: Any, base: str, notes: list[str]) -> tuple[Schema, list[str]]:
        """Return a schema, and the absolute references of the definitions that it uses.

        Args:
            raw: the described schema.
            base: the URI of its document.
            notes: descriptions of repairs are appended.

        Raises:
            UnresolvedReference: it refers to a document that may not be fetched.
        """
        outer = self._notes, self._used
        self._notes, self._used = notes, {}
        try:
            return self._schema(raw, base, 0), list(self._used)
        finally:
            self._notes, self._used = outer

    def definition(self, absolute: str) -> Definition:
        """Return the definition of an absolute reference; it is converted once.

        Raises:
            UnresolvedReference: see `convert`.
        """
        found = self._definitions.get(absolute)
        if found is None:
            notes: list[str] = []
            before = self._losses
            schema, used = self.convert(self._references.lookup(absolute), urldefrag(absolute).url, notes)
            found = Definition(
                self._name(absolute), schema, tuple(used), tuple(notes), is_inexact=self._losses != before
            )
            self._definitions[absolute] = found
        return found

    def is_hidden(self, raw: Any, base: str) -> bool:
        """Return whether a member is read-only (input) or write-only (output), by its own schema or its reference."""
        for _ in range(8):
            if not is_object(raw):
                return False
            if raw.get(self._hidden_flag) is True:
                return True
            parts = raw.get("allOf")
            if is_list(parts) and any(is_object(part) and part.get(self._hidden_flag) is True for part in parts):
                return True
            reference = raw.get("$ref")
            if not isinstance(reference, str):
                return False
            absolute = self._references.absolute(reference, base)
            try:
                raw, base = self._references.lookup(absolute), urldefrag(absolute).url
            except UnresolvedReference:
                return False
        return False

    def flat(self, raw: Any, base: str) -> Flat | None:
        """Return the members of an object schema; ``None`` if they are not all known, or depend on each other.

        Raises:
            UnresolvedReference: see `convert`.
        """
        members: dict[str, Member] = {}
        required: set[str] = set()
        if not self._flatten(raw, base, members, required, [MAX_FLAT_MEMBERS], 0) or not members:
            return None
        shown = {name: member for name, member in members.items() if not self.is_hidden(member.raw, member.base)}
        return Flat(members=shown, required=frozenset(required & shown.keys()))

    def _flatten(
        self, raw: Any, base: str, members: dict[str, Member], required: set[str], room: list[int], depth: int
    ) -> bool:
        """Collect the members of an object; return whether all are known. ``room`` has the number of further parts."""
        room[0] -= 1
        if depth > 16 or room[0] < 0:
            return False
        raw, base = self._references.follow(raw, base)
        if not is_object(raw):
            return False
        if type_names(raw.get("type")) - {"object"} or raw.get("nullable") is True:
            return False
        if any(raw.get(keyword) for keyword in ("oneOf", "anyOf", "not", "if", "patternProperties", "discriminator")):
            return False
        if raw.get("additionalProperties") not in (None, False):
            return False
        parts = raw.get("allOf")
        if is_list(parts) and not all(self._flatten(part, base, members, required, room, depth + 1) for part in parts):
            return False
        properties = raw.get("properties")
        if is_object(properties):
            room[0] -= len(properties)
            if room[0] < 0:
                return False
            for name, value in properties.items():
                if name in members and members[name].raw != value:  # both hold, which one member cannot say
                    value = {"allOf": [members[name].raw, value]}
                members[name] = Member(raw=value, base=base)
        needed = raw.get("required")
        if is_list(needed):
            required.update(name for name in needed if isinstance(name, str))
        return True

    # -- one schema ------------------------------------------------------------------------------------------------

    def _schema(self, raw: Any, base: str, depth: int) -> Schema:
        if isinstance(raw, bool):
            return raw
        if not is_object(raw):
            self._note("a schema that is not an object accepts anything now")
            return True
        if depth > MAX_NESTING:
            self._note(f"schemas nested more than {MAX_NESTING} levels deep accept anything")
            return True
        identifier = raw.get("$id")
        if isinstance(identifier, str):
            base = resolved(identifier, base)
        reference = raw.get("$ref")
        if isinstance(reference, str):
            return self._reference(raw, reference, base, depth)
        made: dict[str, Any] = {}
        for keyword, value in raw.items():
            self._keyword(made, raw, keyword, value, base, depth)
        self._finish_object(made, raw, base)
        self._finish_all_of(made, raw, base)
        self._finish_alternatives(made, raw, base)
        if raw.get("nullable") is True and self._has_nullable:
            return or_null(made)
        return made

    def _reference(self, raw: dict[str, Any], reference: str, base: str, depth: int) -> Schema:
        absolute = self._references.absolute(reference, base)
        try:
            target = self._target(absolute, depth)
        except UnresolvedReference as error:
            if error.is_remote:
                raise
            self._note(f"{error}; it accepts anything now")
            return True
        others = {name: value for name, value in raw.items() if name != "$ref"}
        if self._has_nullable:  # 3.0 ignores what stands beside a reference; a description does no harm
            if others.get("nullable") is True:
                target = or_null(target)
            others = {name: others[name] for name in ("title", "description") if isinstance(others.get(name), str)}
        beside = self._schema(others, base, depth + 1) if others else True
        if beside is False or target is False:
            return False
        if beside is True or not beside:
            return target
        if target is True:
            return beside
        if (beside.keys() & target.keys()) - ANNOTATIONS:
            return {"allOf": [target, beside]}
        return {**target, **beside}

    def _target(self, absolute: str, depth: int) -> Schema:
        """Return the replacement of a reference: a small definition, else a reference into ``$defs``."""
        raw = self._references.lookup(absolute)
        is_alias = is_object(raw) and "$ref" in raw and not raw.keys() - ANNOTATIONS - {"$ref"}
        if not is_object(raw) or is_alias or is_small(raw):
            return self._schema(raw, urldefrag(absolute).url, depth + 1)
        self._used[absolute] = None
        return {"$ref": f"#/$defs/{self._name(absolute)}"}

    def _name(self, absolute: str) -> str:
        """Return the name of a definition: the last step of its reference, with a number if that is taken."""
        known = self._names.get(absolute)
        if known is None:
            base = clean(unquote(absolute.rsplit("/", 1)[-1]))[:MAX_DEFINITION_NAME] or "Schema"
            known, number = base, self._taken.get(base, 0)
            while known in self._taken:
                number += 1
                known = f"{base}_{number + 1}"
            self._taken[base] = number
            self._taken.setdefault(known, 0)
            self._names[absolute] = known
        return known

    # -- keywords --------------------------------------------------------------------------------------------------

    def _keyword(
        self, made: dict[str, Any], raw: dict[str, Any], keyword: str, value: Any, base: str, depth: int
    ) -> None:
        if keyword in MAPS:
            if not is_object(value):
                self._note(f"{keyword!r} was not an object")
            elif keyword == "properties":
                made[keyword] = self._properties(value, base, depth)
            else:
                made[keyword] = {name: self._schema(part, base, depth + 1) for name, part in value.items()}
        elif keyword in LISTS:
            if is_list(value) and value:
                before = self._losses
                made[keyword] = [self._schema(part, base, depth + 1) for part in value]
                if keyword == "oneOf" and self._losses != before and "anyOf" not in raw:
                    made["anyOf"] = made.pop("oneOf")  # more than one may fit what was loosened
                elif keyword != "allOf" and not raw.keys() & _NOT_BESIDE_ALTERNATIVES - {keyword}:
                    found = one_enumeration(made[keyword])
                    if found is not None:
                        del made[keyword]
                        made.update(found)
            else:
                self._note(f"{keyword!r} was not a list of schemas")
        elif keyword == "items" and is_list(value):  # the form of drafts before 2020-12
            made["prefixItems"] = [self._schema(part, base, depth + 1) for part in value]
        elif keyword in PLACES:
            before = self._losses
            made[keyword] = self._schema(value, base, depth + 1)
            if keyword in ("not", "if") and self._losses != before:  # what accepts more would refuse more here
                del made[keyword]
        else:
            made.update(plain_keywords(raw, keyword, value, self._note, has_nullable=self._has_nullable))

    def _properties(self, value: dict[str, Any], base: str, depth: int) -> dict[str, Schema]:
        made: dict[str, Schema] = {}
        for name, part in value.items():
            if self.is_hidden(part, base):
                self._losses += 1
                continue
            schema = self._schema(part, base, depth + 1)
            if not isinstance(schema, bool) and says_the_name(schema.get("title"), name):
                schema = {keyword: schema[keyword] for keyword in schema if keyword != "title"}
            made[name] = schema
        return made

    def _finish_object(self, made: dict[str, Any], raw: dict[str, Any], base: str) -> None:
        needed = made.get("required")
        if not needed:
            return
        hidden = self._hidden_names(raw, base, 0)
        if hidden:
            made["required"] = [name for name in needed if name not in hidden]
        if not made["required"]:
            del made["required"]

    def _hidden_names(self, raw: Any, base: str, depth: int) -> frozenset[str]:
        """Return the members that are left out of an object, ``allOf`` and references included."""
        reference = raw.get("$ref") if is_object(raw) else None
        if not isinstance(reference, str):
            return self._hidden_of(raw, base, depth)
        absolute = self._references.absolute(reference, base)
        found = self._hidden.get(absolute)
        if found is None:
            self._hidden[absolute] = frozenset()  # for a reference in a circle
            try:
                target, inner = self._references.follow(raw, base)
            except UnresolvedReference:
                return frozenset()
            found = self._hidden[absolute] = self._hidden_of(target, inner, depth)
        return found

    def _hidden_of(self, raw: Any, base: str, depth: int) -> frozenset[str]:
        if depth > MAX_NESTING or not is_object(raw):
            return frozenset()
        found: set[str] = set()
        properties = raw.get("properties")
        if is_object(properties):
            found.update(name for name, part in properties.items() if self.is_hidden(part, base))
        parts = raw.get("allOf")
        for part in parts if is_list(parts) else ():
            found |= self._hidden_names(part, base, depth + 1)
        return frozenset(found) if len(found) <= MAX_HIDDEN_NAMES else frozenset()

    def _finish_all_of(self, made: dict[str, Any], raw: dict[str, Any], base: str) -> None:
        """Take from the members of ``allOf`` the names that another member of it has left out."""
        parts: list[Any] = made.get("allOf", [])
        named = [part for part in parts if is_object(part) and part.get("required")]
        hidden = self._hidden_names(raw, base, 0) if named else frozenset[str]()
        for part in named if hidden else ():
            part["required"] = [name for name in part["required"] if name not in hidden]
            if not part["required"]:
                del part["required"]

    def _finish_alternatives(self, made: dict[str, Any], raw: dict[str, Any], base: str) -> None:
        """Add to each alternative of a discriminated union its value of the discriminating member."""
        discriminator = raw.get("discriminator")
        name = discriminator.get("propertyName") if is_object(discriminator) else None
        if not isinstance(name, str):
            return
        mapping: Any = discriminator.get("mapping") if is_object(discriminator) else None
        values: dict[str, list[str]] = {}
        if is_object(mapping):
            for value, target in mapping.items():
                if isinstance(target, str):
                    reference = target if "/" in target or "#" in target else f"#/components/schemas/{target}"
                    values.setdefault(self._references.absolute(reference, base), []).append(value)
        for keyword in ("oneOf", "anyOf"):
            alternatives = raw.get(keyword)
            if not is_list(alternatives) or keyword not in made:
                continue
            for index, alternative in enumerate(alternatives):
                target = alternative.get("$ref") if is_object(alternative) else None
                if not isinstance(target, str):
                    continue
                absolute = self._references.absolute(target, base)
                own = values.get(absolute) or [unquote(absolute.rsplit("/", 1)[-1])]
                if (values and absolute not in values) or self._has_own_values(absolute, name):
                    continue
                constant = {"const": own[0]} if len(own) == 1 else {"enum": own}
                made[keyword][index] = {
                    "allOf": [made[keyword][index], {"properties": {name: constant}, "required": [name]}]
                }

    def _has_own_values(self, absolute: str, member: str) -> bool:
        """Return whether an alternative itself restricts the values of its discriminating member."""
        try:
            target, base = self._references.follow({"$ref": absolute}, "")
            properties = target.get("properties") if is_object(target) else None
            part = properties.get(member) if is_object(properties) else None
            part, _ = self._references.follow(part, base)
        except UnresolvedReference:
            return True
        return is_object(part) and ("const" in part or bool(part.get("enum")))

    def _note(self, text: str) -> None:
        self._losses += 1
        if len(self._notes) < MAX_NOTES and text not in self._notes:
            self._notes.append(text)
