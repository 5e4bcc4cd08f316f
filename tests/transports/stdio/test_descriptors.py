"""File descriptors: kinds, private copies, shared flags, and the process's stdin and stdout."""

from __future__ import annotations

import os
import pty
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from ferrule.transports.stdio.descriptors import NonBlockingFd, fd_kind, private_duplicate, unread_bytes

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only Linux opens a pipe anew")


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The two ends of a pipe, closed afterwards if the test did not."""
    ends = os.pipe()
    yield ends
    for fd in ends:
        if fd_kind(fd) == "pipe":
            os.close(fd)


def test_kinds_tell_what_a_loop_can_wait_for(tmp_path: Path) -> None:
    """A loop refuses regular files and the null device, and a closed descriptor must not look like one of them."""
    read, write = os.pipe()
    left, right = socket.socketpair()
    master, slave = pty.openpty()
    with open(tmp_path / "x", "wb") as file, open(os.devnull, "rb") as null, left, right:
        assert [fd_kind(fd) for fd in (read, left.fileno(), slave, file.fileno(), null.fileno())] == [
            "pipe",
            "socket",
            "terminal",
            "file",
            "device",
        ]
    for fd in (read, write, master, slave):
        os.close(fd)
    assert fd_kind(read) == "closed"


def test_a_private_duplicate_stays_out_of_the_standard_three_and_of_children(pipe: tuple[int, int]) -> None:
    """With stderr closed, a plain dup of the wire would become fd 2, where every library writes."""
    copy = private_duplicate(pipe[0])
    assert copy > 2
    assert not os.get_inheritable(copy)
    os.close(copy)


@linux_only
def test_the_shared_flag_of_a_pipe_stays_as_it_was(pipe: tuple[int, int]) -> None:
    """O_NONBLOCK on a shared description would make the shell's, or our own stderr's, writes fail with EAGAIN."""
    shared = os.dup(pipe[1])
    mine = NonBlockingFd(pipe[1], writing=True)
    assert mine.pollable
    assert not os.get_blocking(mine.fd)
    assert os.get_blocking(shared)
    mine.close()
    os.close(shared)


@linux_only
def test_a_terminal_is_opened_anew_and_its_flag_left_alone() -> None:
    """A server that dies with O_NONBLOCK on the terminal breaks the shell that comes back."""
    master, slave = pty.openpty()
    shell = os.dup(slave)
    mine = NonBlockingFd(slave, writing=False)
    assert mine.pollable
    assert os.get_blocking(shell)
    mine.close()
    os.close(shell)
    os.close(master)


def test_a_socket_gets_its_flag_back() -> None:
    """A socket cannot be opened anew, so the flag is set for a time and restored on closing."""
    left, right = socket.socketpair()
    with left, right:
        mine = NonBlockingFd(os.dup(left.fileno()), writing=True)
        assert mine.pollable
        assert not os.get_blocking(left.fileno())
        mine.close()
        assert os.get_blocking(left.fileno())


def test_a_named_pipe_is_not_opened_anew(tmp_path: Path) -> None:
    """Linux does not report the end of a named pipe to a description that was opened after the writer left."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    read = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    write = os.open(path, os.O_WRONLY)
    os.set_blocking(read, True)
    mine = NonBlockingFd(read, writing=False)
    assert mine.fd == read
    assert mine.pollable
    mine.close()
    os.close(write)


def test_a_regular_file_is_not_pollable() -> None:
    """epoll refuses it, so readers must know it before."""
    with tempfile.TemporaryFile() as file:
        mine = NonBlockingFd(os.dup(file.fileno()), writing=False)
        assert not mine.pollable
        mine.close()


def test_closing_twice_closes_no_other_descriptor(pipe: tuple[int, int]) -> None:
    """The number may belong to another file by then."""
    mine = NonBlockingFd(pipe[0], writing=False)
    mine.close()
    other = os.open(os.devnull, os.O_RDONLY)
    mine.close()
    assert fd_kind(other) == "device"
    os.close(other)


def test_a_forked_child_drops_its_copies(pipe: tuple[int, int]) -> None:
    """A copy in a multiprocessing worker would keep a pipe open that both ends believe closed."""
    mine = NonBlockingFd(pipe[0], writing=False)
    child = os.fork()
    if not child:
        os._exit(0 if mine.fd == -1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fd_kind(mine.fd) == "pipe"
    mine.close()


def run_reserving(body: str, *, redirect: str = "", stdin: bytes = b"wire in") -> subprocess.CompletedProcess[bytes]:
    """A program that reserves stdio, runs ``body`` and restores, through a shell for redirections."""
    program = textwrap.dedent("""
        import os, subprocess, sys
        from ferrule.transports.stdio.descriptors import ReservedStdio
        reserved = ReservedStdio()
    """) + textwrap.dedent(body)
    command = ["sh", "-c", f'exec "$0" -X dev -c "$1" {redirect}', sys.executable, program]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=30)


def test_prints_and_children_reach_stderr_and_the_wire_is_clean() -> None:
    """One print, or a child process that reads stdin, would break the session."""
    done = run_reserving(
        """
        print("printed")
        os.write(1, b"raw\\n")
        subprocess.run(["sh", "-c", "echo child; cat; printf 'input:<%s>\\n' \\"$(cat)\\""])
        os.write(reserved.stdout_fd, b"wire out:" + os.read(reserved.stdin_fd, 100))
        reserved.restore()
        print("after", sys.stdin.read() == "")
        """
    )
    assert done.stdout == b"wire out:wire inafter True\n"
    assert done.stderr == b"printed\nraw\nchild\ninput:<>\n"
    assert done.returncode == 0


def test_what_was_printed_before_goes_to_stdout_and_what_was_printed_meanwhile_does_not() -> None:
    """Text waits in Python's buffer, so the moment of writing is not the moment of printing."""
    program = (
        "import sys; sys.stdout.write('before ')\nfrom ferrule.transports.stdio.descriptors import ReservedStdio\n"
    )
    program += "r = ReservedStdio(); sys.stdout.write('meanwhile'); r.restore(); sys.stdout.write('after')"
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, timeout=30)
    assert (done.stdout, done.stderr) == (b"before after", b"meanwhile")


def test_a_print_that_the_locale_cannot_spell_is_no_error() -> None:
    """stdout is strict and stderr is not; a diverted print must not raise inside a tool."""
    program = "from ferrule.transports.stdio.descriptors import ReservedStdio\n"
    program += "r = ReservedStdio(); print(chr(0x4e2d)); r.restore()"
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    env |= {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", program], input=b"", capture_output=True, env=env, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"\\u4e2d\n")


@pytest.mark.parametrize("redirect", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_descriptors_are_survived(redirect: str) -> None:
    """Daemons and some hosts start programs without stdin or stderr; the wire must not land on fd 2."""
    done = run_reserving(
        """
        assert reserved.stdin_fd == -1 or reserved.stdin_fd > 2
        assert reserved.stdout_fd == -1 or reserved.stdout_fd > 2
        os.write(2, b"err")
        if reserved.stdout_fd >= 0:
            os.write(reserved.stdout_fd, b"out")
        reserved.restore()
        """,
        redirect=redirect,
    )
    assert done.returncode == 0
    assert done.stdout == (b"" if ">&-" in redirect.replace("2>&-", "") else b"out")


def test_two_servers_cannot_share_stdin() -> None:
    """The second would read the null device and end at once without a word."""
    done = run_reserving(
        """
        try:
            ReservedStdio()
        except RuntimeError as error:
            os.write(reserved.stdout_fd, str(error).encode())
        reserved.restore()
        ReservedStdio().restore()
        """
    )
    assert done.stdout == b"Another server of this process already uses stdin and stdout"
    assert done.returncode == 0


def test_a_forked_child_of_a_server_cannot_touch_the_wire() -> None:
    """multiprocessing forks with every descriptor; the child's exit would otherwise restore and flush."""
    done = run_reserving(
        """
        if not os.fork():
            print("child prints")
            reserved.restore()
            os.write(1, b"child writes\\n")
            os._exit(0)
        os.wait()
        os.write(reserved.stdout_fd, b"wire")
        reserved.restore()
        """
    )
    assert done.stdout == b"wire"
    assert done.stderr == b"child prints\nchild writes\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell")
def test_what_the_reader_of_a_pipe_has_not_read_is_counted(pipe: tuple[int, int]) -> None:
    """An answer is held back until the notifications before it were read."""
    reading, writing = pipe
    assert unread_bytes(writing, "pipe") == 0
    os.write(writing, b"12345")
    assert unread_bytes(writing, "pipe") == 5
    os.read(reading, 3)
    assert unread_bytes(writing, "pipe") == 2
    os.read(reading, 3)
    assert unread_bytes(writing, "pipe") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not tell")
def test_a_socket_reports_whether_all_was_read() -> None:
    """Node gives its children sockets for stdin and stdout."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"12345")
        assert unread_bytes(ours.fileno(), "socket")
        theirs.recv(10)
        assert unread_bytes(ours.fileno(), "socket") == 0


def test_what_has_no_reader_has_nothing_unread(tmp_path: Path) -> None:
    """A file has no reader to wait for."""
    with (tmp_path / "file").open("wb") as file:
        file.write(b"12345")
        assert unread_bytes(file.fileno(), "file") == 0


HTTP = """
import os, signal
from ferrule import MCPServer
MCPServer("x").run("http", port=0, on_started=lambda host, port: os.kill(os.getpid(), signal.SIGTERM))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="redirections of a POSIX shell")
@pytest.mark.parametrize("redirect", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_http_server_and_the_command_line_survive_closed_standard_descriptors(redirect: str, tmp_path: Path) -> None:
    """uvloop aborts the process when it is to close a socket of the numbers 0 to 2."""
    program = tmp_path / "serve.py"
    program.write_text(HTTP, encoding="utf-8")
    for command in (f"{sys.executable} {program}", f"{sys.executable} -m ferrule --version"):
        done = subprocess.run(["sh", "-c", f"{command} {redirect}"], capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, (command, done)
