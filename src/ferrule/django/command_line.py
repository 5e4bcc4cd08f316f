"""The commands behind ``manage.py mcp``: those of ``ferrule`` without a TARGET, which is the project's server."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ferrule.cli.answers import TypedAnswers
from ferrule.cli.connect import ConnectionOptions
from ferrule.cli.exits import EXIT_OK, EXIT_USAGE, Quit, run_guarded
from ferrule.cli.output import print_text, say
from ferrule.cli.program import load_command
from ferrule.cli.targets import ServerChoice, read_choice
from ferrule.client.config import read_target

if TYPE_CHECKING:
    from ferrule.client.client import Client

__all__ = ["COMMANDS", "DjangoProject", "program_of", "run_command"]

T = TypeVar("T")

COMMANDS: Final[Mapping[str, str]] = {
    "list": "List tools, resources, templates and prompts.",
    "call": "Call a tool.",
    "read": "Read a resource.",
    "prompt": "Fill in a prompt.",
    "inspect": "The full picture: capabilities, schemas, names, token cost.",
    "dev": "Open the inspector page: look at the server and call it in the browser.",
    "doctor": "Start the server as a host does; find out what works, what fails and why.",
    "trace": "Serve over stdio and record every message; replay a recording.",
    "serve": "Serve over stdio.",
    "worker": "Run the tasks of the server, without any transport.",
    "token": "Print a token of a user, for the header of requests.",
}
"""Name and help of each command."""

_LEFT_OUT: Final[Mapping[str, Any]] = {"include": (), "exclude": (), "as_task": False}
"""Parameters of the commands of ``ferrule`` without a meaning here: for descriptions of APIs, and for a server that
outlives the command."""
_PLACES: Final = frozenset({"target", "server", "headers", "token", "oauth", "config", "env", "env_files", *_LEFT_OUT})
"""The same, and those that choose a server or reach one over HTTP."""


@dataclass(frozen=True, slots=True)
class DjangoProject:
    """What is given before and behind COMMAND.

    Attributes:
        server: returns the server; its argument is the option ``--server``.
        as_user: returns a context in which the server sees a user; its arguments are the server and ``--user``.
        make_token: returns a token; its arguments are the server and the name of the user.
        program: the command line of ``manage.py``.
        user, server_path, settings, pythonpath, verbosity: values of options before COMMAND.
    """

    server: Callable[[str | None], Any]
    as_user: Callable[[Any, str | None], Any]
    make_token: Callable[[Any, str], Any]
    program: Sequence[str]
    user: str | None = None
    server_path: str | None = None
    settings: str | None = None
    pythonpath: str | None = None
    verbosity: int = 1

    def serving(self) -> list[str]:
        """Return the command line that serves the project over stdio."""
        settings = self.settings or os.environ.get("DJANGO_SETTINGS_MODULE")
        options = {
            "--user": self.user,
            "--server": self.server_path,
            "--settings": settings,
            "--pythonpath": self.pythonpath,
        }
        given = [part for name, value in options.items() if value is not None for part in (name, value)]
        return [*self.program, "mcp", "serve", *given]


def run_command(name: str, arguments: Sequence[str], project: DjangoProject, program: str) -> int:
    """Run one of `COMMANDS`, and return its exit status.

    Args:
        name: the command.
        arguments: what stands behind it.
        project: the server, and the options before it.
        program: for help texts: ``manage.py``.
    """
    made = _OWN[name](project) if name in _OWN else _in_process(name, project)
    made.epilog = _epilog(name, program)
    made.context_settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
    made.params += _common_options(project)
    return run_guarded(made, arguments, f"{program} mcp {name}")


class _InProcess(ConnectionOptions):
    """Options of a connection to the project's server in this process."""

    def __init__(self, server: Any, run: Callable[[Any], Any], **options: Any) -> None:
        super().__init__("", **options)
        self._server = server
        self._run = run

    def choice(self) -> ServerChoice:
        """Return the server as a target."""
        target: Any = read_target(self._server)  # of a kind that commands on a command line do not name
        return ServerChoice(self._server.name, target, self._server.name)

    @asynccontextmanager
    async def client(self, **options: Any) -> AsyncGenerator[Client]:
        """Return a connected client; what the project prints meanwhile goes to stderr, apart from the result."""
        with redirect_stdout(sys.stderr):
            async with super().client(**options) as client:
                yield client

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; functions of the project run in this thread."""
        made: T = self._run(work)
        return made


def _answers(values: dict[str, Any]) -> TypedAnswers | None:
    """Take the options for the answers to questions out of those of a command; ``None`` if it has none."""
    if "answers" not in values:
        return None
    return TypedAnswers(values.pop("answers"), yes=values.pop("yes"), declines=values.pop("declines"))


def _in_process(name: str, project: DjangoProject) -> click.Command:
    original = load_command(name)
    own = {"mode", "timeout_s", "verbose", "output"}
    kept = [each for each in original.params if each.name not in _PLACES and each.name != "verbose"]
    function: Any = original.callback
    takes = {each.name for each in original.params}

    def run(**values: Any) -> Any:
        from ferrule.django.running import run_and_wait

        given = _with_common(project, values)
        options = {key: values.pop(key) for key in own if key in values}
        options["answers"] = _answers(values)
        server = given.server(given.server_path)
        connection = _InProcess(server, run_and_wait, verbose=given.verbosity > 1, **options)
        left_out = {key: value for key, value in _LEFT_OUT.items() if key in takes}
        with given.as_user(server, given.user):
            if given.user is None and name in ("list", "inspect") and not connection.is_json:
                say("as a sender without a user; --user NAME shows what a user may see and call")
            return function.__wrapped__(connection=connection, **left_out, **values)

    return click.Command(name, callback=run, params=kept, help=_HELP[name])


def _common_options(project: DjangoProject) -> list[click.Parameter]:
    """The options that may stand before COMMAND, too."""
    return [
        click.Option(["--user"], metavar="NAME", help="The user that the server sees; an anonymous one without it."),
        click.Option(["--server", "server_path"], metavar="PATH", help="Dotted path of another server of the project."),
        click.Option(["--settings"], metavar="MODULE", help="As for every command of manage.py."),
        click.Option(["--pythonpath"], metavar="FOLDER", help="As for every command of manage.py."),
        click.Option(
            ["-v", "--verbosity"],
            type=click.IntRange(0, 3),
            default=project.verbosity,
            help="2 shows the server's log and progress lines.",
        ),
        click.Option(["--traceback"], is_flag=True, hidden=True),
        click.Option(["--no-color"], is_flag=True, hidden=True),
        click.Option(["--force-color"], is_flag=True, hidden=True),
        click.Option(["--skip-checks"], is_flag=True, hidden=True),
    ]


def _with_common(project: DjangoProject, values: dict[str, Any]) -> DjangoProject:
    """Return the project with the options behind COMMAND, which are taken out of the values."""
    for name in ("no_color", "force_color", "skip_checks"):  # have no effect on these commands
        values.pop(name, None)
    if values.pop("traceback", False):
        os.environ["FERRULE_DEBUG"] = "1"
    given = {name: values.pop(name) for name in ("user", "server_path", "settings", "pythonpath", "verbosity")}
    return replace(project, **{name: value for name, value in given.items() if value is not None})


def _serve(project: DjangoProject) -> click.Command:
    def run(**values: Any) -> int:
        given = _with_common(project, values)
        server = given.server(given.server_path)
        with given.as_user(server, given.user):
            server.run()
        return EXIT_OK

    return click.Command("serve", callback=run, help=_HELP["serve"])


def _worker(project: DjangoProject) -> click.Command:
    def run(**values: Any) -> int:
        from ferrule.django.store.worker import run_worker

        concurrency: int = values.pop("concurrency")
        given = _with_common(project, values)
        server = given.server(given.server_path)
        run_worker(server, concurrency=concurrency, on_started=lambda: say(f"running the tasks of {server.name}"))
        return EXIT_OK

    concurrency = click.Option(
        ["--concurrency"], type=click.IntRange(1), default=16, show_default=True, help="Tasks at a time."
    )
    return click.Command("worker", callback=run, params=[concurrency], help=_HELP["worker"])


def _token(project: DjangoProject) -> click.Command:
    def run(name: str, **values: Any) -> int:
        given = _with_common(project, values)
        made = given.make_token(given.server(given.server_path), name)
        print_text(made.token)
        say(f"for requests with the header {made.header}: {made.keyword} …; {made.note}")
        return EXIT_OK

    return click.Command("token", callback=run, help=_HELP["token"], params=[click.Argument(["name"], metavar="USER")])


def _dev(project: DjangoProject) -> click.Command:
    from ferrule.cli.commands.dev_ import command, inspect_in_browser

    kept = [each for each in command.params if each.name not in _PLACES]

    def run(*, port: int, no_open: bool, no_reload: bool, mode: str, roots: Sequence[Path], **values: Any) -> int:
        given = _with_common(project, values)
        server = given.server(given.server_path)
        with given.as_user(server, given.user):  # refuses an unknown user before the page is served
            pass
        choice = _process(given)
        program = Path(given.program[-1])
        watched = None if no_reload else program if program.is_file() else Path.cwd() / "manage.py"
        inspect_in_browser(
            choice,
            ConnectionOptions(choice.text, mode=mode),
            watched=watched,
            port=port,
            opens=not no_open,
            roots=roots,
        )
        return EXIT_OK

    return click.Command("dev", callback=run, params=kept, help=_HELP["dev"])


def _doctor(project: DjangoProject) -> click.Command:
    from ferrule.cli.commands.doctor_ import command

    left_out = _PLACES | {"verbose", "origin", "wait_s"}
    kept = [each for each in command.params if each.name not in left_out]
    function: Any = command.callback

    def run(**values: Any) -> Any:
        given = _with_common(project, values)
        own = {name: values.pop(name) for name in ("mode", "timeout_s", "output")}
        own["answers"] = _answers(values)
        connection = ConnectionOptions(shlex.join(given.serving()), verbose=given.verbosity > 1, **own)
        return function.__wrapped__(connection=connection, origin=None, wait_s=4.0, **values)

    return click.Command("doctor", callback=run, params=kept, help=_HELP["doctor"])


def _trace(project: DjangoProject) -> click.Command:
    from ferrule.cli.commands import trace_

    kept = [each for each in trace_.command.params if each.name in ("to", "show_from", "conversation", "replay_from")]

    def run(
        *, to: Path | None, show_from: Path | None, conversation: Path | None, replay_from: Path | None, **values: Any
    ) -> int:
        given = _with_common(project, values)
        try:
            if show_from is not None:
                trace_.show(show_from)
            elif conversation is not None:
                trace_.show_conversation(conversation)
            elif replay_from is not None:
                from ferrule.django.running import run_and_wait

                server = given.server(given.server_path)
                with given.as_user(server, given.user):
                    return trace_.replay(server.lowlevel, replay_from, run_and_wait)
            elif to is not None:
                return trace_.record(_process(given), to)
            else:
                raise click.UsageError("--to FILE says where the recording goes")
        except ValueError as error:
            raise Quit(EXIT_USAGE, str(error)) from error
        return EXIT_OK

    return click.Command("trace", callback=run, params=kept, help=_HELP["trace"])


def _process(project: DjangoProject) -> ServerChoice:
    return read_choice(shlex.join(project.serving()))


_OWN: Final[Mapping[str, Callable[[DjangoProject], click.Command]]] = {
    "serve": _serve,
    "worker": _worker,
    "token": _token,
    "dev": _dev,
    "doctor": _doctor,
    "trace": _trace,
}

_HELP: Final = {
    "list": "List the tools, resources, templates and prompts of the project's server (all, or the KINDS named), as "
    "the user sees them.",
    "call": "Call TOOL as the user.\n\nAn argument is NAME=VALUE, converted to the type in the tool's schema; "
    "NAME:=JSON is read as JSON, NAME=@FILE from a file. For a list, repeat the name. --json has all arguments in one "
    "object, to which pairs add.",
    "read": "Read the resource URI as the user.",
    "prompt": "Fill in the prompt NAME as the user. Arguments of prompts are text.",
    "inspect": "Show all that the project's server announces to the user: identity, capabilities in each revision, "
    "lists, names that hosts refuse, schemas that model APIs refuse, and what the tool list (and with --call a result) "
    "costs in tokens.",
    "dev": "Inspect the project's server in the browser, and call it as the user.\n\nThis process serves the page on "
    "127.0.0.1. The printed address has a token, which a browser needs. The server is a process of its own, which is "
    "restarted when a source file beside manage.py or below it changes. Ctrl-C ends everything.",
    "doctor": "Start the project's server over stdio as a host does, with few variables of this shell, and check what "
    "works in each revision. The exit status is 1 if a check fails.",
    "trace": "Serve the project over stdio for a host, and record every message with its time, secrets included; or "
    "show or replay a recording.",
    "serve": "Serve the project over stdin and stdout, as a host starts it; all requests are those of the user.\n\n"
    "What the project prints goes to stderr.",
    "worker": "Run the tasks of the project's server until a signal comes, for processes that serve requests with "
    "TASK_WORKER in the setting MCP. Each task runs as the user who started it.",
    "token": "Print a token of USER for the header Authorization. It is made by the package of the project's "
    "authentication classes: rest_framework.authtoken, knox or rest_framework_simplejwt.",
}

_EXAMPLES: Final = {
    "list": ("list", "list tools --user alice", "list -o json"),
    "call": ("call count_notes", "call note_create title=Shopping --user alice", "call search --json '{\"limit\": 3}'"),
    "read": ("read notes://about",),
    "prompt": ("prompt summarize title=Shopping",),
    "inspect": ("inspect --user alice", "inspect --strict"),
    "dev": ("dev --user alice", "dev --port 8123 --no-open"),
    "doctor": ("doctor --user alice",),
    "trace": ("trace --to session.jsonl --user alice", "trace --show session.jsonl", "trace --replay session.jsonl"),
    "serve": ("serve --user alice",),
    "worker": ("worker",),
    "token": ("token alice",),
}


def _epilog(name: str, program: str) -> str:
    return "\n".join(["\b", "Examples:", *(f"  {program} mcp {line}" for line in _EXAMPLES[name])])


def program_of(argv0: str) -> list[str]:
    """Return the command line of ``manage.py``, or of its like, for another process.

    Args:
        argv0: what this process was started as.
    """
    path = Path(argv0)
    if path.is_file() and path.suffix == ".py" and path.name != "__main__.py":
        return [sys.executable, str(path.resolve())]
    return [sys.executable, "-m", "django"]  # django-admin, python -m django, or a program that calls the command
