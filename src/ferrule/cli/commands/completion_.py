"""``ferrule completion``: the script that makes a shell complete our commands, options and targets."""

from __future__ import annotations

import os

import click

from ferrule.cli.completion.shells import SHELLS

__all__ = ["command"]

_HOW = {
    "bash": 'eval "$(ferrule completion bash)"   in ~/.bashrc',
    "zsh": 'eval "$(ferrule completion zsh)"    in ~/.zshrc',
    "fish": "ferrule completion fish | source    in ~/.config/fish/config.fish",
}


@click.command("completion", epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(list(_HOW)), required=False)
def command(shell: str | None) -> None:
    """Print the completion script of SHELL (the one in use if none is named).

    Commands, options, files and servers of hosts are completed, and the names of tools, arguments, resources and
    prompts of a server that was listed or called before; Tab starts no server.
    """
    name = shell or os.path.basename(os.environ.get("SHELL", ""))
    if name not in _HOW:
        raise click.UsageError(f"Name a shell: {', '.join(_HOW)}")
    root = click.get_current_context().find_root()
    click.echo(SHELLS[name](root.command, {}, "ferrule", "_FERRULE_COMPLETE").source())
