"""The options that commands with a server share, and the client that is made from them."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ferrule.cli.answers import TypedAnswers, answer_options
from ferrule.cli.completion.names import complete_server
from ferrule.cli.environment import environment_options, read_environment
from ferrule.cli.output import Progress, is_terminal, say
from ferrule.cli.targets import ServerChoice, complete_target, read_choice, with_server, with_variables

if TYPE_CHECKING:
    from ferrule.auth import TokenStorage
    from ferrule.client.client import Client

__all__ = ["ConnectionOptions", "connection_options", "run_async", "target_argument"]

CommandT = TypeVar("CommandT", bound=Callable[..., Any])
T = TypeVar("T")

target_argument = click.argument("target", shell_complete=complete_target)


def connection_options(command: CommandT) -> CommandT:
    """Add the options of `ConnectionOptions` to a command, which gets them as the parameter ``connection``."""
    import functools

    @functools.wraps(command)
    def gathered(**values: Any) -> Any:
        names = ("target", "mode", "headers", "token", "oauth", "timeout_s", "verbose", "output")
        given = {name: values.pop(name) for name in names}
        given["target"] = with_server(given["target"], values.pop("server"))
        answers = TypedAnswers(values.pop("answers"), yes=values.pop("yes"), declines=values.pop("declines"))
        variables = read_environment(values.pop("env"), values.pop("env_files"))
        connection = ConnectionOptions(**given, answers=answers, variables=variables)
        return command(connection=connection, **values)

    options = (
        target_argument,
        click.option("--server", metavar="NAME", shell_complete=complete_server,
                     help="The server of a configuration TARGET that has several."),
        click.option("--mode", default="auto", metavar="ERA", help="auto, legacy, or a revision such as 2025-11-25."),
        click.option("--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Header of each request."),
        click.option("--token", envvar="FERRULE_TOKEN", metavar="TOKEN", help="Bearer token (or $FERRULE_TOKEN)."),
        click.option("--oauth", is_flag=True, help="Sign in through the browser when the server asks for it."),
        click.option("--timeout", "timeout_s", type=float, default=300.0, show_default=True, metavar="SECONDS",
                     help="Seconds without a response or progress after which a call fails."),
        environment_options,
        answer_options,
        click.option("-v", "--verbose", is_flag=True, help="Show the server's stderr, its log, and progress lines."),
        click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True,
                     help="Text for people, or JSON for programs."),
    )  # fmt: skip
    found: Any = gathered
    for option in reversed(options):
        found = option(found)
    return found  # type: ignore[no-any-return]


@dataclass(slots=True)
class ConnectionOptions:
    """The options of the command line for the connection to a server.

    Attributes:
        target: the TARGET as typed.
        mode: ``"auto"``, ``"legacy"`` or a revision.
        headers: HTTP headers as ``"Name: value"`` texts.
        token: the bearer token; ``None`` without.
        oauth: whether to sign in through the browser.
        timeout_s: seconds without a response or progress after which a call fails.
        verbose: whether to show the server's stderr, its log messages, and progress.
        output: ``"text"`` or ``"json"``.
        answers: the answers to questions of the server.
        variables: variables for the server that is started.
        label: what stands before the lines of its stderr.
        last_words: the last lines of its stderr.
        bar: the progress that is shown.
    """

    target: str
    mode: str = "auto"
    headers: tuple[str, ...] = ()
    token: str | None = None
    oauth: bool = False
    timeout_s: float = 300.0
    verbose: bool = False
    output: str = "text"
    answers: TypedAnswers | None = None
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    label: str = "server"
    last_words: deque[str] = field(default_factory=lambda: deque[str](maxlen=20))
    bar: Progress = field(default_factory=Progress)

    @property
    def is_json(self) -> bool:
        """Whether a program reads the output."""
        return self.output == "json"

    def choice(self) -> ServerChoice:
        """Return the target with ``stderr`` forwarded."""
        choice = read_choice(self.target)
        target: Any = with_variables(choice.target, self.variables)
        if choice.is_http:
            return choice
        return replace(choice, target=replace(target, server=replace(target.server, stderr=self._hear)))

    def _hear(self, line: str) -> None:
        self.last_words.append(line)
        if self.verbose:
            self.bar.clear()
            say(f"[{self.label}] {line}")

    def show_last_words(self) -> None:
        """Print the last lines of the server's stderr, after a failure that its response does not explain."""
        if self.last_words and not self.verbose:
            say("the last lines of the server's stderr:")
            for line in self.last_words:
                say(f"  {line}")

    def client_options(self) -> dict[str, Any]:
        """Return the options of `Client`, without the target."""
        return {"mode": self.mode, "timeout_s": self.timeout_s, "auth": self._auth(), "headers": self.header_map()}

    def header_map(self) -> Mapping[str, str]:
        """Return the headers by name.

        Raises:
            click.UsageError: a header has no colon.
        """
        made: dict[str, str] = {}
        for text in self.headers:
            name, colon, value = text.partition(":")
            if not colon or not name.strip():
                raise click.UsageError(f"A header is written 'Name: value', not {text!r}")
            made[name.strip()] = value.strip()
        return made

    def token_storage(self) -> TokenStorage | None:
        """Return the storage of OAuth tokens, which later commands share if possible; ``None`` without OAuth."""
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
        """Return a connected client, which asks questions at the terminal if there is one."""
        from ferrule.client.client import Client

        try:
            client = Client(self.choice().target, **{**self._asking(), **self.client_options(), **options})
        except (TypeError, ValueError) as error:
            raise click.UsageError(str(error)) from error
        async with client:
            yield client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of a command and return its result; Ctrl-C cancels it and waits for its clean-up."""
        return run_async(work)

    def _asking(self) -> dict[str, Any]:
        """Return handlers of questions if a user can answer them: stdin and stderr are a terminal."""
        options: dict[str, Any] = {"roots": [os.getcwd()]}
        if self.verbose:
            options["log_handler"] = self._show_log
        asks: Any = None
        if is_terminal(sys.stdin) and is_terminal(sys.stderr):
            from ferrule.client.calls.forms import ask_at_terminal, sample_at_terminal

            asks = self._without_bar(ask_at_terminal)
            options["sampling_handler"] = self._without_bar(sample_at_terminal)
        if self.answers is not None and self.answers.are_given:
            asks = self.answers.handler(asks)
        if asks is not None:
            options["elicitation_handler"] = asks
            options["elicitation_modes"] = ("form", "url")
        return options

    def asking_later(self) -> dict[str, Any]:
        """Return handlers of questions for tasks, declared also without a terminal, since another command may answer.

        Without a terminal, a question that must be answered at once ends the call with `InputNotProvided`.
        """
        if is_terminal(sys.stdin) and is_terminal(sys.stderr):
            return {}
        if self.answers is not None and self.answers.are_given:
            return {"sampling_handler": _refuse_question}
        return {
            "elicitation_handler": _refuse_question,
            "elicitation_modes": ("form", "url"),
            "sampling_handler": _refuse_question,
        }

    def _without_bar(self, handler: Callable[..., Coroutine[Any, Any, T]]) -> Callable[[Any, Any], Any]:
        """Return a handler of questions that removes the progress bar first."""

        async def ask(params: Any, question: Any) -> T:
            self.bar.clear()
            return await handler(params, question)

        return ask

    def progress(self) -> Progress:
        """Return the progress bar for one call."""
        self.bar = Progress(verbose=self.verbose)
        return self.bar

    def _show_log(self, message: Any) -> None:
        from ferrule.wire.codec import encode_str

        text = message.data if isinstance(message.data, str) else encode_str(message.data)
        name = f" {message.logger}" if message.logger else ""
        self.bar.clear()
        say(f"[{message.level}{name}] {text}")


async def _refuse_question(params: Any, question: Any) -> Any:
    from ferrule.protocol.errors import MCPError

    raise MCPError("there is no terminal to ask at")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop and return its result; Ctrl-C cancels it and waits for its clean-up."""
    import asyncio  # not above: completion imports this module

    return asyncio.run(work)
