"""Multi round-trip requests (2026-07-28): a server answers with questions, the client asks again with the answers.

The three questions are the legacy server-to-client requests without their JSON-RPC frame, told apart by ``method``.
Their answers travel as a map under the same keys, as bare results; see `InputResponseRequestParams`.
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
    """Ask for the client's roots. ``id`` means nothing here; the specification's own example has one, so it is kept."""

    method: ClassVar[str] = "roots/list"
    params: RequestParams | None = None
    id: str | int | None = None


InputRequest: TypeAlias = ElicitRequest | CreateMessageRequest | ListRootsRequest
"""One question."""

InputRequests: TypeAlias = dict[str, InputRequest]
"""Questions under keys that the server chose, unique within the request."""

InputResponse: TypeAlias = ElicitResult | CreateMessageResult | ListRootsResult
"""One answer, as its own type; on the wire nothing says which."""

InputResponses: TypeAlias = dict[str, dict[str, Any]]
"""Answers under the keys of their questions, still JSON."""


class InputRequiredResult(WireStruct, kw_only=True):
    """Not an answer yet: the client answers ``input_requests`` and repeats the request with ``request_state``.

    Only for ``tools/call``, ``prompts/get`` and ``resources/read``, and never cached. With ``request_state`` alone
    the client simply asks again.

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
