"""Prepared requests are the bytes that the general path sends."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.client.fast_path.prepared import PreparedCall
from ferrule.wire.codec import encode
from ferrule.wire.jsonrpc import encode_request

NAMES = ["add", 'naïve \u2028 " \\ %d %s {}', "\x00", "987654321", "a" * 300]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("meta", [{}, {"x": {"y": [1, "%"]}}])
@pytest.mark.parametrize("has_arguments", [True, False])
@pytest.mark.parametrize("has_token", [True, False])
def test_a_prepared_call_is_the_encoded_request(
    name: str, meta: dict[str, Any], has_arguments: bool, has_token: bool
) -> None:
    """Whatever the name and the envelope hold."""
    prepared = PreparedCall(name, meta, has_arguments=has_arguments, has_token=has_token)
    for id in (1, 10**12):
        arguments = {"a": name, "b": [None, 1.5]}
        params: dict[str, Any] = {"name": name}
        if has_arguments:
            params["arguments"] = arguments
        if meta or has_token:
            params["_meta"] = {**meta, "progressToken": id} if has_token else meta
        given = encode(arguments) if has_arguments else b""
        assert prepared.fill(id, given) == encode_request(id, "tools/call", params)
