"""Asking a person to consent: a browser with a listener on loopback, a URL to paste, or a program's own way.

The URL to open comes from outside: it was judged by the URL policy, is handed to the browser without a shell, and is
never shown together with what comes back.
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
_MAX_HEAD_BYTES: Final = 16 * 1024
_HEAD_TIMEOUT_S: Final = 5.0
_LOOK_S: Final = 0.1
_PAGE: Final = (
    "<!doctype html><meta charset=utf-8><title>{title}</title>"
    "<body style='font:16px system-ui;margin:4em auto;max-width:32em'><h1>{title}</h1><p>{text}</p>"
)


class Interaction(Protocol):
    """How a person consents."""

    async def start(self, preferred: str | None) -> str:
        """Be ready for the person's return; the redirect URI to use.

        Args:
            preferred: what is registered already or what the program wants.

        Raises:
            InteractionFailed: there is no way to be ready.
        """
        ...

    async def authorize(self, url: str) -> str:
        """Send the person to ``url``; the whole URL on which they came back.

        Raises:
            InteractionFailed: they did not.
        """
        ...

    async def aclose(self) -> None:
        """Listen no longer. Idempotent."""
        ...


def check_openable(url: str) -> None:
    """Whether a URL may be given to a browser: ``https``, or ``http`` on loopback; nothing else.

    Raises:
        UnsafeUrl: it may not.
    """
    parts = split_url(url)
    is_loopback = class_of_host(parts.hostname or "") is HostClass.LOOPBACK
    if not parts.hostname or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback)):
        raise UnsafeUrl(url, "a browser is sent to https URLs only")


class BrowserInteraction:
    """Opens the user's browser and waits for it on a loopback port (RFC 8252, 7.3).

    Args:
        port: to listen on; 0 takes a free one, and the registered one again where there is one.
        timeout_s: seconds that the user has.
        open_url: opens a URL; ``None`` takes the standard `webbrowser`. Returns whether it could.
        host: in the redirect URI: ``"127.0.0.1"`` or ``"localhost"``.
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
        """See `Interaction`."""
        await self.aclose()
        host, port, path = self._host, self._port, CALLBACK_PATH
        must = False
        if preferred is not None:
            parts = urlsplit(preferred)
            if parts.scheme != "http" or class_of_host(parts.hostname or "") is not HostClass.LOOPBACK:
                raise InteractionFailed(f"{preferred} is not a loopback URL, so no browser can come back to it here")
            host, port, path = parts.hostname or host, parts.port or 0, parts.path or "/"
            must = parts.port is not None and self._port == parts.port
        try:
            self._listener = await anyio.create_tcp_listener(local_host=_address(host), local_port=port)
        except OSError as error:
            if must or port == 0:
                raise InteractionFailed(f"Cannot listen on {host} for the browser's return: {error}") from error
            self._listener = await anyio.create_tcp_listener(local_host=_address(host), local_port=0)
        self._path = path
        bound = self._listener.extra(anyio.abc.SocketAttribute.local_port)
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{bound}{path}"

    async def authorize(self, url: str) -> str:
        """See `Interaction`."""
        check_openable(url)
        state = _state_of(url)
        listener, self._listener = self._listener, None
        if listener is None:
            raise InteractionFailed("Nothing listens for the browser's return")
        came_back: list[str] = []
        done = anyio.Event()

        async def serve(stream: SocketStream) -> None:
            async with stream:
                target = await _request_target(stream)
                if target is None:
                    return
                path, _, query = target.partition("?")
                wanted = path == self._path and any(f"{name}=" in query for name in ("code", "error", "state"))
                # Any page and any program can knock here. Who does not know the state is not the one waited for
                # (RFC 6749, 4.1.2 and 4.1.2.1: it comes back with every answer), and must not end the waiting.
                wanted = wanted and (state is None or _state_of(target) == state)
                await stream.send(_reply(wanted))
                if wanted and not came_back:
                    came_back.append(f"http://{self._host}{target}")
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
        if not came_back:
            raise InteractionFailed(f"Nobody came back from the authorization page within {self._timeout_s:g} s")
        return came_back[0]

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
    """The target of one GET; ``None`` for anything else."""
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


def _reply(wanted: bool) -> bytes:
    title = "Authorization received" if wanted else "Nothing here"
    text = "You can close this page and go back to your program." if wanted else "This is not the page you look for."
    page = _PAGE.format(title=title, text=text).encode()
    status = "200 OK" if wanted else "404 Not Found"
    return (
        f"HTTP/1.1 {status}\r\ncontent-type: text/html; charset=utf-8\r\ncontent-length: {len(page)}\r\n"
        "cache-control: no-store\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n"
    ).encode() + page


class PasteInteraction:
    """Shows the URL and asks for the one on which the browser ended: for shells on other machines.

    The redirect URI need not lead anywhere: the browser shows an error, and its address line holds the answer.

    Args:
        redirect_uri: to use where none is registered.
        show: shows a text; ``None`` writes to standard error.
        ask: gives the line that the user pastes; ``None`` reads from the terminal.
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
            unwanted = threading.Event()
            try:
                line = await to_thread.run_sync(_read_line, prompt, unwanted, abandon_on_cancel=True)
            finally:
                unwanted.set()  # or the thread would wait for a line, and the interpreter at its end for the thread
        else:
            given = self._ask(prompt)
            line = given if isinstance(given, str) else await given
        if not line.strip():
            raise InteractionFailed("No address was given")
        return str(line.strip())

    async def aclose(self) -> None:
        """See `Interaction`."""


def _read_line(prompt: str, unwanted: threading.Event) -> str:
    """A line from the terminal, not from standard input: that may belong to a protocol."""
    import select

    path = "CON" if sys.platform == "win32" else "/dev/tty"
    try:
        with open(path, encoding="utf-8") as terminal:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            if sys.platform != "win32":  # where a read at the console ends with Ctrl-C by itself
                while not select.select([terminal], [], [], _LOOK_S)[0]:
                    if unwanted.is_set():
                        return ""
            return terminal.readline()
    except OSError as error:
        raise InteractionFailed("There is no terminal to ask for the address") from error


class CallbackInteraction:
    """A program's own way: a function from the authorization URL to the URL on which the user came back.

    Args:
        redirect_uri: where the program receives them.
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
    """A browser where one can be seen; in a remote shell without display, the form to paste."""
    remote = "SSH_CONNECTION" in os.environ or "SSH_TTY" in os.environ
    has_display = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return PasteInteraction() if remote and not has_display else BrowserInteraction()
