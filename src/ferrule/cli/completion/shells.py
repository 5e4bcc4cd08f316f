"""The completion scripts of the shells, and what they read.

click completes; these classes replace its scripts, because a completed word may be a name that a server chose: in bash
it is quoted for the command line, and in each shell a name with a control character is left out. They also complete
words with the characters ``:`` and ``=``, at which bash divides words.

A script passes the line before the cursor in ``COMP_WORDS`` and gets lines of type, value and help, with a tab between
them. ``plain`` is a whole word, ``open`` one that goes on (``name=``), ``file`` and ``dir`` ask the shell for paths.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from click.shell_completion import CompletionItem, ShellComplete, add_completion_class

from ferrule.cli.completion.words import TypedLine, quote_for_bash, read_line
from ferrule.client.calls.terminal_text import terminal_safe

__all__ = ["SHELLS", "register"]


_BASH = """\
%(complete_func)s() {
    local kind value help
    COMPREPLY=()
    while IFS=$'\\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            open) COMPREPLY+=("$value"); compopt -o nospace ;;
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
        esac
    done < <(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local line kind value
    local -a whole part fields
    (( $+commands[%(prog_name)s] )) || return 1
    line="${(j: :)words[1,CURRENT-1]} $QIPREFIX$PREFIX"
    for line in "${(@f)$(env COMP_WORDS="$line" %(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}"; do
        fields=("${(@ps:\\t:)line}")
        value=${${fields[2]//\\\\/\\\\\\\\}//:/\\\\:}${fields[3]:+:$fields[3]}
        case $fields[1] in
            plain) whole+=("$value") ;;
            open) part+=("$value") ;;
            dir) _path_files -/ ;;
            file) _path_files ;;
        esac
    done
    (( $#whole )) && _describe -V %(prog_name)s whole
    (( $#part )) && _describe -V %(prog_name)s part -S ''
    return 0
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""

_FISH = """\
function %(complete_func)s
    for line in (env %(complete_var)s=fish_complete COMP_WORDS=(commandline -cp | string collect) %(prog_name)s 2>/dev/null)
        set -l fields (string split \\t -- $line)
        switch "$fields[1]"
            case dir
                __fish_complete_directories "$fields[2]"
            case file
                __fish_complete_path "$fields[2]"
            case plain open
                printf '%%s\\t%%s\\n' "$fields[2]" "$fields[3]"
        end
    end
end

complete --no-files --keep-order --command %(prog_name)s --arguments "(%(complete_func)s)"
"""  # noqa: E501 - the line is the shell's


class _LineComplete(ShellComplete):
    """Completion of the line in ``COMP_WORDS``, whatever the shell."""

    line: TypedLine

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words after the program's name, and the one under the cursor."""
        self.line = read_line(os.environ.get("COMP_WORDS", ""), os.environ.get("COMP_BREAKS", ""))
        words = self.line.words[1:]
        self.ctx_args["obj"] = words  # `ferrule.cli.completion.names` looks for TARGET in them
        return words, self.line.current

    def complete(self) -> str:
        """Return the lines for the script; a name that a terminal would obey is left out."""
        args, incomplete = self.get_completion_args()
        lines: list[str] = []
        for item in self.get_completions(args, incomplete):
            if terminal_safe(item.value) == item.value and "\t" not in item.value and "\n" not in item.value:
                line = self.format_completion(item)
                if line:
                    lines.append(line)
        return "\n".join(lines)

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line of one item; empty if it cannot be typed at the cursor."""
        help_text = terminal_safe(" ".join((item.help or "").split()))
        return f"{item.type}\t{item.value}\t{help_text}"


class BashLine(_LineComplete):
    """bash 4.4 and later."""

    name: ClassVar[str] = "bash"
    source_template: ClassVar[str] = _BASH

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the line of one item, quoted, without what bash leaves as it is."""
        if item.type not in ("plain", "open"):
            return f"{item.type}\t\t"
        value = quote_for_bash(item.value[self.line.kept :], self.line.quote)
        return "" if value is None else f"{item.type}\t{value}\t"


class ZshLine(_LineComplete):
    """zsh, which quotes what it inserts."""

    name: ClassVar[str] = "zsh"
    source_template: ClassVar[str] = _ZSH


class FishLine(_LineComplete):
    """fish, which quotes what it inserts."""

    name: ClassVar[str] = "fish"
    source_template: ClassVar[str] = _FISH


SHELLS: dict[str, type[ShellComplete]] = {"bash": BashLine, "zsh": ZshLine, "fish": FishLine}
"""Shell → its completion."""


def register() -> None:
    """Let click use these in place of its own."""
    for shell in SHELLS.values():
        add_completion_class(shell)
