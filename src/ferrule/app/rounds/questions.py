"""Questions to the user, the model and the host as values: the request, and the conversion of its answer.

A `Question` is independent of the era: the engine sends it as a request or returns it as an input request, and converts
each raw answer with `Question.read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from ferrule.app.rounds.keys import content_digest, digest_of_texts
from ferrule.protocol.secret_forms import secret_arguments
from ferrule.wire.codec import convert, to_builtins
from ferrule.wire.faults import ConvertError, FerruleError
from ferrule.wire.types import CreateMessageResult, ElicitResult, ListRootsResult, Root

__all__ = [
    "CONFIRMATION",
    "Accepted",
    "Elicited",
    "Form",
    "MisfitAnswer",
    "Question",
    "Refused",
    "choice_form",
    "elicit_question",
    "elicit_url_question",
    "form_for",
    "roots_question",
    "sample_question",
]

DataT = TypeVar("DataT")

# Forms are flat objects of these ("Elicitation").
_PRIMITIVES: Final = frozenset({"string", "number", "integer", "boolean"})


CONFIRMATION: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean", "title": "Yes"}},
    "required": ["confirm"],
}
"""The form of `ferrule.Context.confirm`. The field has no default, so that no program says yes without a user."""


def choice_form(choices: Mapping[str, str] | Sequence[str]) -> dict[str, Any]:
    """Return the form of `ferrule.Context.choose`; revisions before 2025-11-25 get it as ``enum`` with ``enumNames``.

    Raises:
        ValueError: there are no choices.
    """
    if not choices:
        raise ValueError("choose needs at least one choice")
    if isinstance(choices, Mapping):
        field: dict[str, Any] = {"oneOf": [{"const": value, "title": label} for value, label in choices.items()]}
    else:
        field = {"enum": list(choices)}
    return {"type": "object", "properties": {"choice": {"type": "string", **field}}, "required": ["choice"]}


class MisfitAnswer(FerruleError, ValueError):
    """An answer does not fit its question; the engine asks the question again."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[DataT]):
    """The user answered; true in a condition.

    Attributes:
        data: the answer, as a value of the requested type; ``None`` for URLs.
        action: ``"accept"``.
    """

    data: DataT
    action: Literal["accept"] = "accept"

    def __bool__(self) -> Literal[True]:
        return True

    @property
    def accepted(self) -> Literal[True]:
        """Whether the user answered; pyright narrows `data` by the answer itself (``if answer:``), not by this."""
        return True


@dataclass(frozen=True, slots=True)
class Refused:
    """The user did not answer; false in a condition.

    Attributes:
        action: ``"decline"`` (no, explicitly) or ``"cancel"`` (dismissed without choosing).
    """

    action: Literal["decline", "cancel"]

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def accepted(self) -> Literal[False]:
        """Whether the user answered."""
        return False

    @property
    def data(self) -> None:
        """``None``: there is no answer."""
        return


Elicited: TypeAlias = Accepted[DataT] | Refused
"""The user's reaction to a question. A condition on it, or on its ``action``, narrows the type of ``data``."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question.

    Attributes:
        method: the method of the request that asks it.
        params: the params of that request, in wire shape; ``None`` for none.
        read: converts a raw result to the answer for the author.
        key: the author's own key; ``None`` for one made from the digest.
        timeout_s: seconds after which it expires; ``None`` for no limit.
        shared: concurrent branches that ask it send one request.
        digest: digest of the content, where it is known beforehand; ``None`` computes it from method and params.

    Raises (``read``):
        MisfitAnswer: the result does not fit.
    """

    method: str
    params: dict[str, Any] | None
    read: Callable[[Any], Any]
    key: str | None = None
    timeout_s: float | None = None
    shared: bool = False
    digest: str | None = None

    def content_digest(self) -> str:
        """Return a digest of the content, which is equal in all processes that ask the same question."""
        return content_digest([self.method, self.params]) if self.digest is None else self.digest


@dataclass(frozen=True, slots=True)
class Form:
    """A form for the user.

    Attributes:
        schema: as published; not to be changed.
        read: converts the content of an accepted answer to the author's type; raises `MisfitAnswer`.
        digest: equal for equal forms, also when a choice was made from a set, whose order differs between processes.
    """

    schema: dict[str, Any]
    read: Callable[[Any], Any]
    digest: str


def form_for(wanted: Any) -> Form:
    """Return the form for a type; made once for each type.

    Args:
        wanted: a class with primitive fields (dataclass, TypedDict, Struct, attrs, pydantic), a scalar type, enum or
            ``Literal`` (a form with one field ``value``), or a form schema, whose content stays a dict.

    Raises:
        TypeError: a field is not text, a number, a truth value or a choice (the author's mistake).
    """
    if isinstance(wanted, Mapping):
        # A copy: the author may change the mapping later, and the digest must stay.
        schema: dict[str, Any] = to_builtins(wanted)
        _refuse_secrets(schema)
        return _form_of(schema, _checked_by(schema))
    try:
        return _form_for_type(wanted)
    except TypeError:  # perhaps only because the type is not hashable: without the cache
        return _make_form(wanted)


def _refuse_secrets(schema: dict[str, Any]) -> None:
    """Refuse a form that asks for a secret (2026-07-28, "Elicitation": servers MUST NOT request sensitive information).

    Raises:
        TypeError: a field is secret by its schema (the author's mistake).
    """
    target = schema.get("$ref")
    if isinstance(target, str):
        inner: Any = schema.get("$defs", {}).get(target.rpartition("/")[2], {})
        schema = {**inner, "$defs": schema.get("$defs", {})}
    found = secret_arguments(schema)
    if found:
        raise TypeError(
            f"A form must not ask for a secret ({', '.join(sorted(found))}): "
            "send the user to a page of yours with ctx.elicit_url(...)"
        )


def _form_of(schema: dict[str, Any], read: Callable[[Any], Any]) -> Form:
    return Form(schema, read, content_digest(_in_order(schema)))


def _in_order(schema: Any) -> Any:
    """Return a schema with its choices sorted, for a digest that does not depend on their order."""
    if isinstance(schema, list):
        return [_in_order(item) for item in cast("list[Any]", cast("object", schema))]
    if not isinstance(schema, dict):
        return schema
    made = {name: _in_order(value) for name, value in cast("dict[str, Any]", cast("object", schema)).items()}
    for name in ("enum", "oneOf", "anyOf", "required"):
        if isinstance(made.get(name), list):
            # By digest, since members may be of any JSON type and cannot be compared.
            made[name] = sorted(made[name], key=content_digest)
    return made


def _make_form(wanted: Any) -> Form:
    from ferrule.app.signatures.annotations import shape_of
    from ferrule.app.signatures.coercion import lenient
    from ferrule.app.signatures.json_schema import exact_schema
    from ferrule.app.signatures.schema_profile import FORM_FORMATS, model_profile

    shape = shape_of(wanted)
    exact = exact_schema(shape)
    _refuse_secrets(exact if "properties" in exact or "$ref" in exact else {"properties": {"value": exact}})
    whole = model_profile(exact, formats=FORM_FORMATS)
    is_class = whole.get("type") == "object" and "properties" in whole
    if not is_class:
        # A form is an object; a scalar becomes its only field.
        whole = {"type": "object", "properties": {"value": whole}, "required": ["value"]}
    form, nullable = _form(whole, wanted)
    fillable = form["properties"].keys() - whole.get("required", ())
    takes_null = {name for name in fillable if is_class and _takes_null(exact, name)}

    def read(content: Any) -> Any:
        if not isinstance(content, Mapping):
            raise MisfitAnswer("the content is not an object")
        given = cast("Mapping[str, Any]", content)
        # As for arguments: null means that the field is absent, if its type forbids null and it has a default.
        made = {name: value for name, value in given.items() if value is not None or name not in fillable - takes_null}
        # Clients leave out fields that the user has not filled in; the author's type needs null for them.
        made |= {name: None for name in nullable if name not in made}
        if not is_class and "value" not in made:
            raise MisfitAnswer("the field value is missing")
        try:
            return lenient(made if is_class else made["value"], shape)
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            raise MisfitAnswer(str(error)) from error

    return _form_of(form, read)


def _takes_null(exact: dict[str, Any], name: str) -> bool:
    """Return whether null is a value of a property."""
    from ferrule.app.signatures.validation import problems_by

    schema: Any = exact.get("properties", {}).get(name, True)
    if not isinstance(schema, dict):
        return True
    return not problems_by({**cast("dict[str, Any]", schema), "$defs": exact.get("$defs", {})})(None)


_form_for_type = lru_cache(maxsize=512)(_make_form)


def _form(schema: dict[str, Any], wanted: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the form, and its fields that may stay empty because their type allows null."""
    properties: dict[str, dict[str, Any]] = {}
    nullable: set[str] = set()
    for name, written in cast("dict[str, dict[str, Any]]", schema["properties"]).items():
        field, allows_null = _without_null(written)
        if allows_null:
            nullable.add(name)
        kind = field.get("type")
        items = field.get("items")
        is_choice = "enum" in field or "oneOf" in field
        is_choices = kind == "array" and isinstance(items, dict) and ("enum" in items or "anyOf" in items)
        if not (is_choice or is_choices or kind in _PRIMITIVES):
            raise TypeError(
                f"{wanted!r} cannot be a form: its field {name!r} is not text, a number, a truth value or a choice"
            )
        properties[name] = field
    form: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [name for name in schema.get("required", ()) if name not in nullable]:
        form["required"] = required
    return form, nullable


def _without_null(field: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return a field without null, which forms cannot express, and whether its type allowed null."""
    members: list[dict[str, Any]] = field.get("anyOf", [])
    kept = [member for member in members if member.get("type") != "null"]
    if len(kept) == len(members):
        return field, False
    about = {key: value for key, value in field.items() if key != "anyOf" and not (key == "default" and value is None)}
    return ({**kept[0], **about} if len(kept) == 1 else {**about, "anyOf": kept}), True


def _checked_by(schema: dict[str, Any]) -> Callable[[Any], Any]:
    """Return a function that validates content against a form schema that the author wrote."""
    made: list[Callable[[Any], list[str]]] = []

    def read(content: Any) -> Any:
        if not isinstance(content, Mapping):
            raise MisfitAnswer("the content is not an object")
        # Compiled at the first answer: most forms are answered once, and the validator is a large import.
        if not made:
            from ferrule.app.signatures.validation import problems_by

            made.append(problems_by(schema))
        problems = made[0](content)
        if problems:
            raise MisfitAnswer("; ".join(problems))
        return cast("Any", content)

    return read


def elicit_question(message: str, wanted: Any, *, key: str | None = None, timeout_s: float | None = None) -> Question:
    """Return the question of a form for the user; see `form_for` for ``wanted`` and errors."""
    form = form_for(wanted)

    def read(raw: Any) -> Elicited[Any]:
        answer = _read(raw, ElicitResult)
        if answer.action != "accept":
            return Refused(answer.action)
        return Accepted(form.read(answer.content or {}))

    return Question(
        "elicitation/create",
        {"message": message, "requestedSchema": form.schema},
        read,
        key,
        timeout_s,
        digest=digest_of_texts("elicitation/create", message, form.digest),
    )


def elicit_url_question(
    message: str, url: str, *, elicitation_id: str | None, key: str | None = None, timeout_s: float | None = None
) -> Question:
    """Return the question whether the user opens a page; accepting is consent, not completion of the page.

    Args:
        message: the reason, shown to the user.
        url: the URL of the page.
        elicitation_id: the id of the elicitation, for revisions that require one; ``None`` for the others.
        key, timeout_s: see `Question`.
    """
    params: dict[str, Any] = {"mode": "url", "message": message, "url": url}
    if elicitation_id is not None:
        params["elicitationId"] = elicitation_id

    def read(raw: Any) -> Elicited[None]:
        action = _read(raw, ElicitResult).action
        return Accepted(None) if action == "accept" else Refused(action)

    return Question("elicitation/create", params, read, key, timeout_s)


def sample_question(
    messages: str | Sequence[Any],
    *,
    max_tokens: int,
    key: str | None = None,
    timeout_s: float | None = None,
    **options: Any,
) -> Question:
    """Return the question for one message of the client's model ("Sampling").

    Args:
        messages: one user text, or sampling messages.
        options: further params of ``sampling/createMessage`` under their wire names; ``None`` leaves one out.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
    params: dict[str, Any] = {"messages": to_builtins(list(messages)), "maxTokens": max_tokens}
    params.update({name: to_builtins(value) for name, value in options.items() if value is not None})
    return Question("sampling/createMessage", params, lambda raw: _read(raw, CreateMessageResult), key, timeout_s)


def roots_question(*, key: str | None = None, timeout_s: float | None = None) -> Question:
    """Return the question for the client's roots ("Roots")."""

    def read(raw: Any) -> list[Root]:
        return _read(raw, ListRootsResult).roots

    # Shared: roots are the same for all branches, and the question has no content that could differ.
    return Question("roots/list", None, read, key, timeout_s, shared=True, digest="roots")


T = TypeVar("T")


def _read(raw: Any, type_: type[T]) -> T:
    try:
        return convert(raw, type_)
    except ConvertError as error:
        raise MisfitAnswer(str(error)) from error
