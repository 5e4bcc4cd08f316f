"""Interaction with the user who consents: a browser with a loopback listener, a URL to paste, or a callback.

The authorization URL comes from a server: it has passed the URL policy, is given to the browser without a shell, and is
never shown together with the response.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, urlsplit

import anyio
from anyio import to_thread

from ferrule.auth.errors import InteractionFailed, UnsafeUrl
from ferrule.auth.urls import HostClass, class_of_host, split_url

if TYPE_CHECKING:
    from anyio.abc import SocketStream

__all__ = [
    "BrowserInteraction",
    "CallbackInteraction",
    "Interaction",
    "PasteInteraction",
    "check_openable",
    "default_interaction",
]

logger = logging.getLogger("ferrule.auth")

CALLBACK_PATH: Final = "/callback"
DEFAULT_TIMEOUT_S: Final = 300.0
# The listener accepts requests of any local program, so a request is bounded in size and time.
_MAX_HEAD_BYTES: Final = 16 * 1024
_HEAD_TIMEOUT_S: Final = 5.0
_POLL_INTERVAL_S: Final = 0.1
_PAGE: Final = (
    "<!doctype html><meta charset=utf-8><title>{title}</title>"
    "<body style='font:16px system-ui;margin:4em auto;max-width:32em'><h1>{title}</h1><p>{text}</p>"
)


class Interaction(Protocol):
    """Sends the user to an authorization URL and returns the response."""

    async def start(self, preferred: str | None) -> str:
        """Prepare to receive the authorization response and return the redirect URI.

        Args:
            preferred: a redirect URI that is registered already or set by the program; ``None`` without one.

        Raises:
            InteractionFailed: no response could be received.
        """
        ...

    async def authorize(self, url: str) -> str:
        """Send the user to ``url`` and return the redirect URL with the authorization response.

        Raises:
            InteractionFailed: there was no response in time.
            UnsafeUrl: ``url`` may not be opened.
        """
        ...

    async def aclose(self) -> None:
        """Stop listening. Idempotent."""
        ...


def check_openable(url: str) -> None:
    """Check that a URL may be opened in a browser: ``https``, or ``http`` on loopback.

    Raises:
        UnsafeUrl: it is another kind of URL.
    """
    parts = split_url(url)
    is_loopback = class_of_host(parts.hostname or "") is HostClass.LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback)):
        raise UnsafeUrl(url, "a browser is sent to https URLs only")


class BrowserInteraction:
    """Opens the user's browser and receives the response on a loopback port (RFC 8252, 7.3).

    Args:
        port: TCP port of the listener; 0 takes the registered one if there is one, else a free one.
        timeout_s: time limit for the user, in seconds.
        open_url: opens a URL and returns ``False`` if it could not; ``None`` uses `webbrowser`.
        host: host in the redirect URI: ``"127.0.0.1"`` or ``"localhost"``.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        timeout_s: float = DEFAULT_TIMEOUT_S,
        open_url: Callable[[str], Any] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._port = port
        self._timeout_s = timeout_s
        self._open_url = open_url
        self._host = host
        self._listener: Any = None
        self._path = CALLBACK_PATH

    async def start(self, preferred: str | None) -> str:
        """See `Interaction.start`.

        Raises:
            InteractionFailed: ``preferred`` is not a loopback URL, or the port cannot be bound.
        """
        await self.aclose()
        host, port, path = self._host, self._port, CALLBACK_PATH
        is_port_required = False
        if preferred is not None:
            parts = urlsplit(preferred)
            if parts.scheme != "http" or class_of_host(parts.hostname or "") is not HostClass.LOOPBACK:
                raise InteractionFailed(
                    f"{preferred} is not a loopback URL, so this program cannot receive the response"
                )
            host, port, path = parts.hostname or host, parts.port or 0, parts.path or "/"
            is_port_required = parts.port is not None and self._port == parts.port
        try:
            self._listener = await anyio.create_tcp_listener(local_host=_address(host), local_port=port)
        except OSError as error:
            if is_port_required or port == 0:
                raise InteractionFailed(f"Cannot listen on {host} for the authorization response: {error}") from error
            self._listener = await anyio.create_tcp_listener(local_host=_address(host), local_port=0)
        self._path = path
        bound = self._listener.extra(anyio.abc.SocketAttribute.local_port)
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound}{path}"

    async def authorize(self, url: str) -> str:
        """See `Interaction.authorize`.

        Raises:
            InteractionFailed: `start` was not called, or there was no response within ``timeout_s``.
            UnsafeUrl: ``url`` may not be opened.
        """
        check_openable(url)
        state = _state_of(url)
        listener, self._listener = self._listener, None
        if listener is None:
            raise InteractionFailed("There is no listener for the authorization response: call start() first")
        responses: list[str] = []
        done = anyio.Event()

        async def serve(stream: SocketStream) -> None:
            async with stream:
                target = await _request_target(stream)
                if target is None:
                    return
                path, _, query = target.partition("?")
                is_response = path == self._path and any(f"{name}=" in query for name in ("code", "error", "state"))
                # Any page and any program of this machine can send requests here. Every authorization response has the
                # request's state (RFC 6749, 4.1.2 and 4.1.2.1); a request without it must not end the wait.
                is_response = is_response and (state is None or _state_of(target) == state)
                await stream.send(_reply(is_response))
                if is_response and not responses:
                    responses.append(f"http://{self._host}{target}")
                    done.set()

        async def listen() -> None:
            async with listener:
                await listener.serve(serve)

        with anyio.move_on_after(self._timeout_s):
            async with anyio.create_task_group() as group:
                group.start_soon(listen)
                await self._open(url)
                await done.wait()
                group.cancel_scope.cancel()
        if not responses:
            raise InteractionFailed(f"There was no authorization response within {self._timeout_s:g} s")
        return responses[0]

    async def _open(self, url: str) -> None:
        import webbrowser

        open_url = self._open_url or webbrowser.open
        try:
            opened = await to_thread.run_sync(open_url, url)
        except Exception as error:
            logger.debug("The browser could not be opened: %s", type(error).__name__)
            opened = False
        if opened is False:
            sys.stderr.write(f"Open this page in a browser on this machine to authorize:\n{url}\n")
            sys.stderr.flush()

    async def aclose(self) -> None:
        """See `Interaction`."""
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()


def _state_of(url: str) -> str | None:
    found = parse_qs(url.partition("#")[0].partition("?")[2]).get("state")
    return found[0] if found else None


def _address(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host


async def _request_target(stream: SocketStream) -> str | None:
    """Return the request target of a GET request; ``None`` for anything else or after `_HEAD_TIMEOUT_S`."""
    head = b""
    with anyio.move_on_after(_HEAD_TIMEOUT_S):
        try:
            while b"\r\n\r\n" not in head and len(head) < _MAX_HEAD_BYTES:
                head += await stream.receive(4096)
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return None
    words = head.partition(b"\r\n")[0].split(b" ")
    if len(words) != 3 or words[0] != b"GET" or not words[1].startswith(b"/"):
        return None
    return words[1].decode("ascii", "replace")


def _reply(is_response: bool) -> bytes:
    title = "Authorization received" if is_response else "Not found"
    text = "You can close this page and return to your program." if is_response else "This address has no page."
    page = _PAGE.format(title=title, text=text).encode()
    status = "200 OK" if is_response else "404 Not Found"
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(page)}\r\n"
        "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    ).encode() + page


class PasteInteraction:
    """Shows the authorization URL and reads the redirect URL that the user pastes: for remote shells.

    Nothing needs to listen at the redirect URI: the browser shows an error, and its address bar has the response.

    Args:
        redirect_uri: the redirect URI if none is registered.
        show: shows a text; ``None`` writes to standard error.
        ask: takes the prompt and returns the line that the user pastes; ``None`` reads from the terminal.
    """

    def __init__(
        self,
        *,
        redirect_uri: str = f"http://127.0.0.1:33418{CALLBACK_PATH}",
        show: Callable[[str], Any] | None = None,
        ask: Callable[[str], str | Awaitable[str]] | None = None,
    ) -> None:
        self._redirect_uri = redirect_uri
        self._show = show
        self._ask = ask

    async def start(self, preferred: str | None) -> str:
        """See `Interaction`."""
        return preferred or self._redirect_uri

    async def authorize(self, url: str) -> str:
        """See `Interaction`."""
        check_openable(url)
        text = (
            f"Open this page in any browser:\n\n{url}\n\nAfter you have agreed the browser goes to an address that "
            "begins with the redirect URI; it may say that it cannot be reached. Copy that whole address.\n"
        )
        if self._show is not None:
            self._show(text)
        else:
            sys.stderr.write(text)
            sys.stderr.flush()
        prompt = "Address: "
        if self._ask is None:
            cancelled = threading.Event()
            try:
                line = await to_thread.run_sync(_read_line, prompt, cancelled, abandon_on_cancel=True)
            finally:
                cancelled.set()  # else the thread waits for a line forever, and the interpreter waits for it at exit
        else:
            given = self._ask(prompt)
            line = given if isinstance(given, str) else await given
        if not line.strip():
            raise InteractionFailed("No address was given")
        return str(line.strip())

    async def aclose(self) -> None:
        """See `Interaction`."""


def _read_line(prompt: str, cancelled: threading.Event) -> str:
    """Return a line from the terminal; not from standard input, which may carry the stdio transport."""
    import select

    path = "CON" if sys.platform == "win32" else "/dev/tty"
    try:
        with open(path, encoding="utf-8") as terminal:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            if sys.platform != "win32":  # on Windows Ctrl-C ends a read at the console
                while not select.select([terminal], [], [], _POLL_INTERVAL_S)[0]:
                    if cancelled.is_set():
                        return ""
            return terminal.readline()
    except OSError as error:
        raise InteractionFailed("There is no terminal to ask for the address") from error


class CallbackInteraction:
    """Calls a function of the program with the authorization URL; it returns the redirect URL with the response.

    Args:
        redirect_uri: the redirect URI at which the program receives responses.
        visit: ``async (url) -> str``.
    """

    def __init__(self, redirect_uri: str, visit: Callable[[str], Awaitable[str]]) -> None:
        self._redirect_uri = redirect_uri
        self._visit = visit

    async def start(self, preferred: str | None) -> str:
        """See `Interaction`."""
        return self._redirect_uri

    async def authorize(self, url: str) -> str:
        """See `Interaction`."""
        check_openable(url)
        return await self._visit(url)

    async def aclose(self) -> None:
        """See `Interaction`."""


def default_interaction() -> Interaction:
    """Return a `PasteInteraction` in a remote shell without display, else a `BrowserInteraction`."""
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    has_display = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return PasteInteraction() if remote and not has_display else BrowserInteraction()
