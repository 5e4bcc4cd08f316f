"""Runs the legs of the official conformance suite and counts for itself; ``scripts/conformance`` calls it.

The suite's exit code is not enough: it forgives scenarios that are not scored for a revision, and it passes a
scenario in which nothing succeeded. So the ``checks.json`` that it writes per scenario are counted here.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

ROOT = Path(__file__).resolve().parent.parent
LEGS = ("2025-11-25", "2026-07-28", "all")
ISSUER_LEGS = ("public", "confidential")
START_TIMEOUT_S = 30.0
LEG_TIMEOUT_S = 300.0

# What does not count: a scenario that the suite itself always skips.
ALWAYS_SKIPPED = ("tasks-status-notifications",)


# Scenarios that a WSGI host cannot serve, with what they need: it answers in one piece, and cannot send anything before
# or after its answer.
NEED_STREAMS = {
    "elicitation-sep1034-defaults": "a question to a legacy client during a call",
    "elicitation-sep1330-enums": "a question to a legacy client during a call",
    "resources-subscribe": "an update outside of a request",
    "resources-unsubscribe": "an update outside of a request",
    "server-session-lifecycle": "sessions",
    "server-sse-multiple-streams": "streams",
    "server-sse-polling": "streams that are resumed",
    "tools-call-elicitation": "a question to a legacy client during a call",
    "tools-call-sampling": "a question to a legacy client during a call",
    "tools-call-with-logging": "messages before the answer",
    "tools-call-with-progress": "messages before the answer",
}


# Scenarios that cannot pass through a gateway, with the reason. Between the eras: those of what the other era lacks.
BEHIND_GATEWAY = {
    "server-sse-polling": "the server closes the stream of its own connection, which is not that of the client",
}
BETWEEN_ERAS = {
    "input-required-result-basic-elicitation": "asks for the name of a question, which legacy questions do not have",
    "input-required-result-ignore-extra-params": "the same",
    "server-stateless": "a legacy server finds out only by asking that the client cannot be asked",
    "tasks-": "tasks of one era are not those of the other",
}


def without_gateway(complaints: list[str], reasons: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the complaints that count behind a gateway, and those of scenarios that cannot pass there."""
    left_out = [each for each in complaints if any(each.startswith(f"server-{name}") for name in reasons)]
    return [each for each in complaints if each not in left_out], left_out


def without_streams(complaints: list[str]) -> tuple[list[str], list[str]]:
    """Return the complaints that count of a server in a WSGI host, and those of scenarios that need streams."""
    left_out = [each for each in complaints if any(each.startswith(f"server-{name}-20") for name in NEED_STREAMS)]
    return [each for each in complaints if each not in left_out], left_out


def suite() -> list[str]:
    """The command of the suite."""
    node = shutil.which("node")
    folder = Path(os.environ.get("FERRULE_PEER_NODE_DIR", ROOT / ".cache" / "node"))
    entry = folder / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if node is None or not entry.exists():
        raise SystemExit("the suite is not installed; scripts/conformance installs it")
    return [node, str(entry)]


class ServerUnderTest:
    """conformance/server.py on a free port.

    Args:
        workers: processes; more than one need a Redis, which scripts/conformance starts.
        host: options of conformance/server.py that choose where it is served.
    """

    def __init__(self, workers: int = 1, *, host: Sequence[str] = ()) -> None:
        self.workers = workers
        self.host = host

    def __enter__(self) -> str:
        command = [sys.executable, "-u", str(ROOT / "conformance" / "server.py"), "--port", "0"]
        command += self.host
        if self.workers > 1:
            store = f"{os.environ['FERRULE_TEST_REDIS_URL']}?prefix=conformance-{os.getpid()}-{time.monotonic_ns()}"
            command += ["--workers", str(self.workers), "--store", store]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("serving "):
            self.__exit__()
            raise SystemExit("conformance/server.py did not start")
        url = line.split()[1]
        wait_for(url)
        return url

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def behind_gateway(url: str, era: str) -> Generator[str]:
    """An address of conformance/gateway.py in front of ``url``."""
    program = [sys.executable, "-u", str(ROOT / "conformance" / "gateway.py"), url, "--behind", era]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line.startswith("serving "):
            raise SystemExit("conformance/gateway.py did not start")
        own = line.split()[1]
        wait_for(own)
        yield own
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def without_affinity(url: str) -> Generator[str]:
    """An address that leads to ``url`` by a new connection for each request.

    The suite keeps its connections open, and one connection stays with one worker; behind a balancer nothing does. So
    each request's head gets ``Connection: close``, which the server honours and the suite follows.
    """
    port = int(url.split(":")[2].partition("/")[0])
    loop = asyncio.new_event_loop()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", port)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
            return
        lines = [line for line in head.split(b"\r\n")[:-2] if not line.lower().startswith(b"connection:")]
        upstream.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]))
        asking = asyncio.ensure_future(copy(reader, upstream))  # a client that leaves takes its upstream along
        await copy(upstream_reader, writer)
        await asking

    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        own = server.sockets[0].getsockname()[1]
        yield url.replace(f":{port}", f":{own}", 1)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def wait_for(url: str) -> None:
    """Until the server answers anything."""
    end = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < end:
        try:
            urlopen(url, timeout=1).close()
        except URLError as error:
            if hasattr(error, "code"):
                return
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"{url} does not answer")


def is_always_skipped(name: str) -> bool:
    """Whether the suite itself never tries a scenario."""
    return any(part in name for part in ALWAYS_SKIPPED)


def tally(folder: Path) -> tuple[int, int, list[str]]:
    """(checks passed, checks failed, complaints) of a leg's output folder."""
    passed = failed = 0
    complaints: list[str] = []
    for file in sorted(folder.rglob("checks.json")):
        scenario = file.parent.name
        checks = json.loads(file.read_text())
        good = [check for check in checks if check["status"] == "SUCCESS"]
        bad = [check for check in checks if check["status"] in ("FAILURE", "WARNING")]
        passed += len(good)
        failed += len(bad)
        if is_always_skipped(str(file.relative_to(folder))):
            continue
        complaints += [f"{scenario}: {c['id']}: {c['status']}: {c.get('errorMessage', '')}" for c in bad]
        if not good:
            complaints.append(f"{scenario}: nothing succeeded")
    return passed, failed, complaints


def run_server_leg(
    leg: str, out: Path, extra: list[str], workers: int = 1, *, host: Sequence[str] = (), gateway: str | None = None
) -> bool:
    """One leg against a fresh server; whether everything that counts passed."""
    choice = ["--suite", "all"] if leg == "all" else ["--requirements", leg]
    with ExitStack() as stack:
        url = stack.enter_context(ServerUnderTest(workers, host=host))
        if workers > 1:
            url = stack.enter_context(without_affinity(url))
        if gateway is not None:
            url = stack.enter_context(behind_gateway(url, gateway))
        command = [*suite(), "server", "--url", url, *choice, "-o", str(out), *extra]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LEG_TIMEOUT_S)
    scenarios = len(list(out.rglob("checks.json")))
    passed, failed, complaints = tally(out)
    if "--wsgi" in host or "wsgi" in host:
        complaints, left_out = without_streams(complaints)
        print(f"server {leg} in a WSGI host: {len(left_out)} complaints left out, of scenarios that need streams")
    if gateway is not None:
        between = gateway == "legacy" and leg != LEGS[0]
        complaints, left_out = without_gateway(complaints, {**BEHIND_GATEWAY, **(BETWEEN_ERAS if between else {})})
        print(f"server {leg} behind a gateway ({gateway}): {len(left_out)} complaints left out, which cannot pass")
    print(f"server {leg}: {scenarios} scenarios, {passed} checks passed, {failed} failed, {len(complaints)} count")
    for complaint in complaints:
        print(f"  {complaint}")
    if not scenarios:
        print(done.stdout[-2000:], done.stderr[-2000:])
    return bool(scenarios) and not complaints


def client_command() -> str:
    """The client under test, as the suite starts it: split at single spaces."""
    return f"{sys.executable} {ROOT / 'conformance' / 'client.py'}"


def run_client_leg(leg: str, out: Path) -> bool:
    """One leg of client scenarios, all at once; whether everything that counts passed."""
    choice = ["--suite", "all"] if leg == "all" else ["--requirements", leg]
    command = [*suite(), "client", "--command", client_command(), *choice, "--timeout", "90000", "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LEG_TIMEOUT_S)
    scenarios = len(list(out.rglob("checks.json")))
    passed, failed, complaints = tally(out)
    print(f"client {leg}: {scenarios} scenarios, {passed} checks passed, {failed} failed, {len(complaints)} count")
    for complaint in complaints:
        print(f"  {complaint}")
    if not scenarios:
        print(done.stdout[-2000:], done.stderr[-2000:])
    return bool(scenarios) and all(passes_alone(name) for name in failed_scenarios(complaints))


def failed_scenarios(complaints: list[str]) -> list[str]:
    """The names of the scenarios that complaints are about; a name that the suite does not list stays as it is."""
    shown = {re.sub(r"-\d{4}-\d\d-\d\dT.*", "", complaint.partition(":")[0]) for complaint in complaints}
    listed = {name.rpartition("/")[2]: name for name in client_scenarios()}
    return sorted(listed.get(name, name) for name in shown)


def passes_alone(name: str) -> bool:
    """Whether a scenario that failed among all at once passes by itself.

    The suite starts every client at the same time, with time limits made for larger machines; a scenario that only
    failed for want of a processor is distinguished from one that fails. It is judged by its own checks and exit code.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [*suite(), "client", "--command", client_command(), "--scenario", name, "--timeout", "60000"]
        done = subprocess.run([*command, "-o", folder], capture_output=True, text=True, timeout=LEG_TIMEOUT_S)
        passed, _, complaints = tally(Path(folder))
    clean = bool(passed) and not complaints and not done.returncode
    print(f"  {name}: {'passes' if clean else 'fails'} alone")
    return clean


def client_scenarios() -> list[str]:
    """The names that the suite lists for clients."""
    listed = subprocess.run([*suite(), "list"], capture_output=True, text=True, check=True).stdout
    _, _, after = listed.partition("Client scenarios")
    section, _, _ = after.partition("\n\n")
    names = [line.split()[1] for line in section.splitlines() if line.startswith("  - ")]
    return [name for name in names if not is_always_skipped(name)]


def run_client_alone(out: Path) -> bool:
    """Every client scenario by itself: only then does the suite look at the client's exit code."""
    clean = True
    for name in client_scenarios():
        command = [*suite(), "client", "--command", client_command(), "--scenario", name, "--timeout", "60000"]
        done = subprocess.run([*command, "-o", str(out)], capture_output=True, text=True, timeout=LEG_TIMEOUT_S)
        if done.returncode:
            clean = False
            print(f"  {name}: exit code {done.returncode}\n{done.stdout[-800:]}")
    print(f"client alone: {len(client_scenarios())} scenarios, {'clean' if clean else 'not clean'}")
    return clean


def free_port() -> int:
    """A port on which nothing listens at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_authorization_leg(leg: str, out: Path) -> bool:
    """The suite as a client of our authorization server, with this program as its user's browser."""
    port = free_port()
    program = [sys.executable, "-u", str(ROOT / "conformance" / "issuer.py")]
    redirect = ["--redirect-uri", f"http://127.0.0.1:{port}/callback"]
    kind = ["--confidential"] if leg == "confidential" else []
    issuer = subprocess.Popen([*program, *redirect, *kind], stdout=subprocess.PIPE, text=True)
    try:
        assert issuer.stdout is not None
        line = issuer.stdout.readline()
        if not line.startswith("serving "):
            raise SystemExit("conformance/issuer.py did not start")
        url = line.split()[1]
        wait_for(url)
        secret = ["--client-secret", "its-secret"] if leg == "confidential" else []
        options = ["--client-id", leg, *secret, "--resource", "http://localhost:1/mcp", "-p", str(port)]
        command = [*suite(), "authorization", "--url", url, *options, "-o", str(out)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as done:
            assert done.stdout is not None
            said, page = list[str](), url
            for line in done.stdout:
                said.append(line)
                if line.startswith(f"{url}/authorize?"):
                    page = line.strip()
                elif line.startswith("Callback server started"):  # said after the page, and only then does it listen
                    urlopen(page, timeout=10).close()
    finally:
        issuer.terminate()
        issuer.wait()
    scenarios = len(list(out.rglob("checks.json")))
    passed, failed, complaints = tally(out)
    code = done.returncode
    print(f"authorization {leg}: {scenarios} scenarios, {passed} checks passed, {failed} failed, exit code {code}")
    for complaint in complaints:
        print(f"  {complaint}")
    if not scenarios or done.returncode:
        print("".join(said)[-2000:])
    return bool(scenarios) and not complaints and not done.returncode


def main() -> None:
    """Run the legs; exit 1 when one is not clean."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("side", choices=["server", "client", "authorization"])
    parser.add_argument("legs", nargs="*", help=f"of {', '.join(LEGS)}, for the client also alone; all without")
    parser.add_argument("-o", "--output", type=Path, help="keep the suite's output in this folder")
    parser.add_argument("--wsgi", action="store_true", help="the server inside a WSGI server, where nothing can stream")
    parser.add_argument("--django", choices=["asgi", "wsgi"], help="the server inside a Django project")
    parser.add_argument("--workers", type=int, default=1, help="processes of the server under test")
    parser.add_argument("--gateway", choices=["auto", "legacy"], help="through a gateway that speaks this era to it")
    arguments = parser.parse_args()
    host = ["--wsgi"] if arguments.wsgi else ["--django", arguments.django] if arguments.django else []
    clean = True
    with tempfile.TemporaryDirectory() as scratch:
        known = {"server": LEGS, "client": (*LEGS, "alone"), "authorization": ISSUER_LEGS}[arguments.side]
        for leg in arguments.legs or known:
            if leg not in known:
                parser.error(f"no leg {leg!r}")
            out = (arguments.output or Path(scratch)) / f"{arguments.side}-{leg}"
            if leg == "alone":
                clean = run_client_alone(out) and clean
            elif arguments.side == "authorization":
                clean = run_authorization_leg(leg, out) and clean
            elif arguments.side == "client":
                clean = run_client_leg(leg, out) and clean
            else:
                clean = run_server_leg(leg, out, [], arguments.workers, host=host, gateway=arguments.gateway) and clean
    sys.exit(not clean)


if __name__ == "__main__":
    main()
