"""`Client`: one MCP server of any revision on any transport, or a group of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ferrule.client.calls.tasks import ClientTasks
from ferrule.client.config import read_target
from ferrule.client.groups.group import ClientGroup
from ferrule.client.targets import GroupTarget

__all__ = ["Client"]


class Client(ClientTasks):
    """A client of one server.

    ``async with Client(target) as client:``, or `connect` and `aclose` from any tasks.

    Args:
        target: a server object of this process, a URL, a `StdioServer`, a command line (text or list), the path of a
            script, or a configuration. One with ``mcpServers`` makes a `ClientGroup` instead, with the same calls.
        mode: ``"auto"`` detects the server's revision; ``"legacy"``, or a revision, requires it.
        client_info: who we are.
        elicitation_handler: asks the user; see `ferrule.client.calls.forms` for ready-made ones.
        elicitation_modes: what it can do: ``"form"``, ``"url"``.
        sampling_handler: asks the model. sampling_tools: it can offer tools.
        roots: folders to show, or a function that gives them.
        log_handler: takes log messages. log_level: which (``"info"`` with a handler).
        progress_handler: takes the progress of every call that has no ``on_progress`` of its own.
        message_handler: takes every notification as ``(method, params)``.
        extensions: identifier → settings, declared to the server.
        timeout_s: seconds without an answer or progress before a call is given up; 300 by default, none for a server
            of this process; ``None``: no bound. max_total_s: absolute bound in seconds.
        reset_on_progress: progress restarts ``timeout_s``.
        connect_timeout_s: bounds each step of connecting. probe_timeout_s: bounds the probe; by transport if ``None``.
        max_rounds: rounds of questions that one call may take; 0: raise `InputRequiredError` instead.
        raise_on_error: failed tools raise `ToolFailed`.
        validate_output: check structured results of tools that the program has listed against their schemas.
        cache: keep what the server allows to keep; ``False``, or a `CacheStore` to share.
        cache_partition: name of the authorization context; made from the credential if ``None``.
        clock: seconds since the epoch, for the cache.
        restart: open a new connection, or process, when a call finds the last one ended.
        prior_discover: another client's ``discovered``: no round trip before the first call.
        headers, auth, http, tls, proxy: of HTTP. ``auth`` is a bearer token or an `HttpAuth`; ``http`` your own HTTP
            client (httpx, httpx2, aiohttp, `HttpClient`), which stays open; ``tls`` a `TlsOptions` or SSL context;
            ``proxy`` a URL, ``None``, or ``"env"``.
        listen: keep a stream open for what a legacy HTTP server says outside calls.
        max_message_bytes: larger messages are refused.
    """

    # Not shown to type checkers: to them `Client(...)` is a `Client`, with the options that its ``__init__`` names.
    if not TYPE_CHECKING:

        def __new__(cls, target: Any, **options: Any) -> Any:
            """A `ClientGroup` where the target names several servers."""
            found = read_target(target)
            if isinstance(found, GroupTarget):
                return ClientGroup(found, client_class=cls, **options)
            return super().__new__(cls)
