"""What several workers of one server need, checked before the first starts; and what the first gives to all.

Nothing that a client was promised may depend on which worker it meets: a legacy session, a task, a subscription, a
call that goes through rounds. Whoever starts workers without a place for these gets an error that says what to set.
"""

from __future__ import annotations

import logging
import secrets
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ferrule.app.rounds.settings import settings_of
from ferrule.transports.hosting.workers import WorkerError, in_worker

if TYPE_CHECKING:
    from ferrule.app.server import MCPServer

__all__ = ["check_can_scale", "make_payload", "take_payload"]

logger = logging.getLogger("ferrule.app")


def check_can_scale(app: MCPServer[Any], options: dict[str, Any]) -> None:
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


def make_payload(app: MCPServer[Any], host: str, port: int, options: dict[str, Any]) -> dict[str, Any]:
    """What each worker is given: options, and a key for the state between rounds where the author set none.

    One process alone keeps such states itself where no cipher is installed; several cannot, which is told here and
    not only by the first call that asks something.
    """
    key = secrets.token_bytes(32) if settings_of(app.lowlevel).uses_process_key else None
    if find_spec("cryptography") is None:
        logger.warning(
            "Calls that ask a modern client something will fail: several workers seal the state between the rounds of "
            "a call, and the cryptography library is missing: pip install 'ferrule[auth]'"
        )
    return {"host": host, "port": port, "options": options, "state_key": key}


def take_payload(app: MCPServer[Any], payload: dict[str, Any]) -> tuple[str, int, dict[str, Any]]:
    """In a worker: ``(host, port, options)`` of `make_payload`, and the key taken over.

    Where no channel joins the workers, changes are not announced: a listener would hear of those of one worker only.
    """
    if payload["state_key"] is not None:
        settings_of(app.lowlevel).share_key(payload["state_key"])
    if app.store is None or app.store.channel is None:
        app.lowlevel.list_changed.clear()
        app.lowlevel.resource_updates = False
    return payload["host"], payload["port"], payload["options"]
