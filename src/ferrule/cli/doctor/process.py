"""Checks a server that runs as a process: the program, its start as by a host, its stdout, its end."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import anyio

from ferrule.cli.doctor.eras import collect_noise, examine_tools, try_revisions, why
from ferrule.cli.doctor.findings import Report
from ferrule.cli.targets import ServerChoice

__all__ = ["examine_process"]

_HINTS: Final = {
    "uvx": "Install uv (https://docs.astral.sh/uv/), or name the full path of uvx.",
    "uv": "Install uv (https://docs.astral.sh/uv/), or name its full path.",
    "npx": "Install Node.js, or name the full path of npx: hosts started from a menu have a shorter PATH.",
    "node": "Install Node.js, or name its full path: hosts started from a menu have a shorter PATH.",
    "python": "Many systems have python3 only; the full path of the right environment's python is best.",
    "docker": "Install Docker, or name its full path.",
}
_END_S: Final = 3.0


async def examine_process(
    report: Report, choice: ServerChoice, options: Mapping[str, Any], slow_after_s: float
) -> None:
    """Run all checks of a server that runs as a process."""
    target: Any = choice.target
    # As a host does it: with a short list of variables, not with this shell's.
    hosted = replace(target.server, inherit_env=(), stderr="capture")
    if not _find_program(report, hosted, is_ours=choice.file is not None):
        return
    lines: list[str] = []
    hosted = replace(hosted, stderr=lines.append)
    with collect_noise() as heard:
        if not await _start_once(report, hosted, options, slow_after_s, lines):
            await _blame_environment(report, hosted, options, lines)
            return
        if heard.lines:
            report.add(
                "stdout-noise",
                "fail",
                f"it writes things to stdout that are not messages; strict hosts break on that:\n{heard.lines[0]}",
                "Print to stderr (print(..., file=sys.stderr)), or let Ferrule serve: it keeps stdout to itself.",
                lines=heard.lines,
            )
        made = replace(target, server=hosted)
        worked = await try_revisions(report, made, options, transport="stdio")
        await examine_tools(report, made, {**options, "mode": worked[0]} if worked else options)
        await _watch_end(report, hosted)


def _find_program(report: Report, server: Any, *, is_ours: bool) -> bool:
    """Check that the program exists and can be executed, and return whether it does: the most frequent failure."""
    command: str = server.command
    is_path = os.sep in command or (os.altsep is not None and os.altsep in command)
    found = command if is_path else shutil.which(command)
    hint = _HINTS.get(Path(command).name.removesuffix(".exe"), "Name its full path.")
    if found is None or not os.path.exists(found):
        where = "does not exist" if is_path else "is in no folder of PATH"
        report.add("missing-program", "fail", f"the program {command!r} {where}", hint, path=os.environ.get("PATH", ""))
        return False
    if server.cwd is not None and not os.path.isdir(server.cwd):
        report.add("missing-folder", "fail", f"the folder {os.fspath(server.cwd)!r} does not exist", "Correct 'cwd'.")
        return False
    if not os.access(found, os.X_OK) or os.path.isdir(found):
        report.add(
            "not-executable", "fail", f"{found} cannot be executed", f"chmod +x {found}, or start its interpreter."
        )
        return False
    interpreter = _shebang(found)
    if interpreter is not None and shutil.which(interpreter) is None:
        report.add(
            "missing-interpreter", "fail", f"{found} is a script for {interpreter!r}, which does not exist",
            _HINTS.get(Path(interpreter).name, "Install it, or correct the first line of the script."),
        )  # fmt: skip
        return False
    script = next((part for part in server.args if part.endswith((".py", ".js", ".mjs", ".ts"))), None)
    if script is not None and not os.path.exists(os.path.join(server.cwd or "", script)):
        report.add("missing-script", "fail", f"the script {script!r} does not exist", "Use its absolute path.")
        return False
    if script is not None and not os.path.isabs(script) and not is_ours:
        report.add(
            "relative-path", "note", f"{script!r} is found from this folder only", "Hosts need an absolute path."
        )
    report.add("program", "ok", f"the program is {os.path.abspath(found)}")
    return True


def _shebang(path: str) -> str | None:
    try:
        with open(path, "rb") as stream:
            first = stream.readline(256)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    parts = first[2:].decode("utf-8", "replace").split()
    if parts and os.path.basename(parts[0]) == "env" and os.path.exists(parts[0]):
        parts = [part for part in parts[1:] if not part.startswith("-") and "=" not in part]
    return parts[0] if parts else None


async def _start_once(
    report: Report, server: Any, options: Mapping[str, Any], slow_after_s: float, lines: list[str]
) -> bool:
    """Measure the first connection; return whether it succeeded."""
    from ferrule.client.client import Client
    from ferrule.protocol.errors import FerruleError, RequestTimeout
    from ferrule.transports.stdio.client import ServerProcessEnded

    started = time.monotonic()
    try:
        async with Client(server, **dict[str, Any](options, restart=False)) as client:
            took_s = time.monotonic() - started
            name = client.server_info.name if client.server_info is not None else "it"
    except FerruleError as error:
        ended = _cause(error, ServerProcessEnded)
        if ended is not None:
            # `_blame_environment` reports this with more details.
            return False
        if _cause(error, RequestTimeout) is not None or isinstance(error, TimeoutError):
            report.add(
                "silent", "fail", f"it started and did not answer: {why(error)}",
                "Does it wait for something (a login, a download), or speak another protocol?", stderr=lines[-10:],
            )  # fmt: skip
        else:
            report.add("no-connection", "fail", f"no connection could be made: {why(error)}", stderr=lines[-10:])
        return False
    if took_s > slow_after_s:
        report.add(
            "slow-start",
            "warn",
            f"it took {took_s:.1f} s until its first answer; hosts give up after 10 to 60 s, or feel slow",
            "Import heavy libraries where they are used; with npx or uvx, install the package beforehand.",
            seconds=round(took_s, 2),
        )
    else:
        report.add("starts", "ok", f"{name} answers {took_s:.2f} s after its start", seconds=round(took_s, 3))
    return True


async def _blame_environment(report: Report, server: Any, options: Mapping[str, Any], lines: list[str]) -> None:
    """Report why a process ended at once: start it again with the variables of this shell, and compare."""
    from ferrule.client.client import Client
    from ferrule.protocol.errors import FerruleError
    from ferrule.transports.stdio.client import SAFE_ENVIRONMENT

    if report.has("silent") or report.has("no-connection"):
        return
    half = len(lines) // 2
    if half and lines[:half] == lines[half:]:  # it was started in both eras, and said the same
        del lines[half:]
    words = "\n".join(lines[-10:])
    try:
        async with Client(
            replace(server, inherit_env=True, stderr="capture"), **dict[str, Any](options, restart=False)
        ):
            pass
    except FerruleError as error:
        report.add(
            "early-exit", "fail", f"it ends before it has answered; its last words:\n{words or '(none)'}",
            _exit_hint(words), stderr=lines[-10:], error=why(error),
        )  # fmt: skip
        return
    named = [name for name in re.findall(r"\b[A-Z][A-Z0-9_]{2,}\b", words) if name in os.environ]
    named = [name for name in dict.fromkeys(named) if name not in SAFE_ENVIRONMENT]
    which = " or ".join(named) if named else "a variable of this shell"
    report.add(
        "needs-environment",
        "fail",
        f"it starts from this shell and not from a host: it needs {which}, which hosts do not pass on"
        + (f"; its last words:\n{words}" if words else ""),
        f'In the configuration: "env": {{"{named[0] if named else "NAME"}": "…"}} (ferrule install --env NAME).',
        variables=named,
    )


def _exit_hint(words: str) -> str:
    found = re.search(r"No module named '?([\w.]+)'?", words)
    if found is not None:
        return f"Install {found[1]} into the environment whose Python is started, or start another Python."
    if "SyntaxError" in words or "IndentationError" in words:
        return "Correct the file; it is not valid Python (of this version)."
    if "command not found" in words or "not found" in words:
        return "Something that it starts is not in PATH."
    return "Start it by hand and read what it says."


def _cause(error: BaseException | None, kind: type[BaseException]) -> BaseException | None:
    while error is not None:
        if isinstance(error, kind):
            return error
        error = error.__cause__ or error.__context__
    return None


async def _watch_end(report: Report, server: Any) -> None:
    """Close the server's stdin, as a host does, and report whether the process ends."""
    from ferrule.transports.stdio.client import connect_stdio

    process = await connect_stdio(server)
    try:
        await _shake_hands(process)
        await process.write_stream.aclose()
        with anyio.move_on_after(_END_S):
            while process.returncode is None:  # noqa: ASYNC110 - asyncio gives no other notice of the end of this process
                await anyio.sleep(0.02)
        if process.returncode is None:
            report.add(
                "does-not-end",
                "warn",
                f"it still runs {_END_S:g} s after its stdin was closed; hosts leave such servers behind",
                "End when stdin ends. Ferrule's servers do.",
            )
        else:
            report.add("ends", "ok", "it ends when its stdin is closed")
    finally:
        await process.aclose()


async def _shake_hands(process: Any) -> None:
    from ferrule.kernel.dispatch import StreamMessage
    from ferrule.wire.jsonrpc import JsonRpcRequest
    from ferrule.wire.revisions import LATEST_HANDSHAKE_VERSION

    params = {
        "protocolVersion": LATEST_HANDSHAKE_VERSION,
        "capabilities": {},
        "clientInfo": {"name": "ferrule-doctor", "version": "1"},
    }
    with anyio.move_on_after(10):
        try:
            await process.write_stream.send(StreamMessage(JsonRpcRequest(id=1, method="initialize", params=params)))
            await process.read_stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            pass
