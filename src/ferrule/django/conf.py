"""The setting ``MCP`` of a project."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.functional import Promise
from msgspec import Meta, Struct, ValidationError, convert
from msgspec.structs import replace

from ferrule._options import suggestion
from ferrule.wire.json_types import is_object

__all__ = [
    "DjangoSettingProblem",
    "DjangoSettings",
    "SettingError",
    "django_settings",
    "settings_from",
    "settings_problems",
]

Positive = Annotated[int, Meta(ge=1)]


class SettingError(ImproperlyConfigured, ValueError):
    """The setting ``MCP`` has an unknown key, or a value of another type."""


class DjangoSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="upper"):
    """The setting ``MCP``: a dict whose keys are these names in capitals.

    Attributes:
        name: identifies the server to clients.
        version: the server's own version.
        instructions: for the model: how to use this server as a whole.
        text: how structured results are written for the model: ``"json"``, ``"toon"``, ``"auto"``.
        tool_search: see `ferrule.MCPServer`.
        page_size: tools on a page of a list; ``None`` for all.
        require_login: whether requests without valid credentials are refused with 401.
        authentication: dotted names of authentication classes of Django REST framework, and of functions
            ``(request) -> user``, ``(user, token)`` or ``None``; ``None`` takes those of ``REST_FRAMEWORK``, without
            those that read the session.
        session_authentication: whether a session cookie counts as a credential; requests then need a CSRF token.
        authorization_servers: issuers whose access tokens the classes accept, for the metadata with which clients
            sign in; ``None`` names the project's own django-oauth-toolkit if one of its classes is used.
        scopes_supported: the scopes that the metadata name; ``None`` for those of django-oauth-toolkit.
        url: public URL of the endpoint, where a proxy hides it from Django; ``None`` takes that of the request.
        forward_headers: further headers of the request that exposed views get, in lower case.
        allowed_origins: origins of web pages that may use the endpoint, besides ``CSRF_TRUSTED_ORIGINS``.
        max_body_bytes: a larger request body is refused with 413.
        module: name of the module that is imported of each installed application.
        store: where sessions, tasks and marks are kept: ``"django"`` (the default database), ``"django:alias"``, or a
            URL of another store (see `ferrule.MCPServer`); ``None`` for the default database, or the memory of each
            process where that is neither PostgreSQL nor SQLite.
        task_worker: whether tasks run in ``manage.py mcp worker``, and not in the process that received the call; needs
            the store in a database of the project.
    """

    name: str = "django"
    version: str | None = None
    instructions: str | None = None
    text: Literal["json", "toon", "auto"] = "json"
    tool_search: bool | Positive | Literal["auto"] = "auto"
    page_size: Positive | None = None
    require_login: bool = True
    authentication: tuple[str, ...] | None = None
    session_authentication: bool = False
    authorization_servers: tuple[str, ...] | None = None
    scopes_supported: tuple[str, ...] | None = None
    url: str | None = None
    forward_headers: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    max_body_bytes: Positive = 4 * 1024 * 1024
    module: str = "mcp"
    store: str | None = None
    task_worker: bool = False


class DjangoSettingProblem(NamedTuple):
    """What is wrong with one key of the setting."""

    text: str
    hint: str | None = None


def django_settings() -> DjangoSettings:
    """Return the setting ``MCP`` of the project.

    Raises:
        SettingError: it has an unknown key, or a value of another type.
        ImproperlyConfigured: Django has no settings yet.
    """
    return settings_from(_given())


def settings_from(given: Any, base: DjangoSettings | None = None) -> DjangoSettings:
    """Return the settings of a dict as ``MCP`` is written.

    Args:
        given: the dict.
        base: the values of keys that it lacks; ``None`` for the defaults.

    Raises:
        SettingError: it has an unknown key, or a value of another type.
    """
    problems = settings_problems(given)
    if problems:
        raise SettingError(" ".join(_sentence(problem) for problem in problems))
    made = convert(_plain(given), DjangoSettings)
    if base is None:
        return made
    names = {field.lower() for field in given}
    return replace(base, **{name: getattr(made, name) for name in names})


def settings_problems(given: Any = None) -> list[DjangoSettingProblem]:
    """Return what is wrong with a dict as ``MCP`` is written, key by key.

    Args:
        given: the dict; ``None`` for the setting of the project.
    """
    if given is None:
        given = _given()
    if not is_object(given):
        return [DjangoSettingProblem(f"The setting MCP is a {type(given).__name__}, not a dict.")]
    found: list[DjangoSettingProblem] = []
    for key, value in _plain(given).items():
        problem = _problem(key, value)
        if problem is not None:
            found.append(problem)
    return found


def _given() -> Any:
    return getattr(settings, "MCP", {})  # a setting of the project, which it may lack


def _plain(given: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return the dict with texts that wait for their translation as text."""
    return {key: str(value) if isinstance(value, Promise) else value for key, value in given.items()}


def _problem(key: Any, value: Any) -> DjangoSettingProblem | None:
    known = DjangoSettings.__struct_encode_fields__
    if key not in known:
        near = suggestion(key.upper(), known) if isinstance(key, str) else None
        advice = f"Its keys are {', '.join(known)}." if near is None else f"Did you mean {near!r}?"
        return DjangoSettingProblem(f"The setting MCP has no key {key!r}.", advice)
    try:
        made = convert({key: value}, DjangoSettings)
    except ValidationError as error:
        reason = str(error).partition(" - at ")[0].replace("`array", "`list").replace("null", "None")
        hint = f"Write [{value!r}]." if isinstance(value, str) and "list" in reason else None
        return DjangoSettingProblem(f"MCP[{key!r}] is wrong: {reason}.", hint)
    if key == "TEXT":
        from ferrule.app.results.encoders import encoder_for

        try:
            encoder_for(made.text)
        except ImportError as error:
            return DjangoSettingProblem(f"MCP['TEXT'] cannot be {made.text!r}: {error}")
    return None


def _sentence(problem: DjangoSettingProblem) -> str:
    return problem.text if problem.hint is None else f"{problem.text} {problem.hint}"
