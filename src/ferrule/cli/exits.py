"""The exit statuses, and the conversion of exceptions to a status and a sentence on stderr.

======  ===============================================================================================
0       done
1       the tool reported a failure; ``inspect --strict``, ``check`` or ``doctor`` found a problem; ``diff`` a
        breaking change
2       wrong usage: an unknown option, an unknown target, a malformed argument, a file that fails to load or
        to start, or that cannot be read or written
3       no connection: it could not be started or reached, or the connection ended
4       the server responded with an error
5       timed out
6       the server asked a question that was not answered
70      a bug in Ferrule; ``FERRULE_DEBUG=1`` shows the traceback
130     interrupted with Ctrl-C; an HTTP server that has drained then ends with 0
======  ===============================================================================================
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Final, cast

import click

__all__ = [
    "EXIT_BUG",
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_NO_ANSWER",
    "EXIT_NO_CONNECTION",
    "EXIT_OK",
    "EXIT_REFUSED",
    "EXIT_TIMEOUT",
    "EXIT_USAGE",
    "Quit",
    "run_guarded",
]

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_NO_CONNECTION: Final = 3
EXIT_REFUSED: Final = 4
EXIT_TIMEOUT: Final = 5
EXIT_NO_ANSWER: Final = 6
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130


class Quit(Exception):
    """Ends the program with a status; the message, if there is one, is printed on stderr."""

    def __init__(self, status: int, message: str = "") -> None:
        super().__init__(message)
        self.status = status


def run_guarded(program: click.Command, arguments: Sequence[str] | None, name: str = "ferrule") -> int:
    """Run a command and return its exit status, also for every exception.

    Args:
        program: the command.
        arguments: without the program's name; ``None`` for those of this process.
        name: the name of the program in help texts.
    """
    _use_utf8()
    _escape_warnings()
    try:
        status = program.main(None if arguments is None else list(arguments), prog_name=name, standalone_mode=False)
        _flush()
        return status if isinstance(status, int) else EXIT_OK
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.ClickException as error:
        from ferrule.client.calls.terminal_text import terminal_safe

        vars(error)["message"] = terminal_safe(error.message)  # it may contain text of a configuration
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:  # the reader of a pipe has ended, as in `ferrule list … | head`
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the interpreter flushes it at exit
        return EXIT_OK
    except SystemExit as done:
        if type(sys.stdout).__name__.endswith(
            "PacifyFlushWrapper"
        ):  # click has replaced stdout, and exits with 1 for a broken pipe
            return EXIT_OK
        if done.code is None or isinstance(done.code, int):
            return done.code or EXIT_OK
        click.echo(str(done.code), err=True)  # the text of `sys.exit` in a served file, printed as the interpreter does
        return EXIT_FAILED
    except Quit as done:
        if str(done):
            _complain(str(done))
        return done.status
    except Exception as error:
        if os.environ.get("FERRULE_DEBUG"):
            raise
        status, sentence = explain(error)
        _complain(sentence)
        return status


def explain(error: Exception) -> tuple[int, str]:
    """Return the status and the sentence for an exception."""
    from ferrule.cli.output import terminal_safe
    from ferrule.client.calls.results import ToolFailed
    from ferrule.client.connection.authorization import NO_AUTH
    from ferrule.client.errors import InputNotProvided, InputRequiredError
    from ferrule.protocol.errors import LocalError, MCPError, RemoteError, RequestTimeout
    from ferrule.wire.faults import FerruleError
    from ferrule.wire.jsonrpc import JsonRpcErrorCode

    text = terminal_safe(str(error)) or type(error).__name__
    if _http_status(error) == 401:
        how = "--token TOKEN takes one, --oauth signs in through the browser"
        return EXIT_REFUSED, text.replace(NO_AUTH, how) if NO_AUTH in text else f"{text}: it requires a token. {how}"
    if isinstance(error, ToolFailed):
        return EXIT_FAILED, text
    if isinstance(error, InputRequiredError | InputNotProvided):
        return EXIT_NO_ANSWER, text
    if isinstance(error, RequestTimeout | TimeoutError):
        return EXIT_TIMEOUT, text
    if isinstance(error, RemoteError) and error.code == JsonRpcErrorCode.MISSING_REQUIRED_CLIENT_CAPABILITY:
        how = "--answer NAME=VALUE, --yes and --decline answer questions"
        return EXIT_NO_ANSWER, f"{text}. There is no terminal to ask at; {how}"
    if isinstance(error, RemoteError):
        sentence = f"the server answered with the error {error.code}: {terminal_safe(error.message)}"
        if _http_status(error) == 404 and error.code != JsonRpcErrorCode.METHOD_NOT_FOUND:  # that is a 404 by the book
            sentence += ". Is the path right, such as /mcp? `ferrule doctor URL` looks for it"
        return EXIT_REFUSED, sentence
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return EXIT_NO_CONNECTION, "the address is in use: choose another port with --port (0 takes a free one)"
    is_file = isinstance(error, OSError) and error.filename is not None  # errors of sockets name none
    if isinstance(error, LocalError | OSError) and not is_file:
        return EXIT_NO_CONNECTION, text
    if isinstance(error, MCPError):
        return EXIT_REFUSED, text
    if isinstance(error, FerruleError):  # what is left is a mistake in the file that is served
        return EXIT_USAGE, text
    place = _place_in_user_code(error)
    if place is not None:  # a lifespan, a store, a middleware of the file that is served
        return EXIT_USAGE, f"{place}: {type(error).__name__}: {text}"
    if is_file:
        return EXIT_USAGE, text
    return EXIT_BUG, f"{type(error).__name__}: {text} (a bug? FERRULE_DEBUG=1 shows where)"


def _place_in_user_code(error: BaseException) -> str | None:
    """Return ``file:line, in function`` of the last frame outside of Ferrule and of libraries; ``None`` without one."""
    import sysconfig
    import traceback
    from pathlib import Path

    while isinstance(error, BaseExceptionGroup):
        error = cast("tuple[BaseException, ...]", error.exceptions)[0]  # pyright: ignore[reportUnknownMemberType]
    libraries = [Path(__file__).parents[1], *map(Path, {*sysconfig.get_paths().values()})]
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_file() and not any(path.is_relative_to(library) for library in libraries):
            return f"{path}:{frame.lineno}, in {frame.name}"
    return None


def _http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status behind an error, if there is one."""
    while error is not None:
        for name in ("http_status", "status"):
            found = getattr(error, name, None)  # errors of several HTTP libraries, which share no class
            if isinstance(found, int):
                return found
        error = error.__cause__
    return None


def _complain(sentence: str) -> None:
    from ferrule.client.calls.terminal_text import terminal_safe

    try:
        click.echo(f"ferrule: {terminal_safe(sentence)}", err=True)
    except (OSError, ValueError):  # stderr is closed
        pass


def _escape_warnings() -> None:
    """Escape control characters in warnings, which are printed on stderr if no logging is set up."""
    import logging

    class TerminalSafeFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            from ferrule.client.calls.terminal_text import terminal_safe

            return terminal_safe(super().format(record))

    if logging.lastResort is not None:
        logging.lastResort.setFormatter(TerminalSafeFormatter())


def _use_utf8() -> None:
    """Write UTF-8 to stdout and stderr in any locale, and escape lone surrogates, which would raise an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a program may have replaced the stream by another class
        if reconfigure is not None:
            try:
                reconfigure(encoding="utf-8", errors="backslashreplace")
            except (OSError, ValueError):
                pass


def _flush() -> None:
    sys.stdout.flush()
