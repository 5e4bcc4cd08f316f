"""What the commands that talk to a server share: their options, and the client that these options describe."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ferrule.cli.output import Progress, is_terminal, say
from ferrule.cli.targets import ServerChoice, complete_target, read_choice

if TYPE_CHECKING:
    from ferrule.auth import TokenStorage
    from ferrule.client.client import Client

__all__ = ["ConnectionOptions", "connection_options", "run_async", "target_argument"]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
T = TypeVar("T")

target_argument = click.argument("target", shell_complete=complete_target)


def connection_options(command: CommandT) -> CommandT:
    """Return the options of `ConnectionOptions`, gathered into the parameter ``connection``."""
    import functools

    @functools.wraps(command)
    def gathered(**values: Any) -> Any:
        names = ("target", "mode", "headers", "token", "oauth", "timeout_s", "verbose", "output")
        connection = ConnectionOptions(**{name: values.pop(name) for name in names})
        return command(connection=connection, **values)

    options = (
        target_argument,
        click.option("--mode", default="auto", metavar="ERA", help="auto, legacy, or a revision such as 2025-11-25."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send with each request."),
        click.option("--token", envvar="FERRULE_TOKEN", metavar="TOKEN", help="Bearer token (or $FERRULE_TOKEN)."),
        click.option("--oauth", is_flag=True, help="Sign in through the browser when the server asks for it."),
        click.option("--timeout", "timeout_s", type=float, default=300.0, show_default=True, metavar="SECONDS",
                     help="Without an answer or progress."),
        click.option("-v", "--verbose", is_flag=True, help="Show the server's stderr, its log, and progress lines."),
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True,
                     help="For people, or for programs."),
    )  # fmt: skip
    found: Any = gathered
    for option in reversed(options):
        found = option(found)
    return found  # type: ignore[no-any-return]


@dataclass(slots=True)
class ConnectionOptions:
    """How to reach a server, as the command line says.

    Attributes:
        target: as typed.
        mode: era or revision.
        headers: ``"Name: value"`` texts.
        token: bearer token.
        oauth: sign in.
        timeout_s: without an answer or progress.
        verbose: show what the server says beside its answers.
        output: ``"text"`` or ``"json"``.
    """

    target: str
    mode: str = "auto"
    headers: tuple[str, ...] = ()
    token: str | None = None
    oauth: bool = False
    timeout_s: float = 300.0
    verbose: bool = False
    output: str = "text"
    last_words: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))
    bar: Progress = field(default_factory=Progress)

    @property
    def is_json(self) -> bool:
        """Whether a program reads the output."""
        return self.output == "json"

    def choice(self) -> ServerChoice:
        """Return the target with ``stderr`` forwarded."""
        choice = read_choice(self.target)
        if choice.is_http:
            return choice
        target: Any = choice.target
        return replace(choice, target=replace(target, server=replace(target.server, stderr=self._hear)))

    def _hear(self, line: str) -> None:
        self.last_words.append(line)
        if self.verbose:
            self.bar.clear()
            say(f"[server] {line}")

    def show_last_words(self) -> None:
        """What the server wrote to its stderr, for a failure that its answer does not explain."""
        if self.last_words and not self.verbose:
            say("the last lines of the server's stderr:")
            for line in self.last_words:
                say(f"  {line}")

    def client_options(self) -> dict[str, Any]:
        """For `Client`, beside the target."""
        return {"mode": self.mode, "timeout_s": self.timeout_s, "auth": self._auth(), "headers": self.header_map()}

    def header_map(self) -> Mapping[str, str]:
        """Return the headers by name.

        Raises:
            click.UsageError: one has no colon.
        """
        made: dict[str, str] = {}
        for text in self.headers:
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise click.UsageError(f"A header is written 'Name: value', not {text!r}")
            made[name.strip()] = value.strip()
        return made

    def token_storage(self) -> TokenStorage | None:
        """Return where OAuth keeps tokens, if possible for the next command too; ``None`` without OAuth."""
        if not self.oauth:
            return None
        from importlib.util import find_spec

        from ferrule.auth import EncryptedFileStorage, MemoryStorage

        if find_spec("cryptography") is None:
            say("you will have to sign in each time; to be remembered: pip install 'ferrule[auth]'")
            return MemoryStorage()
        return EncryptedFileStorage()

    def _auth(self) -> Any:
        """Return a token, or OAuth whose tokens are kept for the next command, so that the browser is needed once."""
        if not self.oauth:
            return self.token
        from ferrule.auth import OAuth

        return OAuth(storage=self.token_storage())

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:
        """A connected client that asks at the terminal, if there is one."""
        from ferrule.client.client import Client

        try:
            client = Client(self.choice().target, **{**self._asking(), **self.client_options(), **options})
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        async with client:
            yield client

    def _asking(self) -> dict[str, Any]:
        """Return handlers of questions if a user can answer them: stdin and stderr are a terminal."""
        options: dict[str, Any] = {"roots": [os.getcwd()]}
        if self.verbose:
            options["log_handler"] = self._show_log
        if is_terminal(sys.stdin) and is_terminal(sys.stderr):
            from ferrule.client.calls.forms import ask_at_terminal, sample_at_terminal

            options["elicitation_handler"] = self._without_bar(ask_at_terminal)
            options["elicitation_modes"] = ("form", "url")
            options["sampling_handler"] = self._without_bar(sample_at_terminal)
        return options

    def asking_later(self) -> dict[str, Any]:
        """For tasks, whose questions may be answered by another command: declare them without a terminal, too.

        What has to be answered here and now is refused by `InputNotProvided` then.
        """
        if is_terminal(sys.stdin) and is_terminal(sys.stderr):
            return {}
        return {"elicitation_handler": _nobody, "elicitation_modes": ("form", "url"), "sampling_handler": _nobody}

    def _without_bar(self, handler: Callable[..., Coroutine[Any, Any, T]]) -> Callable[[Any, Any], Any]:
        """Return a handler of questions that takes the progress bar away first."""

        async def ask(params: Any, question: Any) -> T:
            self.bar.clear()
            return await handler(params, question)

        return ask

    def progress(self) -> Progress:
        """Return the bar for one call."""
        self.bar = Progress(verbose=self.verbose)
        return self.bar

    def _show_log(self, message: Any) -> None:
        from ferrule.wire.codec import encode_str

        text = message.data if isinstance(message.data, str) else encode_str(message.data)
        name = f" {message.logger}" if message.logger else ""
        self.bar.clear()
        say(f"[{message.level}{name}] {text}")


async def _nobody(params: Any, question: Any) -> Any:
    from ferrule.protocol.errors import MCPError

    raise MCPError("there is no terminal to ask at")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; Ctrl-C cancels and cleans up first."""
    return asyncio.run(work)
