"""A server's settings of questions, steps and the state between rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ferrule.app.execution.threads import DEFAULT_MAX_THREADS, WorkerThreads
from ferrule.stores.blobs import BlobStore
from ferrule.stores.marks import MemoryMarks, OneTimeMarks
from ferrule.wire.struct import Value

if TYPE_CHECKING:
    from ferrule.app.rounds.sealing import Sealer, StateKey
    from ferrule.kernel.server import Server

__all__ = ["RoundsSettings", "StateSettings", "settings_of"]

logger = logging.getLogger("ferrule.app.rounds")


class StateSettings(Value, frozen=True, kw_only=True):
    """How the state between the rounds of a call is kept.

    Attributes:
        keys: secrets that seal it, newest first; ``None`` for a key of this process only.
        ttl_s: seconds that a state is valid after the round that sealed it.
        max_s: seconds that any state of a call is valid after the first round.
        is_single_use: each state opens once; recorded in the store's marks, or in this process without them.
        inline_bytes: a state of more bytes is kept in the store.
    """

    keys: Sequence[StateKey | bytes | str] | None = None
    ttl_s: float = 600
    max_s: float = 24 * 3600
    is_single_use: bool = False
    inline_bytes: int = 64 * 1024


class RoundsSettings:
    """Settings of one server.

    Args:
        state: how the state between rounds is kept; ``None`` for the defaults.
        max_rounds: maximum number of rounds of one call.
        marks: for ``once`` steps, which then run at most once in all processes; ``None``: once in a chain of rounds.
        blobs: keeps states that are too large to be sent; ``None`` refuses them.
        grace_s: seconds that a suspended body may take to end before the reply is sent without it.
        replay_wait_s: seconds that a replay waits until the body reaches something that is recorded.
        step_wait_s: seconds that a ``once`` step waits for another process that began it, before it is in doubt.
        max_step_threads: maximum number of sync steps that run at the same time.
        clock: returns seconds since the epoch.

    Attributes:
        used_states: records the states that were opened; ``None`` if a state may be opened again.
        uses_process_key: whether states are sealed with a key of this process only.
        around_question: called with the method of each question; its context is entered before the question is asked
            and left after the answer. What it raises is raised into the body. ``None`` for nothing.
    """

    def __init__(
        self,
        *,
        state: StateSettings | None = None,
        max_rounds: int = 32,
        marks: OneTimeMarks | None = None,
        blobs: BlobStore | None = None,
        grace_s: float = 1.0,
        replay_wait_s: float = 1.0,
        step_wait_s: float = 30.0,
        max_step_threads: int = DEFAULT_MAX_THREADS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.state = StateSettings() if state is None else state
        self.uses_process_key = self.state.keys is None
        self.used_states: OneTimeMarks | None = None
        if self.state.is_single_use:
            # Without a store a state could be opened once in each process; with one worker that is enough.
            self.used_states = MemoryMarks() if marks is None else marks
        self.max_rounds = max_rounds
        self.marks = marks
        self.blobs = blobs
        self.grace_s = grace_s
        self.replay_wait_s = replay_wait_s
        self.step_wait_s = step_wait_s
        # Another pool than that of sync tools, which keep their threads while they wait for steps.
        self.threads = WorkerThreads(max_step_threads)
        self._has_warned_of_keys = False
        self._has_looked_for_cipher = False
        self.clock = clock
        self.around_question: Callable[[str], AbstractAsyncContextManager[None]] | None = None
        self._sealer: Sealer | None = None

    @property
    def sealer(self) -> Sealer:
        """The sealer of states; made on first use, because it imports a cipher.

        Raises:
            ImportError: keys were configured but the ``cryptography`` library is missing.
        """
        if self._sealer is None:
            from ferrule.app.rounds.sealing import sealer_for

            self._sealer = sealer_for(self.state.keys)
        return self._sealer

    def share_keys(self, keys: Sequence[StateKey | bytes | str]) -> None:
        """Use keys that other processes have too, unless keys were configured; call it before the first state.

        Args:
            keys: newest first; read when the first state is sealed or opened.
        """
        if self.uses_process_key:
            self.state = replace(self.state, keys=keys)
            self.uses_process_key = False
            self._sealer = None

    def warn_of_missing_cipher(self) -> None:
        """Log a warning, once, if keys were configured and the library that seals with them is not installed."""
        if self.uses_process_key or self._has_looked_for_cipher:
            return
        self._has_looked_for_cipher = True
        from importlib.util import find_spec

        if find_spec("cryptography") is None:
            logger.warning(
                "state_keys are configured and the cryptography library is missing; a question to a user fails: "
                "pip install 'ferrule[auth]'"
            )

    def warn_of_keys(self) -> None:
        """Log a warning, once, after a state of another process was refused and no keys were configured."""
        if self.uses_process_key and not self._has_warned_of_keys:
            self._has_warned_of_keys = True
            logger.warning(
                "A request state of another process, or of this one before a restart, was refused: without state_keys "
                "each process makes its own key. Configure the same keys in each worker: MCPServer(state_keys=[…])"
            )


def settings_of(server: Server[Any]) -> RoundsSettings:
    """Return the settings of a low-level server; made with defaults if there are none."""
    found = server.attachments.get(RoundsSettings)
    if found is None:
        found = server.attachments[RoundsSettings] = RoundsSettings()
    return found
