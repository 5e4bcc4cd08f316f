"""What spans say about arguments and results, if a program asks for it: masked, bounded, off by default.

The conventions have ``gen_ai.tool.call.arguments``, ``gen_ai.tool.call.result`` and ``gen_ai.prompt.variable.<name>``
as "Opt-In" and warn that they may be sensitive. Text that is cut is no longer JSON.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ferrule.protocol.secret_forms import mask_secrets
from ferrule.wire.codec import encode, to_builtins
from ferrule.wire.faults import FerruleError

__all__ = ["Payloads"]

logger = logging.getLogger(__name__)

_MAX_VARIABLES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Payloads:
    """Which payloads spans get.

    Attributes:
        arguments: the arguments of tools and prompts.
        results: the results of tools, if they are no error: the structured content, else the content.
        max_bytes: most bytes of one payload, as JSON; more are cut.
        mask: called with each payload before it is written; the default masks members with the name of a secret, and
            keys and tokens of well-known forms. Where it raises, the span has no payload, and the reason is logged.
    """

    arguments: bool = True
    results: bool = True
    max_bytes: int = 4096
    mask: Callable[[Any], Any] = mask_secrets

    def of_request(self, method: str, params: Any) -> dict[str, str]:
        """Return the attributes for the arguments of a request; of a prompt at most 32."""
        if not self.arguments or not isinstance(params, Mapping):
            return {}
        arguments: Any = cast("Mapping[str, Any]", params).get("arguments")
        if method == "tools/call" and arguments is not None:
            return {"gen_ai.tool.call.arguments": self._text(arguments)}
        if method == "prompts/get" and isinstance(arguments, Mapping):
            masked = self._masked(dict(cast("Mapping[str, Any]", arguments)))
            variables = cast("Mapping[str, Any]", masked if isinstance(masked, Mapping) else {})
            return {
                f"gen_ai.prompt.variable.{str(name)[:64]}": self._cut(str(value).encode(errors="replace"))
                for name, value in list(variables.items())[:_MAX_VARIABLES]
            }
        return {}

    def of_result(self, method: str, result: Any) -> dict[str, str]:
        """Return the attributes for the result of a request that has succeeded."""
        if not self.results or method != "tools/call" or result is None:
            return {}
        try:
            raw = to_builtins(result)
        except FerruleError:
            return {}
        if not isinstance(raw, Mapping):
            return {}
        members = cast("Mapping[str, Any]", raw)
        value: Any = members.get("structuredContent", members.get("content"))
        return {} if value is None else {"gen_ai.tool.call.result": self._text(value)}

    def _masked(self, value: Any) -> Any:
        try:
            return self.mask(value)
        except Exception:  # of the program's own function: what spans show must fail no call
            logger.exception("Payloads(mask=…) failed, so that a span has no payload")
            return "(mask failed)"

    def _text(self, value: Any) -> str:
        try:
            return self._cut(encode(self._masked(value)))
        except (FerruleError, TypeError):  # a program may call a tool with values that are not JSON
            return "(not JSON)"

    def _cut(self, data: bytes) -> str:
        if len(data) <= self.max_bytes:
            return data.decode(errors="replace")
        return data[: self.max_bytes].decode(errors="ignore") + "…"
