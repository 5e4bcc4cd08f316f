"""Multi round-trip requests (2026-07-28): a server's result has questions, the client repeats the request with answers.

The three kinds of questions are the legacy requests from server to client, without their JSON-RPC frame; ``method``
distinguishes them. The answers are sent as a map with the same keys; see `InputResponseRequestParams`.
"""

from typing import Any, ClassVar, Literal, TypeAlias

from msgspec import field

from ferrule.wire.struct import WireStruct
from ferrule.wire.types.base import RequestParams
from ferrule.wire.types.client_features.elicitation import ElicitRequestParams, ElicitResult
from ferrule.wire.types.client_features.roots import ListRootsResult
from ferrule.wire.types.client_features.sampling import CreateMessageRequestParams, CreateMessageResult

__all__ = [
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "ListRootsRequest",
]


class ElicitRequest(WireStruct, tag_field="method", tag="elicitation/create"):
    """Ask the user."""

    method: ClassVar[str] = "elicitation/create"
    params: ElicitRequestParams


class CreateMessageRequest(WireStruct, tag_field="method", tag="sampling/createMessage"):
    """Ask the client's model."""

    method: ClassVar[str] = "sampling/createMessage"
    params: CreateMessageRequestParams


class ListRootsRequest(WireStruct, tag_field="method", tag="roots/list"):
    """Ask for the client's roots. ``id`` has no meaning; it is kept because an example of the specification has one."""

    method: ClassVar[str] = "roots/list"
    params: RequestParams | None = None
    id: str | int | None = None


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""One question."""

InputRequests: TypeAlias = dict[str, InputRequest]
"""Questions by their keys, which the server chose and which are unique within the request."""

InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""One answer as a typed result; on the wire it has no member for its type."""

InputResponses: TypeAlias = dict[str, dict[str, Any]]
"""Answers by the keys of their questions, as JSON values."""


class InputRequiredResult(WireStruct, kw_only=True):
    """An interim result: the client answers ``input_requests`` and repeats the request with ``request_state``.

    Allowed for ``tools/call``, ``prompts/get`` and ``resources/read`` only, and never cached. If it has only
    ``request_state``, the client repeats the request without answers.

    Raises:
        ValueError: neither questions nor a state are given.
    """

    result_type: Literal["input_required"] = field(default_factory=lambda: "input_required")
    input_requests: dict[str, InputRequest] | None = None
    request_state: str | None = None
    meta: dict[str, Any] | None = field(name="_meta", default=None)

    def __post_init__(self) -> None:
        if self.input_requests is None and self.request_state is None:
            raise ValueError("An input-required result needs `inputRequests` or `requestState`")
