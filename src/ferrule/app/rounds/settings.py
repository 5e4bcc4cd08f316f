"""What a server's operator decides about questions, steps and the state between rounds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
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
        keys: secrets that seal it, newest first; ``None`` for a key of this process alone.
        ttl_s: seconds that a state lives from the round that sealed it.
        max_s: absolute limit in seconds from the first round.
        is_single_use: a state opens once; noted in the marks of the store, or in this process where there are none.
        inline_bytes: a larger state goes into the store.
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
        max_rounds: rounds that one call may take.
        marks: makes ``once`` steps at most once across processes; ``None``: once per chain of rounds.
        blobs: keeps states that are too large to travel; ``None`` refuses them.
        grace_s: seconds that a suspended body gets to end before the reply goes out without it.
        replay_wait_s: seconds that a replay waits for something recorded that the body has not come to yet.
        step_wait_s: seconds that a ``once`` step waits for somebody else who began it, before it is in doubt.
        max_step_threads: sync steps that run at the same time.
        clock: seconds since the epoch.

    Attributes:
        used_states: notes the states that were opened; ``None`` where each may be opened again.
        uses_process_key: states are sealed with a key of this process alone.
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
            self.used_states = MemoryMarks() if marks is None else marks
        self.max_rounds = max_rounds
        self.marks = marks
        self.blobs = blobs
        self.grace_s = grace_s
        self.replay_wait_s = replay_wait_s
        self.step_wait_s = step_wait_s
        self.threads = WorkerThreads(max_step_threads)
        self._has_warned_of_keys = False
        self.clock = clock
        self._sealer: Sealer | None = None

    @property
    def sealer(self) -> Sealer:
        """Made on first use: sealing loads a cipher."""
        if self._sealer is None:
            from ferrule.app.rounds.sealing import sealer_for

            self._sealer = sealer_for(self.state.keys)
        return self._sealer

    def share_key(self, key: bytes) -> None:
        """Seal with a key that other processes have too; before the first state, and only where none was set."""
        if self.uses_process_key:
            self.state = replace(self.state, keys=[key])
            self.uses_process_key = False
            self._sealer = None

    def warn_of_keys(self) -> None:
        """A state came that is not ours: say once what is wrong when nobody configured keys."""
        if self.uses_process_key and not self._has_warned_of_keys:
            self._has_warned_of_keys = True
            logger.warning(
                "A request state was refused that another process sealed, or this one before its last start: without "
                "state_keys each process makes a key of its own. Give every worker the same: MCPServer(state_keys=[…])"
            )


def settings_of(server: Server[Any]) -> RoundsSettings:
    """Return the settings kept with a low-level server, made with defaults if nobody set any."""
    found = server.attachments.get(RoundsSettings)
    if found is None:
        found = server.attachments[RoundsSettings] = RoundsSettings()
    return found
