"""``manage.py mcp``: the server of the project on the command line, as one of its users."""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
from argparse import ArgumentParser
from contextlib import AbstractContextManager
from typing import Any

from django.contrib.auth import get_user_model
from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError
from django.utils.module_loading import import_string

from ferrule.cli.exits import EXIT_USAGE, Quit
from ferrule.django.access.tokens import MadeToken, NoTokens, authentication_classes, make_token
from ferrule.django.command_line import COMMANDS, DjangoProject, program_of, run_command
from ferrule.django.server import DjangoServer, default_server

__all__ = ["Command"]

_EPILOG = "commands:\n" + "\n".join(f"  {name:9} {text}" for name, text in COMMANDS.items())


class Command(BaseCommand):
    """``manage.py mcp [--user NAME] COMMAND …``."""

    help = "The MCP server of this project: list and call its tools, inspect it, serve it over stdio"
    requires_system_checks = ()  # a project with a mistake in one module is inspected with the others

    _is_program = False

    def run_from_argv(self, argv: list[str]) -> None:
        """Run the command of ``manage.py``, whose failure ends the process with its exit status."""
        self._is_program = True
        super().run_from_argv(argv)

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        """Return the parser; its help lists the commands."""
        parser = super().create_parser(prog_name, subcommand, **kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.epilog = f"{_EPILOG}\n\n{parser.prog} COMMAND --help describes the options of a command."
        self._prog = parser.prog.partition(" ")[0]
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the arguments of the command."""
        parser.add_argument("--user", metavar="NAME", help="the user that the server sees; an anonymous one without it")
        parser.add_argument("--server", metavar="PATH", help="dotted path of another server than that of MCP")
        parser.add_argument("command", metavar="COMMAND", choices=COMMANDS, help=", ".join(COMMANDS))
        parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="what the command takes")

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the command.

        Raises:
            CommandError: it failed; ``returncode`` is its exit status.
        """
        project = DjangoProject(
            server=_server,
            as_user=_as_user,
            make_token=_token,
            program=program_of(sys.argv[0]),
            user=options["user"],
            server_path=options["server"],
            settings=options.get("settings"),
            pythonpath=options.get("pythonpath"),
            verbosity=options["verbosity"],
        )
        arguments = [str(each) for each in options["arguments"]]
        if self._is_program:
            status = run_command(options["command"], arguments, project, self._prog)
            if status:
                sys.exit(status)
            return
        errors = io.StringIO()
        out = options.get("stdout")
        with contextlib.redirect_stderr(errors), _redirected(out):
            status = run_command(options["command"], arguments, project, "manage.py")
        if status:
            text = errors.getvalue().strip().rpartition("\n")[2].removeprefix("ferrule: ").removeprefix("Error: ")
            raise CommandError(text or f"mcp {options['command']} ended with status {status}", returncode=status)
        if errors.getvalue():
            self.stderr.write(errors.getvalue(), style_func=str)


def _redirected(stream: Any) -> AbstractContextManager[Any]:
    return contextlib.nullcontext() if stream is None else contextlib.redirect_stdout(stream)


def _server(path: str | None) -> DjangoServer:
    try:
        server = default_server() if path is None else import_string(path)
    except (ImportError, ImproperlyConfigured) as error:
        raise Quit(EXIT_USAGE, str(error)) from error
    if not isinstance(server, DjangoServer):
        raise Quit(EXIT_USAGE, f"{path} is no DjangoServer, but of type {type(server).__name__}")
    if server.problem is not None:
        raise Quit(EXIT_USAGE, str(server.problem))
    return server


def _as_user(server: DjangoServer, name: str | None) -> AbstractContextManager[None]:
    return server.as_user(None if name is None else _user(name))


def _token(server: DjangoServer, name: str) -> MadeToken:
    user = _user(name)
    try:
        return make_token(user, authentication_classes(server))
    except NoTokens as error:
        raise Quit(EXIT_USAGE, str(error)) from error
    except DatabaseError as error:
        raise _not_migrated("tokens", error) from error


def _user(name: str) -> Any:
    try:
        users: Any = get_user_model()
    except ImproperlyConfigured as error:
        raise Quit(EXIT_USAGE, str(error)) from error
    try:
        user = users._default_manager.get_by_natural_key(name)
    except DatabaseError as error:
        raise _not_migrated("users", error) from error
    except users.DoesNotExist:
        raise Quit(EXIT_USAGE, f"There is no user {name!r}") from None
    if not getattr(user, "is_active", True):  # a model that is not made of Django's need not have it
        raise Quit(EXIT_USAGE, f"The user {name!r} is not active, and could not sign in")
    return user


def _not_migrated(what: str, error: DatabaseError) -> Quit:
    return Quit(EXIT_USAGE, f"The table of {what} cannot be read ({error}). Has `manage.py migrate` been run?")
