"""The checks before several workers of one server start, and the data that they receive.

Legacy sessions, tasks, subscriptions and calls with several rounds must work in every worker. Without a store that all
workers share they cannot, so starting workers then fails with an error that names the option to set.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ferrule.app.rounds.settings import settings_of
from ferrule.transports.hosting.workers import WorkerError, in_worker

if TYPE_CHECKING:
    from ferrule.kernel.server import Server
    from ferrule.stores.store import Store
    from ferrule.transports.asgi.endpoint import HttpEndpoint

__all__ = ["ServedApplication", "ServedExtension", "check_can_scale", "make_payload", "take_payload"]

logger = logging.getLogger("ferrule.app")


class ServedExtension(Protocol):
    """The members of an extension that serving uses."""

    serves_tasks: ClassVar[bool]
    """Whether it runs tools that are registered with ``task=`` as tasks."""


class ServedApplication(Protocol):
    """The members of an `MCPServer` that serving uses; it describes them."""

    @property
    def lowlevel(self) -> Server[Any]: ...

    @property
    def store(self) -> Store | None: ...

    @property
    def extensions(self) -> Mapping[str, ServedExtension]: ...

    @property
    def asgi(self) -> Callable[..., HttpEndpoint]: ...


def check_can_scale(app: ServedApplication, options: dict[str, Any]) -> None:
    """Check that all features of a server work in several workers.

    Args:
        app: the server.
        options: the options of ``run``.

    Raises:
        WorkerError: sessions or tasks are on and there is no store that all workers share; or this is a worker.
    """
    if in_worker():
        raise WorkerError('A worker may not start workers: put run() under `if __name__ == "__main__":`')
    store = app.store
    keeps_sessions = store is not None and store.sessions is not None and store.channel is not None
    has_sessions = options.get("legacy", True) and not options.get("stateless", False)
    if has_sessions and not keeps_sessions:
        raise WorkerError(
            "Legacy sessions need a store that all workers see: MCPServer(store='redis://host:6379/0'), or "
            "store='sqlite:///sessions.db' on one machine; or turn them off with run(stateless=True) or "
            "run(legacy=False)"
        )
    if any(extension.serves_tasks for extension in app.extensions.values()) and (store is None or not store.is_shared):
        raise WorkerError(
            "Tasks need a store that all workers see: MCPServer(store='redis://host:6379/0'), or "
            "store='sqlite:///tasks.db' on one machine"
        )


def make_payload(app: ServedApplication, host: str, port: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return the data for each worker: options, and a key for the state between rounds if the author set none.

    Without the cipher library a single process keeps such states in its memory. Several workers cannot, so that a
    warning is logged.
    """
    key = secrets.token_bytes(32) if settings_of(app.lowlevel).uses_process_key else None
    if find_spec("cryptography") is None:
        logger.warning(
            "Calls that ask a modern client something will fail: several workers seal the state between the rounds of "
            "a call, and the cryptography library is missing: pip install 'ferrule[auth]'"
        )
    return {"host": host, "port": port, "options": options, "state_key": key}


def take_payload(app: ServedApplication, payload: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
    """Apply the key in a worker, and return ``(host, port, options)`` of `make_payload`.

    Without a channel between the workers, list changes and updates are not announced: a listener would get those of one
    worker only.
    """
    if payload["state_key"] is not None:
        settings_of(app.lowlevel).share_keys([payload["state_key"]])
    if app.store is None or app.store.channel is None:
        app.lowlevel.list_changed.clear()
        app.lowlevel.resource_updates = False
    return payload["host"], payload["port"], payload["options"]
