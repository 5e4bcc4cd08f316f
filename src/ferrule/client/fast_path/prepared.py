"""The bytes of a plain ``tools/call``, prepared once for each tool: only id and arguments are put in.

They are the bytes that the general path sends for the same call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ferrule.wire.codec import encode

__all__ = ["MAX_PREPARED", "PreparedCall"]

MAX_PREPARED: Final = 1024
"""Maximum number of tools with a prepared call in one session; at the limit all are removed and prepared again."""

_HEAD: Final = b'{"jsonrpc":"2.0","id":'


class PreparedCall:
    """A call of one tool with the same members each time.

    Args:
        name: the name of the tool.
        meta: ``_meta`` of every call; empty for none.
        has_arguments: whether arguments are sent.
        has_token: whether the server is asked for progress; the token is the id.

    Attributes:
        headers: the headers of the call over HTTP, once they were made.

    Raises:
        EncodeError: a member has no JSON form.
    """

    __slots__ = ("_after", "_before", "_has_token", "headers", "meta", "name")

    def __init__(self, name: str, meta: Mapping[str, Any], *, has_arguments: bool, has_token: bool) -> None:
        self.name = name
        self.meta = meta
        self.headers: Mapping[str, str] | None = None
        self._has_token = has_token
        self._before = b',"method":"tools/call","params":{"name":' + encode(name)
        if has_arguments:
            self._before += b',"arguments":'
        if has_token:
            self._after = b',"_meta":' + encode({**meta, "progressToken": 0})[:-2]
        else:
            self._after = (b',"_meta":' + encode(meta) if meta else b"") + b"}}"

    def fill(self, id: int, arguments: bytes, end: bytes = b"") -> bytes:
        """Return the request.

        Args:
            id: the id of the request.
            arguments: as JSON; empty where none are sent.
            end: appended to the request.
        """
        number = b"%d" % id
        if self._has_token:
            return b"".join((_HEAD, number, self._before, arguments, self._after, number, b"}}}", end))
        return b"".join((_HEAD, number, self._before, arguments, self._after, end))
