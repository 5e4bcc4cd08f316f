"""Checks a server at a URL: name, port, TLS, path, eras, Host and Origin, buffering, and each step of authorization."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import anyio

from ferrule.cli.doctor.cards import examine_card
from ferrule.cli.doctor.eras import examine_tools, try_revisions, why
from ferrule.cli.doctor.findings import Report
from ferrule.cli.exits import EXIT_OK
from ferrule.cli.targets import ServerChoice
from ferrule.protocol.errors import FerruleError
from ferrule.wire.codec import decode, encode
from ferrule.wire.faults import DecodeError

__all__ = ["examine_url"]

_FOREIGN: Final = "evil.example"
_MAX_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def kind(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def speaks_mcp(self) -> bool:
        """Whether it is JSON-RPC, result or error, plain or as an event."""
        data = self.body
        if self.kind == "text/event-stream":
            data = next((line[5:] for line in data.splitlines() if line.startswith(b"data:") and line[5:].strip()), b"")
        try:
            value: Any = decode(data)
        except DecodeError:
            return False
        return isinstance(value, dict) and "jsonrpc" in value


async def examine_url(
    report: Report, choice: ServerChoice, options: Mapping[str, Any], *, origin: str | None, wait_s: float
) -> None:
    """Run all checks of a server at a URL."""
    from ferrule.transports.http.aiohttp_backend import AiohttpClient

    target: Any = choice.target
    http = AiohttpClient()
    patience_s = min(15.0, options.get("timeout_s", 15.0))
    headers = {**target.headers, **options.get("headers", {})}
    probe = _Probe(http, target.url, headers, options.get("auth"), wait_s, patience_s)
    try:
        answer = await probe.reach(report)
        if answer is None or not await _judge(report, probe, answer):
            return
        worked = await try_revisions(report, target, options, transport="HTTP")
        if not worked:
            return
        if not probe.signs_in:  # the requests of the further checks have no token, and would all be refused
            await _names(report, probe, origin)
        await _buffering(report, probe, target, options, worked)
        await examine_tools(report, target, {**options, "mode": worked[0]})
        await examine_card(report, target, options, http, worked)
    finally:
        await http.aclose()


class _Probe:
    """Sends HTTP requests as a client of either era does."""

    def __init__(
        self, http: Any, url: str, headers: Mapping[str, str], token: Any, wait_s: float, patience_s: float
    ) -> None:
        self.http = http
        self.url = url
        self.headers = {name.lower(): value for name, value in headers.items()}
        self.signs_in = token is not None and not isinstance(token, str)
        if isinstance(token, str):
            self.headers["authorization"] = f"Bearer {token}"
        self.wait_s = wait_s
        self.patience_s = patience_s

    async def post(self, url: str | None = None, **headers: str) -> _Answer:
        """Send ``initialize``, which servers of both eras answer; return the outcome."""
        from ferrule.transports.http.backend import HttpClientRequest
        from ferrule.transports.http.fetching import fetch_bounded

        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
        body = encode({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
        sent = {
            "content-type": "application/json",
            "accept": "application/json, text/event-stream",
            **self.headers,
            **headers,
        }
        request = HttpClientRequest("POST", url or self.url, sent, body)
        status, found, data = await fetch_bounded(
            self.http, request, timeout_s=self.patience_s, max_bytes=_MAX_BYTES, judge=None
        )
        return _Answer(status, found, data)

    async def reach(self, report: Report) -> _Answer | None:
        """Send the first request and report a problem that prevents a response."""
        import socket

        parts = urlsplit(self.url)
        host = parts.hostname or ""
        try:
            await anyio.to_thread.run_sync(socket.getaddrinfo, host, parts.port or 80)
        except OSError:
            report.add("unknown-host", "fail", f"the name {host!r} cannot be resolved", "Correct the host in the URL.")
            return None
        try:
            return await self.post()
        except (FerruleError, OSError, TimeoutError) as error:
            text = why(error)
            low = text.lower()
            if _is_tls(error) or "ssl" in low.replace("ssl:default", ""):
                report.add(
                    "tls", "fail", f"TLS fails: {text}", "http:// instead of https://, or trust its certificate."
                )
            elif "connect call failed" in low or "refused" in low:
                report.add(
                    "nothing-listens", "fail", f"nothing listens at {host}:{parts.port or parts.scheme}",
                    "Start the server, or correct the port.",
                )  # fmt: skip
            elif isinstance(error, TimeoutError) or "did not answer" in low:
                report.add("no-answer", "fail", f"it takes the request and does not answer: {text}", "Look at its log.")
            else:
                report.add("no-connection", "fail", text, "Is it HTTP? Is a proxy in between?")
            return None


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__
    return False


async def _judge(report: Report, probe: _Probe, answer: _Answer) -> bool:
    """Report what the first response shows, and return whether further checks are useful."""
    status = answer.status
    if status == 401:
        await _explain_auth(report, probe, answer)
        return probe.signs_in and report.status == EXIT_OK
    if answer.speaks_mcp and status not in (403, 404, 421):
        report.add("reachable", "ok", f"{probe.url} speaks MCP (HTTP {status})")
        return True
    text = answer.body[:200].decode("utf-8", "replace")
    if status in (301, 302, 303, 307, 308):
        where = answer.headers.get("location", "nowhere")
        report.add("redirect", "fail", f"it redirects to {where}; clients do not follow, or lose their token",
                   f"Use {where} in the first place.")  # fmt: skip
    elif status == 421 or (status == 403 and "host" in text.lower()):
        name = urlsplit(probe.url).netloc
        report.add("host-refused", "fail", f"it refuses the name {name!r} (HTTP {status}: {text})",
                   "Let it accept this name: allowed_hosts=[…] or ferrule run --allow-host.")  # fmt: skip
    elif status == 403:
        report.add("forbidden", "fail", f"it forbids the request (HTTP 403: {text})", "A missing right, or a firewall.")
    elif status in (502, 503, 504):
        report.add("proxy-error", "fail", f"a proxy answers in its place: HTTP {status}", "Is the server behind it up?")
    elif status >= 500:
        report.add("server-error", "fail", f"the server fails: HTTP {status}: {text}", "Look at its log.")
    elif await _try_sse(report, probe):
        return True
    elif not await _other_paths(report, probe, status):
        if answer.speaks_mcp:
            return True
        page = answer.kind == "text/html"
        what = "a web page" if page else f"HTTP {status}, {answer.kind or 'no content type'}"
        report.add("not-mcp", "fail", f"{probe.url} answers with {what}, not with MCP", "Correct the URL.")
    return False


async def _other_paths(report: Report, probe: _Probe, status: int) -> bool:
    """Return whether the endpoint is at another path of the same host, and report it."""
    parts = urlsplit(probe.url)
    path = parts.path.rstrip("/")
    for other in dict.fromkeys(("/mcp", f"{path}/mcp", f"{path}/", path or "/", "/", "/api/mcp", "/mcp/")):
        url = urlunsplit((parts.scheme, parts.netloc, other, "", ""))
        if other == parts.path:
            continue
        try:
            answer = await probe.post(url)
        except (FerruleError, OSError, TimeoutError):
            continue
        if (answer.speaks_mcp and answer.status not in (404, 405)) or answer.status == 401:
            says = f"no MCP at {parts.path or '/'} (HTTP {status}), but at {other}"
            report.add("wrong-path", "fail", says, f"Use {url}", url=url)
            return True
    return False


async def _try_sse(report: Report, probe: _Probe) -> bool:
    """Return whether it is a server of the HTTP+SSE transport (2024-11-05), and report it."""
    from ferrule.transports.http.backend import HttpClientRequest

    try:
        with anyio.move_on_after(probe.wait_s):
            response = await probe.http.open(
                HttpClientRequest("GET", probe.url, {**probe.headers, "accept": "text/event-stream"})
            )
            try:
                kind = response.headers.get("content-type", "")
                if response.status == 200 and kind.startswith("text/event-stream"):
                    report.add("old-sse", "note", "it is the HTTP+SSE transport of 2024-11-05", "Newer hosts drop it.")
                    return True
            finally:
                await response.aclose()
    except (FerruleError, OSError):
        pass
    return False


async def _names(report: Report, probe: _Probe, origin: str | None) -> None:
    """Report whether allowed ``Host`` and ``Origin`` headers are accepted, and on loopback foreign ones refused."""
    from ferrule.transports.asgi.security import is_loopback_name

    if origin is not None:
        answer = await probe.post(origin=origin)
        if answer.status == 403:
            report.add("origin-refused", "fail", f"pages of {origin} may not use it (HTTP 403)",
                       "allowed_origins=[…] or ferrule run --allow-origin.")  # fmt: skip
        elif "access-control-allow-origin" not in answer.headers:
            report.add("no-cors", "warn", f"it serves {origin}, without the CORS headers that a browser wants",
                       "allowed_origins=[…], or let the proxy add them.")  # fmt: skip
        else:
            report.add("origin", "ok", f"pages of {origin} may use it")
    if is_loopback_name(urlsplit(probe.url).hostname or ""):
        foreign = [
            name
            for name, headers in (("Origin", {"origin": f"https://{_FOREIGN}"}), ("Host", {"host": _FOREIGN}))
            if (await probe.post(**headers)).status < 400
        ]
        if foreign:
            which = " and ".join(foreign)
            report.add("rebinding", "warn", f"any web page can send it requests: it accepts a foreign {which}",
                       "Check both headers (Ferrule on loopback does).")  # fmt: skip
        else:
            report.add("names", "ok", "it refuses foreign Host and Origin headers")


async def _buffering(report: Report, probe: _Probe, target: Any, options: Mapping[str, Any], worked: list[str]) -> None:
    """Report whether the events of a stream arrive while it is open."""
    from ferrule.client.client import Client
    from ferrule.wire.revisions import REVISIONS

    modern = next((version for version in worked if "subscriptions/listen" in REVISIONS[version].requests), None)
    if modern is None:
        if not report.has("old-sse"):
            await _legacy_buffering(report, probe)
        return
    heard = False
    try:
        async with Client(target, **dict[str, Any](options, mode=modern)) as client:
            subscription = client.listen(tools=True)
            with anyio.move_on_after(probe.wait_s):
                await subscription.ready()
                heard = True
            await subscription.aclose()
    except FerruleError as error:
        report.add("no-streams", "note", f"it grants no subscriptions: {why(error)}")
        return
    _judge_stream(report, heard, probe.wait_s)


async def _legacy_buffering(report: Report, probe: _Probe) -> None:
    """Report whether the GET stream of a session begins when it is opened; a server need not send events on it."""
    from ferrule.transports.http.backend import HttpClientRequest

    opened = await probe.post()
    session = opened.headers.get("mcp-session-id")
    headers = {**probe.headers, **({} if session is None else {"mcp-session-id": session})}
    heard = False
    try:
        with anyio.move_on_after(probe.wait_s):
            response = await probe.http.open(
                HttpClientRequest("GET", probe.url, {**headers, "accept": "text/event-stream"})
            )
            heard = True
            kind = response.headers.get("content-type", "")
            await response.aclose()
            if response.status != 200 or not kind.startswith("text/event-stream"):
                report.add("no-streams", "note", f"it has no standing stream (HTTP {response.status} to a GET)")
                return
    except (FerruleError, OSError) as error:
        report.add("no-streams", "note", f"its standing stream cannot be opened: {why(error)}")
        return
    finally:
        if session is not None:
            with anyio.move_on_after(probe.wait_s):
                await (await probe.http.open(HttpClientRequest("DELETE", probe.url, headers))).aclose()
    _judge_stream(report, heard, probe.wait_s)


def _judge_stream(report: Report, heard: bool, wait_s: float) -> None:
    if heard:
        report.add("streams", "ok", "streams arrive while they are open")
    else:
        says = f"a stream was opened and nothing of it came within {wait_s:g} s: something in between keeps it back"
        report.add("buffering", "fail", says, "Switch buffering off (nginx: proxy_buffering off; no gzip of streams).")


async def _explain_auth(report: Report, probe: _Probe, answer: _Answer) -> None:
    """Report each step of the discovery from a 401 response to an authorization server."""
    from ferrule.auth.challenges import parse_challenges
    from ferrule.auth.client.discovery import discover_authorization_server, discover_resource
    from ferrule.auth.errors import AuthError
    from ferrule.auth.urls import UrlPolicy

    policy = UrlPolicy()
    challenges = parse_challenges(answer.headers.get("www-authenticate"))
    if not challenges:
        report.add("no-challenge", "warn", "401 without WWW-Authenticate: clients must guess where to sign in",
                   "Send WWW-Authenticate: Bearer resource_metadata=\"…\".")  # fmt: skip
    error = next((found.error for found in challenges if found.error), None)
    if error is not None and "authorization" in probe.headers:
        report.add(
            "token-refused", "fail", f"it refuses the token: {error}", "Sign in anew; is the token for this server?"
        )
    hint = next((found.resource_metadata for found in challenges if found.resource_metadata), None)
    steps: list[str] = []
    try:
        resource = await _drive(discover_resource(probe.url, policy, hint), probe, steps)
        if resource is None or not resource.authorization_servers:
            says = f"step 1: it does not say who gives tokens for it:\n{_steps(steps)}"
            report.add("no-resource-metadata", "fail", says,
                       "Publish /.well-known/oauth-protected-resource (Ferrule: MCPServer(auth=…)).")  # fmt: skip
            return
        report.add("resource-metadata", "ok", f"step 1: metadata of {resource.resource} found")
        issuer = resource.authorization_servers[0]
        steps.clear()
        policy.check(issuer, policy.class_for(probe.url))
        found = await _drive(discover_authorization_server(issuer, policy, policy.class_for(probe.url)), probe, steps)
    except (AuthError, FerruleError, OSError) as failed:
        report.add("auth-discovery", "fail", f"discovery stops: {why(failed)}\n{_steps(steps)}".rstrip(),
                   "Correct the metadata; clients refuse them.")  # fmt: skip
        return
    if found is None:
        report.add("no-issuer-metadata", "fail", f"step 2: the authorization server {issuer} publishes no metadata:\n"
                   + _steps(steps), "Publish RFC 8414 or OpenID Connect metadata there.")  # fmt: skip
        return
    report.add("issuer-metadata", "ok", f"step 2: metadata of the authorization server {issuer} found")
    if "S256" not in (found.code_challenge_methods_supported or []):
        report.add("no-pkce", "fail", "step 3: it does not offer PKCE with S256", "Clients must refuse it without.")
    can_register = found.registration_endpoint or found.client_id_metadata_document_supported
    if not can_register:
        report.add("no-registration", "warn", "step 3: a client that it does not know cannot introduce itself",
                   "Agree on a client_id, or offer client metadata documents or dynamic registration.")  # fmt: skip
    report.add("auth-required", "note", "it requires a token; the steps above found how a client gets one",
               "" if probe.signs_in else "--oauth signs in and looks further, --token TOKEN takes one.")  # fmt: skip


async def _drive(flow: Any, probe: _Probe, steps: list[str]) -> Any:
    """Run an authorization flow over the HTTP client of ``probe``; note each request in ``steps``."""
    from ferrule.client.connection.authorization import fetch_over

    fetch = fetch_over(lambda: probe.http)
    try:
        request = next(flow)
        while True:
            try:
                answer = await fetch(request)
            except (FerruleError, OSError) as error:
                steps.append(f"{request.url}: {why(error)}")
                request = flow.throw(error)
                continue
            steps.append(f"{request.url}: HTTP {answer.status}")
            request = flow.send(answer)
    except StopIteration as done:
        return done.value


def _steps(steps: list[str]) -> str:
    return "\n".join(f"  {step}" for step in steps)
