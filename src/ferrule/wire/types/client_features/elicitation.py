"""Elicitation: a server asks the user, by a form or by a web page of the server (2025-06-18 on)."""

from typing import Any, Literal

from msgspec import field

from ferrule.wire.struct import OpenBundle, WireStruct
from ferrule.wire.types.base import NotificationParams, RequestParams, TaskMetadata

__all__ = [
    "ElicitRequestParams",
    "ElicitResult",
    "ElicitationCompleteNotificationParams",
    "PrimitiveSchemaDefinition",
]


class PrimitiveSchemaDefinition(OpenBundle, names={"item_schema": "items"}):
    """The schema of one form field: text, number, truth value or choice. Other keywords are kept.

    A choice is ``enum`` (plain, with titles in the deprecated ``enum_names``), ``one_of`` with ``const`` and
    ``title``, or ``type="array"`` whose ``item_schema`` (``items``) holds ``enum`` or ``anyOf``. ``format`` is
    ``email``, ``uri``, ``date`` or ``date-time``.
    """

    type: str | None
    title: str | None
    description: str | None
    default: Any
    min_length: int | None
    max_length: int | None
    format: str | None
    minimum: int | float | None
    maximum: int | float | None
    enum: list[str] | None
    enum_names: list[str] | None
    one_of: list[dict[str, Any]] | None
    item_schema: dict[str, Any] | None
    min_items: int | None
    max_items: int | None


class ElicitRequestParams(RequestParams, kw_only=True):
    """Params of ``elicitation/create`` in both modes; without ``mode`` it is a form.

    A form has ``requested_schema``: an object schema of primitive properties, unchanged. URL mode (2025-11-25
    on) has ``url``, and in 2025-11-25 also ``elicitation_id``. Only 2025-11-25 has ``task``.

    Raises:
        ValueError: the field that the mode requires is missing.
    """

    message: str
    mode: Literal["form", "url"] | None = None
    requested_schema: dict[str, Any] | None = None
    url: str | None = None
    elicitation_id: str | None = None
    task: TaskMetadata | None = None

    def __post_init__(self) -> None:
        if self.mode == "url":
            if self.url is None:
                raise ValueError("Elicitation in URL mode needs `url`")
        elif self.requested_schema is None:
            raise ValueError("Elicitation by form needs `requestedSchema`")


class ElicitResult(WireStruct):
    """The user's reaction. ``content`` has the fields of an accepted form; lists of text exist from 2025-11-25 on.

    Not a `Result`: in 2026-07-28 it is one of the input responses, without the members of a result.
    """

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, str | bool | int | float | list[str] | None] | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)


class ElicitationCompleteNotificationParams(NotificationParams):
    """2025-11-25 only: the user has completed the interaction on the page of this elicitation."""

    elicitation_id: str
