"""The forms that services give their keys and tokens, so that text with one can be reported or masked.

Nothing can know all secrets: these are forms that have a fixed beginning, and names that people give to secrets.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

from ferrule.wire.json_types import is_list, is_mapping
from ferrule.wire.patterns import pattern

__all__ = ["MASK", "SecretTools", "is_secret_name", "mask_secrets", "secret_arguments", "secret_in"]

MASK: Final = "(masked)"
"""What stands in the place of a masked secret."""

_FORMS: Final = (
    ("a private key", pattern(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY(?: BLOCK)?-----[^-]*(?:-----END [A-Z ]+-----)?")),
    ("an access key of AWS", pattern(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b")),
    ("a token of GitHub", pattern(r"\bgh[oprsu]_[A-Za-z0-9]{36,}|\bgithub_pat_[A-Za-z0-9_]{50,}")),
    ("a token of GitLab", pattern(r"\bglpat-[A-Za-z0-9_-]{20,}")),
    ("a token of Slack", pattern(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}")),
    ("a key of Google", pattern(r"\bAIza[0-9A-Za-z_-]{35}")),
    ("a key of Stripe", pattern(r"\b[rs]k_live_[0-9A-Za-z]{20,}")),
    ("a key of OpenAI, Anthropic or a similar service", pattern(r"\bsk-[A-Za-z0-9_-]{24,}")),
    ("a token of Hugging Face", pattern(r"\bhf_[A-Za-z0-9]{30,}")),
    ("a token of npm", pattern(r"\bnpm_[A-Za-z0-9]{36}")),
    ("a token of PyPI", pattern(r"\bpypi-AgE[A-Za-z0-9_-]{50,}")),
    ("a JSON Web Token", pattern(r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}")),
    ("a bearer token", pattern(r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}=*")),
)
_PLACEHOLDER: Final = pattern(r"(?i)(.)\1{7}|example|your[-_]|placeholder|redacted|1234567890|dummy")
_NAME: Final = pattern(
    r"(?i)(?:.*[-_.])?(?:password|passwd|passphrase|pwd|pin|secret|token|api_?-?key|apikey|access_?-?key|private_?-?key"
    r"|credentials?|authorization|cookie)"
)
_NOT_SECRET: Final = pattern(
    r"(?i)(?:.*[-_.])?(?:page|next|progress|continuation|sync|max|num|count|input|output)[-_]?tokens?"
)
_WORD_BREAK: Final = pattern(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MAX_PARTS: Final = 10_000
_MAX_DEPTH: Final = 100
_NOWHERE: Final = object()
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_BY_NAME: Final = frozenset({"dependentSchemas", "dependencies"})
_IN_PLACE: Final = ("allOf", "anyOf", "oneOf", "if", "then", "else", *sorted(_BY_NAME))
_UNNAMED: Final = ("additionalProperties", "patternProperties", "unevaluatedProperties")
_NAMED_SCHEMAS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def secret_in(text: str) -> str | None:
    """Return what kind of secret stands in a text, such as ``"a token of GitHub"``; ``None`` for none.

    A value that is plainly an example, such as ``sk-xxxxxxxx…`` or one with ``EXAMPLE`` in it, is no secret.
    """
    for kind, form in _FORMS:
        for found in form.finditer(text):
            if not _PLACEHOLDER.search(found[0]):
                return kind
    return None


def is_secret_name(name: str) -> bool:
    """Return whether people call a secret so: ``api_key``, ``dbPassword``, ``authorization``."""
    spelled = _WORD_BREAK.sub("_", name)
    return _NAME.fullmatch(spelled) is not None and _NOT_SECRET.fullmatch(spelled) is None


def mask_secrets(value: Any, *, depth: int = 100) -> Any:
    """Return a JSON value with `MASK` in the place of secrets: members with such a name, and keys and tokens in texts.

    Of members that hold nothing (``null``, an empty text), a truth value or, in a schema, the description of an
    argument, only the parts are looked at.

    Args:
        value: the value; it is not changed.
        depth: how deep to look; what is deeper is masked whole.
    """
    return _masked(value, depth, is_schemas=False)


def _masked(value: Any, depth: int, *, is_schemas: bool) -> Any:
    if isinstance(value, str):
        for _, form in _FORMS:
            value = form.sub(MASK, value)
        return value
    if depth == 0 and isinstance(value, (dict, list)):
        return MASK
    if is_mapping(value):
        return {
            name: MASK
            if is_secret_name(name) and _holds(item) and not (is_schemas and is_mapping(item))
            else _masked(item, depth - 1, is_schemas=name in _NAMED_SCHEMAS)
            for name, item in value.items()
        }
    if is_list(value):
        return [_masked(item, depth - 1, is_schemas=False) for item in value]
    return value


def _holds(item: Any) -> bool:
    """Return whether a member can hold a secret: a number, too, which a PIN may be."""
    return item is not None and not isinstance(item, bool) and item not in ("", [], {})


def secret_arguments(schema: Any) -> frozenset[str]:
    """Return the names of the arguments that are secret by their schema, or have a part that is.

    References to a place of the same schema are followed. One to elsewhere, or to nothing, counts as secret; so does
    what is left of a schema of more than 10,000 parts, or deeper than 100. If that concerns arguments whose names are
    not known, every name is in the set.
    """
    return _Search(schema).arguments()


class _EveryName(frozenset[str]):
    """Has every name in it."""

    def __contains__(self, name: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


class _Search:
    """Looks for the secret parts of one schema."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._left = _MAX_PARTS

    def arguments(self) -> frozenset[str]:
        names: set[str] = set()
        return frozenset(names) if self._add_names(self._root, names, set(), 0) else _EveryName()

    def _add_names(self, schema: Any, names: set[str], seen: set[str], depth: int) -> bool:
        """Add the secret arguments of an object's schema; return whether their names are known."""
        if not is_mapping(schema):
            return True
        if depth > _MAX_DEPTH:
            return False
        properties: Any = schema.get("properties")
        if is_mapping(properties):
            names.update(str(name) for name, part in properties.items() if self._is_secret(part, set(), 0))
        if any(self._is_secret(schema.get(word), set(), 0) for word in _UNNAMED):
            return False
        beside: list[Any] = [self._target(found) for found in self._new_references(schema, seen)]
        for word in _IN_PLACE:
            part: Any = schema.get(word)
            # The schemas of `dependentSchemas` stand under names.
            beside += part if is_list(part) else part.values() if word in _BY_NAME and is_mapping(part) else [part]
        return all(each is not _NOWHERE and self._add_names(each, names, seen, depth + 1) for each in beside)

    def _is_secret(self, schema: Any, seen: set[str], depth: int) -> bool:
        if is_list(schema):
            return self._ends(depth) or any(self._is_secret(each, seen, depth + 1) for each in schema)
        if not is_mapping(schema):
            return schema is _NOWHERE
        if self._ends(depth):
            return True
        if schema.get("writeOnly") is True or schema.get("format") == "password":
            return True
        targets = [self._target(found) for found in self._new_references(schema, seen)]
        return any(self._is_secret(part, seen, depth + 1) for part in (*targets, *schema.values()))

    def _ends(self, depth: int) -> bool:
        """Count a part, and return whether it is beyond a bound."""
        self._left -= 1
        return self._left < 0 or depth > _MAX_DEPTH

    @staticmethod
    def _new_references(schema: Mapping[str, Any], seen: set[str]) -> list[str]:
        found = [text for word in _REFERENCES if isinstance(text := schema.get(word), str) and text not in seen]
        seen.update(found)
        return found

    def _target(self, reference: str) -> Any:
        """Return what a JSON pointer (RFC 6901) in a fragment refers to; `_NOWHERE` for another reference."""
        fragment = unquote(reference.removeprefix("#"))
        if not reference.startswith("#") or (fragment and not fragment.startswith("/")):
            return _NOWHERE
        found: Any = self._root
        for step in fragment.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            if is_mapping(found) and name in found:
                found = found[name]
            elif is_list(found) and name.isascii() and name.isdigit() and len(name) < 9 and int(name) < len(found):
                found = found[int(name)]
            else:
                return _NOWHERE
        return found


class SecretTools:
    """The secret arguments of tools, learned from their definitions, so that messages can be masked.

    Bounded: at most 10,000 tools.
    """

    def __init__(self) -> None:
        self._names: dict[str, frozenset[str]] = {}

    def learn(self, definitions: Iterable[Any]) -> None:
        """Learn from entries of ``tools/list``; others are ignored."""
        for each in definitions:
            name: Any = each.get("name") if is_mapping(each) else None
            found = secret_arguments(each.get("inputSchema")) if isinstance(name, str) else frozenset[str]()
            if isinstance(name, str):
                self.note(name, found)

    def note(self, name: str, secret: frozenset[str]) -> None:
        """Note the secret arguments of a tool."""
        if secret and len(self._names) < 10_000:
            self._names[name] = secret

    def learn_from(self, message: Any) -> None:
        """Learn from a message, if it is an answer to ``tools/list``."""
        result: Any = message.get("result") if is_mapping(message) else None
        tools: Any = result.get("tools") if is_mapping(result) else None
        if is_list(tools):
            self.learn(tools)

    def masked_call(self, params: Any) -> Any:
        """Return the params of ``tools/call`` with `MASK` in place of secret arguments; other params as they are."""
        if not is_mapping(params) or not isinstance(params.get("name"), str):
            return params
        name, given = params["name"], params.get("arguments")
        if name == "call_tool" and is_mapping(given):  # of a search of tools
            return {**params, "arguments": self.masked_call(given)}
        secret = self._names.get(name)
        if secret is None or not is_mapping(given):
            return params
        return {**params, "arguments": {key: MASK if key in secret else value for key, value in given.items()}}

    def masked(self, message: Any) -> Any:
        """Return a message, or a batch of them, with `MASK` in place of secret arguments."""
        if is_list(message):
            return [self.masked(each) for each in message]
        if not is_mapping(message) or message.get("method") != "tools/call":
            return message
        return {**message, "params": self.masked_call(message.get("params"))}
