"""The bridges of a client or group, for its methods `tools_for` and `answer`: one for each API, kept with it."""

from __future__ import annotations

from typing import Any, Final, Unpack, cast
from weakref import WeakKeyDictionary

from ferrule._options import check_options
from ferrule.client.bridges.apis.known import ApiName, api_named, api_of_response
from ferrule.client.bridges.bridge import Answer, ToolBridge, ToolSource
from ferrule.client.bridges.options import AnswerOptions, ToolsForOptions

__all__ = ["answer", "tools_for"]

_bridges: Final[WeakKeyDictionary[Any, dict[str, tuple[ToolsForOptions, ToolBridge]]]] = WeakKeyDictionary()
"""Client or group → name of an API → options and bridge, the last used last."""


async def tools_for(source: ToolSource, api: ApiName, **options: Unpack[ToolsForOptions]) -> list[dict[str, Any]]:
    """Return the tools of a client or group for a model API; see `ToolBridge`."""
    check_options("tools_for", options, ToolsForOptions)
    name = api_named(api).name
    kept = _bridges.setdefault(source, {})
    found = kept.pop(name, None)
    if found is None or found[0] != options:
        found = options, _bridge(source, api, options)
    kept[name] = found
    return await found[1].tools()


async def answer(source: ToolSource, response: Any, **options: Unpack[AnswerOptions]) -> Answer:
    """Make the calls of a response with the tools of a client or group; see `ToolBridge.answer`."""
    check_options("answer", options, AnswerOptions)
    kept = _bridges.setdefault(source, {})
    api = api_of_response(response, [*reversed(kept)])
    if api.name not in kept:
        kept[api.name] = {}, _bridge(source, cast("ApiName", api.name), {})
    return await kept[api.name][1].answer(response, **options)


class _Weak:
    """A client without keeping it: the bridge stands in a table that must not hold its own key."""

    def __init__(self, source: ToolSource) -> None:
        from weakref import ref

        self._ref = ref(source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ref(), name)


def _bridge(source: ToolSource, api: ApiName, options: ToolsForOptions) -> ToolBridge:
    return ToolBridge(cast("ToolSource", _Weak(source)), api, **options)
