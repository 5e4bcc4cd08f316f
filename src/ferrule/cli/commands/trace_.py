"""``ferrule trace``: between a host and a server, and afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast
from urllib.parse import urlsplit

import click

from ferrule.cli.connect import ConnectionOptions, run_async
from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.exits import EXIT_FAILED, EXIT_OK, EXIT_USAGE, Quit
from ferrule.cli.output import print_text, say
from ferrule.cli.targets import ServerChoice, complete_target, python_command, read_choice, with_variables

if TYPE_CHECKING:
    from ferrule.cli.tracing.recording import Recorder

__all__ = ["command", "record", "replay", "show", "show_conversation"]

_END_S = 5.0


_EXAMPLES = """\b
Examples:
  ferrule trace server.py --to session.jsonl
  ferrule trace https://tools.example/mcp --http --port 8900 --to session.jsonl
  ferrule trace --show session.jsonl
  ferrule trace server.py --replay session.jsonl
"""


@click.command("trace", epilog=_EXAMPLES)
@click.argument("target", required=False, shell_complete=complete_target)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), help="Record into this file.")
@click.option("--http", is_flag=True, help="Listen for a host that uses HTTP, and forward to the URL TARGET.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8900, show_default=True, help="0 selects a free one.")
@click.option("--with-secrets", is_flag=True, help="Record passwords, keys and tokens, which are masked otherwise.")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="A header to add to requests to a URL."
)
@environment_options
@click.option("--show", "show_from", type=click.Path(path_type=Path, exists=True), help="Print a recording.")
@click.option("--conversation", type=click.Path(path_type=Path, exists=True), help="Print it as a conversation test.")
@click.option(
    "--replay",
    "replay_from",
    type=click.Path(path_type=Path, exists=True),
    help="Replay a recording or a .conv file against TARGET, a Python file.",
)
def command(
    target: str | None,
    to: Path | None,
    http: bool,
    host: str,
    port: int,
    with_secrets: bool,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    env_files: tuple[Path, ...],
    show_from: Path | None,
    conversation: Path | None,
    replay_from: Path | None,
) -> int:
    """Record the messages between a host and the server TARGET, with the time of each message.

    Put this command in place of the server into the host's configuration: ferrule trace TARGET --to FILE. It
    forwards every byte unchanged, over stdin and stdout; to a URL it is a bridge. With --http it listens in place
    of a URL and forwards every request. Passwords, keys and tokens are masked in the recording where their names or
    their forms show them; HTTP headers are not recorded.
    """
    try:
        if show_from is not None:
            show(show_from)
            return EXIT_OK
        if conversation is not None:
            show_conversation(conversation)
            return EXIT_OK
        if target is None:
            raise click.UsageError("Name the server, or a recording with --show, --conversation or --replay")
        variables = read_environment(env, env_files)
        os.environ.update(variables)  # a file to replay against is loaded here
        choice = read_choice(target)
        choice = replace(choice, target=with_variables(choice.target, variables))
        if replay_from is not None:
            return _replay(choice, replay_from)
    except ValueError as error:
        raise Quit(EXIT_USAGE, str(error)) from error
    if to is None:
        raise click.UsageError("--to FILE says where the recording goes")
    if http:
        added = ConnectionOptions(choice.text, headers=headers).header_map()
        return _record_http(choice, _recorder(to, masks=not with_secrets), host, port, added)
    return record(choice, to, headers, masks=not with_secrets)


def _record_http(choice: ServerChoice, recorder: Recorder, host: str, port: int, headers: Mapping[str, str]) -> int:
    from ferrule.cli.tracing.http_tracing import HttpTrace
    from ferrule.transports.asgi.security import is_loopback_name
    from ferrule.transports.hosting.uvicorn_server import run_http
    from ferrule.transports.http.aiohttp_backend import AiohttpClient

    if not choice.is_http:
        raise click.UsageError("--http traces a URL; serve a file with: ferrule run FILE --http")
    target: Any = choice.target
    path = urlsplit(str(target.url)).path or "/"
    added = {name.lower(): value for name, value in {**target.headers, **headers}.items()}
    http = AiohttpClient()
    trace = HttpTrace(target.url, recorder, http, headers=added, is_local=is_loopback_name(host))

    def started(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        say(f"tracing http://{name}:{port}{path} -> {target.label}: give the host the first address")

    try:
        run_http(trace, host=host, port=port, on_started=started, on_drain=http.aclose)
    finally:
        recorder.close()
    return EXIT_OK


def _recorder(to: Path, *, masks: bool) -> Recorder:
    from ferrule.cli.tracing.recording import Recorder

    try:
        return Recorder(to, masks=masks)
    except OSError as error:
        raise Quit(EXIT_USAGE, f"cannot write {to}: {error}") from error


def record(choice: ServerChoice, to: Path, headers: tuple[str, ...] = (), *, masks: bool = True) -> int:
    """Forward the messages between stdin, stdout and a server, and record them; return the exit status.

    Args:
        choice: the server.
        to: the file of the recording.
        headers: headers to add to requests to a URL.
        masks: mask secrets in the recording.
    """
    from ferrule.cli.tracing.recording import relay
    from ferrule.transports.stdio.client import safe_environment

    target: Any = choice.target
    if choice.is_http:
        argv = python_command("run", target.url, *(part for text in headers for part in ("--header", text)))
        env, cwd = None, None
    else:
        server = target.server
        argv = [server.command, *server.args]
        env, cwd = safe_environment(server.env, inherit=True), server.cwd
    recorder = _recorder(to, masks=masks)
    from ferrule.transports.stdio.process import found_program

    argv = [found_program(argv[0], None if env is None else env.get("PATH")), *argv[1:]]
    try:
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, cwd=cwd)
    except OSError as error:
        raise Quit(3, f"cannot start {argv[0]!r}: {error}") from error
    assert child.stdin is not None
    assert child.stdout is not None

    def hear(line: bytes) -> None:
        recorder.note("client", line)

    reading = threading.Thread(
        target=relay,
        args=(_binary(sys.stdin, "rb"), child.stdin, hear),
        name="ferrule-trace",
        daemon=True,  # it may be blocked in a read, when the host sends nothing more
    )
    reading.start()
    try:
        relay(child.stdout, _binary(sys.stdout, "wb", 0), lambda line: recorder.note("server", line))
        status = child.wait(_END_S)
    except subprocess.TimeoutExpired:
        child.terminate()
        status = child.wait()
    except KeyboardInterrupt:
        child.terminate()
        raise
    finally:
        recorder.close()
    return status if status >= 0 else 128 - status


def _binary(stream: TextIO | None, mode: str, buffering: int = -1) -> Any:
    """Return the bytes of a standard stream, as a file of its own; one that is closed is empty.

    The interpreter aborts at its end if a thread still reads ``sys.stdin.buffer``.
    """
    if stream is None:
        return open(os.devnull, mode, buffering)
    return open(stream.fileno(), mode, buffering, closefd=False)


def show(path: Path) -> None:
    """Print a recording."""
    from ferrule.cli.tracing.recording import read_recording
    from ferrule.wire.codec import encode_str

    asked: dict[tuple[str, str], float] = {}
    for line in read_recording(path):
        arrow = "->" if line.sender == "client" else "<-"
        if line.message.__class__ is not dict:
            print_text(f"{line.at_s:9.3f} {arrow} (no message)")
            continue
        message = cast("dict[str, Any]", line.message)
        key = encode_str(message.get("id"))
        took = ""
        if "method" in message:
            asked[line.sender, key] = line.at_s
        else:
            other = "client" if line.sender == "server" else "server"
            began = asked.pop((other, key), None)
            took = "" if began is None else f" after {(line.at_s - began) * 1000:.1f} ms"
        name = message.get("method") or ("error" if "error" in message else "result")
        number = f" #{message['id']}" if "id" in message else ""
        text = encode_str(message.get("params") or message.get("result") or message.get("error") or {})
        print_text(f"{line.at_s:9.3f} {arrow} {name}{number}{took} {text[:200]}")


def show_conversation(path: Path) -> None:
    """Print a recording as a conversation test."""
    from ferrule.cli.tracing.recording import conversation_of, read_recording

    print_text(conversation_of(read_recording(path)).rstrip("\n"))


def _replay(choice: ServerChoice, path: Path) -> int:
    from ferrule.cli.loading import load_app, lowlevel_of

    if choice.file is None:
        raise click.UsageError("--replay needs a Python file with an MCPServer")
    return replay(lowlevel_of(load_app(choice.file, choice.attribute)), path, run_async)


def replay(server: Any, path: Path, run: Callable[[Any], Any]) -> int:
    """Replay a recording or a ``.conv`` file against a server of this process; return the exit status.

    Args:
        server: the kernel's server.
        path: the recording.
        run: runs a coroutine.
    """
    from ferrule.cli.tracing.recording import conversation_of, read_recording
    from ferrule.testing.conversations import (
        ConversationMismatch,
        load_conversation,
        parse_conversation,
        run_conversation,
        runs_of,
    )

    if path.suffix == ".conv":
        found = load_conversation(path)
    else:
        found = parse_conversation(conversation_of(read_recording(path)), name=path.name)
    runs = 0
    for revision, carrier in runs_of(found):
        try:
            run(run_conversation(found, server, revision=revision, carrier=carrier))
        except ConversationMismatch as error:
            print_text(str(error))
            return EXIT_FAILED
        runs += 1
    say(f"{path}: the server says the same ({runs} {'run' if runs == 1 else 'runs'})")
    return EXIT_OK
