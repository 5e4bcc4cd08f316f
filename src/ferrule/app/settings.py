"""Settings of a server, declared once as a class and read from the environment.

``settings = app.declare_settings(Settings)`` reads nothing yet: a file with a server is also imported to list, install
or package it. The variables are read when the server starts, and all problems are reported together, by the names of
the variables and without their values. `DeclaredSettings.fields` describes the same settings for those who package or
install the server.

The class is a dataclass, a ``msgspec.Struct``, an attrs class or a pydantic model. Each field is one variable: its name
in capitals, behind the prefix. Text becomes the declared type as arguments of tools do; lists are separated by commas.
"""

from __future__ import annotations

import logging
import os
import re
import typing
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec

from ferrule.app.signatures import adapters, docstrings
from ferrule.app.signatures.annotations import shape_of
from ferrule.app.signatures.coercion import lenient, say
from ferrule.app.signatures.json_schema import exact_schema
from ferrule.app.signatures.shapes import Shape, is_secret_shape, kinds_of, split_path
from ferrule.wire.codec import decode
from ferrule.wire.faults import DecodeError, FerruleError
from ferrule.wire.json_types import is_array, is_list
from ferrule.wire.struct import Value

__all__ = ["DeclaredSettings", "Setting", "SettingField", "SettingProblem", "SettingsError"]

logger = logging.getLogger("ferrule.app")

T = TypeVar("T")

SettingKind = Literal["string", "number", "boolean", "file", "directory"]

_MARK: Final = "ferrule_setting"
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})
_MOST_WARNINGS: Final = 20
# Names with the same prefix are similar anyway.
_SIMILARITY: Final = 0.85
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a host leaves in the place of a value that its user did not give (MCPB, "user_config").
_UNFILLED: Final = re.compile(r"\$\{user_config\.[^}]*\}")


def Setting(  # noqa: N802 - reads like the type it stands beside, as `Field`
    description: str | None = None,
    *,
    title: str | None = None,
    secret: bool = False,
    variable: str | None = None,
    directory: bool = False,
) -> msgspec.Meta:
    """Return the description of a setting for ``Annotated[type, Setting(...)]``.

    Bounds are those of `Field`, which may stand beside it.

    Args:
        description: the meaning of the setting, for the person who installs the server.
        title: a label for people; ``None`` makes one of the name.
        secret: whether it is a password, a token or a key. Hosts keep it in secure storage where they have one.
        variable: the name of its environment variable; ``None`` for the field's name in capitals, behind the prefix.
        directory: a path is that of a folder, and not of a file.

    Raises:
        ValueError: ``variable`` cannot be the name of a variable.
    """
    if variable is not None and not _VARIABLE.fullmatch(variable):
        raise ValueError(f"{variable!r} cannot be the name of an environment variable")
    mark = {"secret": secret, "variable": variable, "directory": directory}
    return msgspec.Meta(description=description, title=title, extra={_MARK: mark})


class SettingField(Value, frozen=True, kw_only=True):
    """One setting, for those who ask a person for it.

    Attributes:
        name: the name of the field in its class.
        variable: the name of the environment variable.
        kind: what is asked for; ``"string"`` for all that is written as text.
        title, description: texts for people; the description is empty without one.
        is_required: whether the server does not start without it.
        is_secret: whether it is a password, a token or a key.
        is_list: whether it is several values, in the variable with commas between them.
        default: the JSON value that stands in for a missing one; ``None`` without, and for one that is made at start.
        choices: the only values that are allowed; empty for no such limit.
        minimum, maximum: bounds of a number; ``None`` for none.
    """

    name: str
    variable: str
    kind: SettingKind
    title: str
    description: str
    is_required: bool
    is_secret: bool
    is_list: bool
    default: Any
    choices: tuple[str, ...]
    minimum: float | None
    maximum: float | None

    @property
    def default_text(self) -> str | None:
        """The default as it would be written in the variable; ``None`` without one."""
        found = self.default
        if is_list(found):
            return ",".join(_text_of(part) for part in found)
        return None if found is None else _text_of(found)


class SettingProblem(Value, frozen=True):
    """What is wrong with one variable; ``variable`` is empty for a problem of the settings as a whole."""

    variable: str
    reason: str


class SettingsError(FerruleError, ValueError):
    """Settings are missing or wrong. The text names the variables and never their values.

    Attributes:
        problems: all problems that were found.
    """

    def __init__(self, server: str, problems: Sequence[SettingProblem]) -> None:
        self.problems = list(problems)
        lines = [f"- {each.variable} {each.reason}" if each.variable else f"- {each.reason}" for each in problems]
        super().__init__("\n".join([f"{server} cannot start: its settings are missing or wrong", *lines]))


class _Field(msgspec.Struct):
    """A field of the class: what is known of it, its shape, and its name when an instance is made."""

    public: SettingField
    shape: Shape
    argument: str


class DeclaredSettings(Generic[T]):
    """The settings of a server; `MCPServer.declare_settings` makes it.

    Args:
        server: the name of the server, for errors.
        cls: the class of the settings.
        prefix: stands before the names of variables.
        environ: the variables; ``None`` for those of the process at the time of reading.

    Attributes:
        fields: the settings in the order of the class.

    Raises:
        TypeError: ``cls`` is no class with fields, or a field has a type that cannot be written as text.
        ValueError: two settings have the same variable, or a name cannot be one of a variable.
    """

    def __init__(
        self, server: str, cls: type[T], *, prefix: str = "", environ: Mapping[str, str] | None = None
    ) -> None:
        self._server = server
        self._cls = cls
        self._environ = environ
        self._prefix = prefix
        self._fields = _fields_of(cls, prefix)
        self._value: T | None = None
        self.fields: tuple[SettingField, ...] = tuple(field.public for field in self._fields)

    def __repr__(self) -> str:
        return f"DeclaredSettings({self._cls.__name__})"

    @property
    def value(self) -> T:
        """The settings; read at the start of the server, or when they are first used.

        Raises:
            SettingsError: variables are missing or wrong.
        """
        if self._value is None:
            self._value = self._read(os.environ if self._environ is None else self._environ)
        return self._value

    @contextmanager
    def use(self, value: T) -> Generator[T]:
        """Use other settings inside the ``with`` block, for tests."""
        before, self._value = self._value, value
        try:
            yield value
        finally:
            self._value = before

    def _read(self, environ: Mapping[str, str]) -> T:
        self._warn_of_others(environ)
        problems: list[SettingProblem] = []
        given: dict[str, Any] = {}
        for field in self._fields:
            text = environ.get(field.public.variable, "")
            if not text or _UNFILLED.fullmatch(text):
                if field.public.is_required and not _reads_itself(self._cls):
                    others = environ.keys() - {each.public.variable for each in self._fields}
                    problems.append(SettingProblem(field.public.variable, _missing(field.public, others)))
                continue
            try:
                given[field.argument] = lenient(_value_of(text, field.shape), field.shape)
            except msgspec.ValidationError as error:
                problems.append(SettingProblem(field.public.variable, _reason(error, field.public)))
        if not problems:
            try:
                return cast("T", _build(self._cls, given))
            except (ValueError, TypeError) as error:
                problems = _problems_of(error, self._fields)
        raise SettingsError(self._server, problems) from None

    def _warn_of_others(self, environ: Mapping[str, str]) -> None:
        """Log variables that begin with the prefix and are no settings: a misspelt one has no effect otherwise."""
        known = [field.public.variable for field in self._fields]
        others = sorted(name for name in environ if name.startswith(self._prefix) and name not in known)
        for name in others[:_MOST_WARNINGS] if self._prefix else ():
            near = next(iter(get_close_matches(name, known, 1, _SIMILARITY)), None)
            hint = "" if near is None else f"; did you mean {near}?"
            logger.warning("%s is set, and %s has no such setting%s", name, self._server, hint)


# -- the class ---------------------------------------------------------------------------------------------------------


def _fields_of(cls: type[Any], prefix: str) -> list[_Field]:
    described = _described(cls)
    # Only pydantic's classes have a configuration.
    config: Any = getattr(cls, "model_config", None) if _reads_itself(cls) else None
    if config is not None and not prefix:
        prefix = str(config.get("env_prefix") or "").upper()
    found = [_read_field(raw, prefix, described.get(raw.name)) for raw in _raw_fields(cls)]
    if _is_model(cls):
        for field in found:
            info: Any = cls.model_fields[field.public.name]
            field.argument = info.validation_alias if isinstance(info.validation_alias, str) else field.argument
    for at, field in enumerate(found):
        variable = field.public.variable
        if not _VARIABLE.fullmatch(variable):
            raise ValueError(f"{variable!r} cannot be the name of an environment variable")
        if any(other.public.variable == variable for other in found[:at]):
            raise ValueError(f"Two settings are read from {variable}")
    return found


def _raw_fields(cls: type[Any]) -> list[adapters.RawField]:
    if _is_model(cls):
        models: Any = cls.model_fields
        return [_of_pydantic(name, info) for name, info in models.items()]
    adapter = adapters.adapter_for(cls)
    if adapter is None or adapter.is_opaque or issubclass(cls, dict):
        raise TypeError(f"{cls!r} is no class of settings: a dataclass, a msgspec.Struct, attrs or a pydantic model")
    return adapter.fields(cls)


def _of_pydantic(name: str, info: Any) -> adapters.RawField:
    notes = [*info.metadata, *([msgspec.Meta(description=info.description)] if info.description else [])]
    hint = typing.Annotated[(info.annotation, *notes)] if notes else info.annotation
    default = msgspec.UNSET if info.is_required() or info.default_factory is not None else info.default
    return adapters.RawField(name, name, hint, info.is_required(), default)


def _is_model(cls: type[Any]) -> bool:
    """Return whether a class is pydantic's, which is not imported to find out."""
    # Only pydantic's classes have this.
    return isinstance(getattr(cls, "model_fields", None), dict)


def _reads_itself(cls: type[Any]) -> bool:
    """Return whether a class is one of pydantic-settings, which reads further sources, such as a file."""
    # The package is not imported to find out.
    return hasattr(cls, "settings_customise_sources")


def _described(cls: type[Any]) -> dict[str, str]:
    """Return the descriptions of fields in the docstring of a class."""
    text = cls.__doc__ or ""
    return docstrings.parse(re.sub(r"^(\s*)Attributes:", r"\1Args:", text, flags=re.MULTILINE)).parameters


def _read_field(raw: adapters.RawField, prefix: str, described: str | None) -> _Field:
    notes = list(_notes_in(raw.hint))
    mark = _mark_of(notes)
    shape = shape_of(raw.hint)
    kind, is_list, schema = _kind_of(shape, mark)
    words = shape.words()
    default = None if raw.default in (msgspec.UNSET, None) else _json_or_none(raw.default)
    is_secret = bool(mark.get("secret")) or "Secret" in _name_of_class(raw.hint) or is_secret_shape(shape)
    choices = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    public = SettingField(
        name=raw.name,
        variable=mark.get("variable") or f"{prefix}{raw.name.strip('_').upper()}",
        kind=kind,
        title=words.get("title") or _text_in(notes, "title") or raw.name.strip("_").replace("_", " ").capitalize(),
        description=words.get("description") or _text_in(notes, "description") or described or "",
        is_required=raw.required,
        is_secret=is_secret,
        is_list=is_list,
        default=None if is_secret else default,
        choices=tuple(_text_of(choice) for choice in choices if choice is not None),
        minimum=schema.get("minimum", schema.get("exclusiveMinimum")),
        maximum=schema.get("maximum", schema.get("exclusiveMaximum")),
    )
    return _Field(public, shape, raw.name)


def _mark_of(notes: Sequence[Any]) -> dict[str, Any]:
    """Return what `Setting` says of a field; of several the first one that says it."""
    found: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, msgspec.Meta) and note.extra is not None:
            found |= {key: value for key, value in note.extra.get(_MARK, {}).items() if value and key not in found}
    return found


def _notes_in(hint: Any) -> Generator[Any]:
    """Yield what is noted with ``Annotated`` anywhere in an annotation, such as in ``Annotated[str, …] | None``."""
    alias: Any = getattr(hint, "__value__", None)  # of ``type Name = …``
    if alias is not None:
        yield from _notes_in(alias)
    parts = typing.get_args(hint)
    if typing.get_origin(hint) is typing.Annotated:
        yield from parts[1:]
        parts = parts[:1]
    if typing.get_origin(hint) is not Literal:
        for part in parts:
            yield from _notes_in(part)


def _text_in(notes: Sequence[Any], name: str) -> str | None:
    """Return a text of the first note that has one: of `Setting`, of `Field`, of pydantic's ``Field``."""
    texts = (getattr(note, name, None) for note in notes if not isinstance(note, str))
    return next((text for text in texts if isinstance(text, str)), None)


def _kind_of(shape: Shape, mark: Mapping[str, Any]) -> tuple[SettingKind, bool, dict[str, Any]]:
    """Return the kind of a setting, whether it is a list, and the schema of one value."""
    schema = exact_schema(shape)
    defs = schema.get("$defs", {})
    schema = _without_null(schema, defs)
    is_list = schema.get("type") == "array"
    one = _without_null(schema.get("items", {}), defs) if is_list else schema
    form = one.get("format", "")  # pydantic's: "path", "file-path", "directory-path"
    if form.endswith("path") or _is_path(shape.hint):
        return ("directory" if mark.get("directory") or form == "directory-path" else "file"), is_list, one
    kinds: dict[Any, SettingKind] = {"integer": "number", "number": "number", "boolean": "boolean"}
    return kinds.get(one.get("type"), "string"), is_list, one


def _without_null(schema: dict[str, Any], defs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of the values that are not ``null``."""
    if "$ref" in schema:
        return _without_null(defs.get(schema["$ref"].rpartition("/")[2], {}), defs)
    members = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(members) == 1:
        return _without_null(members[0], defs)
    if isinstance(schema.get("type"), list):
        types = [each for each in schema["type"] if each != "null"]
        return {**schema, "type": types[0]} if len(types) == 1 else schema
    return schema


def _is_path(hint: Any) -> bool:
    if typing.get_origin(hint) is not None:
        return any(_is_path(part) for part in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Path)


def _name_of_class(hint: Any) -> str:
    """Return the names of the classes in an annotation: pydantic's ``SecretStr`` is known by its name."""
    if typing.get_origin(hint) is not None:
        return " ".join(_name_of_class(part) for part in typing.get_args(hint))
    return hint.__name__ if isinstance(hint, type) and hint.__module__.startswith("pydantic") else ""


def _json_or_none(value: Any) -> Any:
    try:
        made = adapters.to_json(value)
    except (TypeError, ValueError):
        return None
    return list(made) if is_array(made) else made


# -- the values --------------------------------------------------------------------------------------------------------


def _value_of(text: str, shape: Shape) -> Any:
    """Return the text of a variable as the JSON value that its type suggests, as far as it does."""
    kinds = set(kinds_of(shape))
    word = text.strip().lower()
    is_number = "int" in kinds and word in ("0", "1")
    if "bool" in kinds and not kinds & {"str", "any"} and word in _TRUE | _FALSE and not is_number:
        return word in _TRUE
    if "array" in kinds and "str" not in kinds and not text.lstrip().startswith("["):
        one = next((each.items[0] for each in shape.walk() if each.kind in ("array", "tuple") and each.items), shape)
        return [_decoded(part.strip(), one) for part in text.split(",") if part.strip()]
    return _decoded(text, shape)


def _decoded(text: str, shape: Shape) -> Any:
    """Return the value of a JSON text where text does not fit, so that an error is about the value."""
    if shape.kind == "custom" or set(kinds_of(shape)) & {"str", "any"}:
        return text
    try:
        return decode(text)
    except DecodeError:
        return text


def _build(cls: type[Any], given: dict[str, Any]) -> Any:
    if _is_model(cls):
        return cls(**given)
    adapter: Any = adapters.adapter_for(cls)
    return adapter.build(cls, given)


def _missing(field: SettingField, others: Collection[str]) -> str:
    """Return that a variable is missing, and which of the others may be meant."""
    about = f": {field.description}" if field.description else ""
    near = next(iter(get_close_matches(field.variable, sorted(others), 1, _SIMILARITY)), None)
    return f"is not set{about}" if near is None else f"is not set, but {near} is{about}"


def _reason(error: msgspec.ValidationError, field: SettingField) -> str:
    if field.choices:
        return f"is none of {', '.join(field.choices)}"
    # What was got is a text in any case.
    reason = say(split_path(str(error))[0]).partition(", got ")[0]
    return f"is wrong: {reason}"


def _problems_of(error: Exception, fields: Sequence[_Field]) -> list[SettingProblem]:
    """Return the problems that the class itself found when it was made, such as pydantic's validators."""
    # Pydantic's error has the problems of each field, other errors have a text.
    errors: Any = getattr(error, "errors", None)
    if not callable(errors):
        return [SettingProblem("", str(error))]
    variables = {name: field.public.variable for field in fields for name in (field.argument, field.public.name)}
    found: list[SettingProblem] = []
    for each in cast("list[dict[str, Any]]", errors(include_url=False, include_input=False, include_context=False)):
        path = each.get("loc") or ("",)
        message = str(each.get("msg", "is wrong"))
        variable = variables.get(path[0], "")
        found.append(SettingProblem(variable, f"is wrong: {message}" if variable else message))
    return found


def _text_of(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
