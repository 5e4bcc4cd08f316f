"""A child process that leads a process group: started, watched, signalled and reaped without a task.

The leader is *not* reaped when it ends, but after its group has ended. Until then the system cannot give its process
id, which is also the id of the group, to another process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

import anyio

from ferrule.transports.watch import Watch, watch_blocking, watch_readable

__all__ = ["ChildProcess", "found_program"]

_CAN_PEEK: Final = hasattr(os, "waitid")  # not on macOS before Python 3.13
# There is no event for the end of a group.
_PROBE_S: Final = 0.01


class ChildProcess:
    """A process with pipes, in its own session (POSIX) or process group (Windows).

    Args:
        command: program and arguments; a bare name is looked up in ``env``'s PATH.
        env: the whole environment.
        cwd: its working folder; ``None`` for that of this process.
        capture_stderr: ``False`` lets it write to the stderr of this process.
        on_exit: called once in the thread of the event loop when the process has ended.

    Attributes:
        pid: id of the leader and of its group.
        returncode: exit status, negative for a signal, as in `subprocess`; ``None`` while it runs, and if the system
            does not report it (``SIGCHLD`` is ignored in this program).
        exited: set when the process has ended.

    Raises:
        OSError: it could not be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | os.PathLike[str] | None,
        capture_stderr: bool,
        on_exit: Callable[[], None],
    ) -> None:
        self._on_exit = on_exit
        self.exited = anyio.Event()
        self.returncode: int | None = None
        self._is_reaped = False
        self._group_is_gone = False
        self._pidfd = -1
        self._watch: Watch | None = None
        self._popen = _start(command, env, cwd, capture_stderr)
        self.pid: int = self._popen.pid
        try:
            self._watch_exit()
        except BaseException:
            self.kill()
            self._popen.wait()
            self.take_pipes()
            raise

    def take_pipes(self) -> tuple[int, int, int]:
        """Return this side's descriptors of stdin, stdout and stderr (-1 if not captured), which the caller closes.

        To be called once.
        """
        return _detach(self._popen.stdin), _detach(self._popen.stdout), _detach(self._popen.stderr)

    def terminate(self) -> None:
        """Send SIGTERM to the whole group. Does nothing if it has ended."""
        if sys.platform == "win32":
            with contextlib.suppress(OSError, ValueError):
                os.kill(self.pid, signal.CTRL_BREAK_EVENT)
        else:
            self._signal_group(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the whole group. Does nothing if it has ended."""
        if sys.platform == "win32":
            # In a thread, because it takes a while. Not after the end of the leader: taskkill finds the children by it.
            if not self.exited.is_set():
                watch_blocking(self._kill_tree, lambda _: None, name=f"ferrule-kill-{self.pid}")
        else:
            self._signal_group(signal.SIGKILL)

    def _kill_tree(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            subprocess.run(["taskkill", "/T", "/F", "/PID", str(self.pid)], capture_output=True, timeout=5)
        with contextlib.suppress(OSError):
            self._popen.kill()

    async def wait_for_group(self, timeout_s: float) -> bool:
        """Reap the leader, if it has ended, and wait for the rest of its group.

        Returns:
            Whether all processes of the group have ended.
        """
        if not self.exited.is_set():
            return False
        if sys.platform == "win32":
            return True  # Windows has no way to find out
        pause_s = _PROBE_S
        with anyio.move_on_after(timeout_s):
            while self._group_lives():
                await anyio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, 0.1)
        return not self._group_lives()

    def release(self) -> None:
        """Stop watching and reap the leader, in a thread if it has not ended yet. Idempotent."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1
        if self._is_reaped:
            return
        self._is_reaped = True
        # Waiting for it would block the event loop: only a process stuck in the kernel has survived SIGKILL.
        if self._popen.poll() is None:
            watch_blocking(self._popen.wait, lambda _: None, name=f"ferrule-reap-{self.pid}")

    # -- the end of the leader ----------------------------------------------------------------------------------

    def _watch_exit(self) -> None:
        if sys.platform == "linux":
            try:
                # A descriptor that becomes readable at the end of the process, without a thread and without SIGCHLD.
                self._pidfd = os.pidfd_open(self.pid)
                self._watch = watch_readable(self._pidfd, self._is_still_running)
                return
            except (OSError, NotImplementedError):
                pass  # an old kernel, or a sandbox
        watch_blocking(self._wait_blocking, self._exit, name=f"ferrule-wait-{self.pid}")

    def _is_still_running(self) -> bool:
        self._exit(self._peek(os.WNOHANG))
        return False

    def _wait_blocking(self) -> int | None:
        return self._peek(0) if _CAN_PEEK else self._popen.wait()

    def _peek(self, options: int) -> int | None:
        """Return the exit status, without reaping."""
        if sys.platform == "win32":
            return self._popen.wait()
        try:
            # WNOWAIT: the process stays a zombie, see the module.
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | options)
        except OSError:
            return None
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _exit(self, returncode: int | None) -> None:
        if not self.exited.is_set():
            self.returncode = returncode
            self.exited.set()
            self._on_exit()

    # -- the group ------------------------------------------------------------------------------------------------

    def _signal_group(self, number: int) -> None:
        if sys.platform != "win32" and not self._group_is_gone:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, number)

    def _group_lives(self) -> bool:
        """Return whether a process of the group still runs; reap the leader first, since a zombie counts as one."""
        if sys.platform == "win32" or self._group_is_gone:
            return False
        if not self._is_reaped:
            self._is_reaped = self._popen.poll() is not None
        try:
            os.killpg(self.pid, 0)
        except OSError:  # ESRCH; EPERM on macOS, when only the dead are left
            self._group_is_gone = True
        return not self._group_is_gone and _has_living_member(self.pid)


def _has_living_member(group: int) -> bool:
    """Return whether a group holds more than zombies, as far as is known.

    Orphans are reaped by process 1, which in many containers never does it, so zombies must not be waited for.
    """
    try:
        with os.scandir("/proc") as entries:
            pids = [entry.name for entry in entries if entry.name.isdigit()]
    except OSError:
        return True
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb") as stat:
                state, _, found, *_ = stat.read().rpartition(b")")[2].split()
            if int(found) == group and state not in (b"Z", b"X"):
                return True
    return not pids


def found_program(program: str, path: str | None, *, platform: str = sys.platform) -> str:
    """Return the path of a program: on Windows a script such as ``npx.cmd`` is only found by its whole name."""
    return (shutil.which(program, path=path) or program) if platform == "win32" else program


def _start(
    command: Sequence[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None, capture_stderr: bool
) -> subprocess.Popen[bytes]:
    program, *arguments = command
    creation_flags = 0
    if sys.platform == "win32":
        creation_flags = subprocess.CREATE_NEW_PROCESS_GROUP
    program = found_program(program, env.get("PATH"))
    return subprocess.Popen(
        [program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if capture_stderr else None,
        # Only the descriptors are used, so that Python must not buffer.
        bufsize=0,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,  # Windows ignores it
        creationflags=creation_flags,
    )


def _detach(stream: IO[bytes] | None) -> int:
    """Return a duplicate of the descriptor of a pipe file, and close the file; -1 without an open file."""
    if stream is None or stream.closed:
        return -1
    copy = os.dup(stream.fileno())
    stream.close()
    return copy
