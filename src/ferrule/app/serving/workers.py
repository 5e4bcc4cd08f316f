"""What several workers of one server need, checked before the first starts; and what the first gives to all.

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
    """What serving needs of an extension."""

    serves_tasks: ClassVar[bool]
    """Whether it makes tasks of tools that ask for it."""


class ServedApplication(Protocol):
    """What serving needs of an `MCPServer`, which describes each member."""

    @property
    def lowlevel(self) -> Server[Any]: ...

    @property
    def store(self) -> Store | None: ...

    @property
    def extensions(self) -> Mapping[str, ServedExtension]: ...

    @property
    def asgi(self) -> Callable[..., HttpEndpoint]: ...


def check_can_scale(app: ServedApplication, options: dict[str, Any]) -> None:
    """Refuse workers that would break promises.

    Args:
        options: as given to ``run``.

    Raises:
        WorkerError: sessions or tasks are on and there is no store that all workers see; or this is a worker.
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
    """Return what each worker is given: options, and a key for the state between rounds where the author set none.

    Where no cipher is installed, one process alone keeps such states itself. Several workers cannot: this logs a
    warning before the first call needs it.
    """
    key = secrets.token_bytes(32) if settings_of(app.lowlevel).uses_process_key else None
    if find_spec("cryptography") is None:
        logger.warning(
            "Calls that ask a modern client something will fail: several workers seal the state between the rounds of "
            "a call, and the cryptography library is missing: pip install 'ferrule[auth]'"
        )
    return {"host": host, "port": port, "options": options, "state_key": key}


def take_payload(app: ServedApplication, payload: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
    """Take over the key in a worker, and return ``(host, port, options)`` as given to `make_payload`.

    Where no channel joins the workers, changes are not announced: a listener would get those of one worker only.
    """
    if payload["state_key"] is not None:
        settings_of(app.lowlevel).share_key(payload["state_key"])
    if app.store is None or app.store.channel is None:
        app.lowlevel.list_changed.clear()
        app.lowlevel.resource_updates = False
    return payload["host"], payload["port"], payload["options"]
