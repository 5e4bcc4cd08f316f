"""Write what the pages have from the code; ``--check`` only says whether they are current.

That is the whole page about protocol support, and the code in all pages, which is copied from files that the tests run
(see ``docs_snippets``).
"""

from __future__ import annotations

import sys
from pathlib import Path

import docs_snippets

from ferrule.wire.revisions import REVISIONS, Revision
from ferrule.wire.types import ElicitRequestParams, Tool

PAGE = Path(__file__).resolve().parent.parent / "docs" / "topics" / "protocol-support.md"
HEAD = """# Protocol support per revision

Find out which features, requests and notifications each revision of the protocol has.
Made from `ferrule.wire.revisions` by `scripts/docs_pages.py`: what this table says is what the code does.
A method that a revision lacks does not exist there; a field that it lacks is left out when Ferrule writes for it.
"""


EXTENSIONS = """\
## Extensions

| | server | client | legacy connections |
|---|---|---|---|
| `io.modelcontextprotocol/tasks` | [`Tasks`](../how-to/tasks.md) | `start_tool`, `task` | the tasks of 2025-11-25 |
| `io.modelcontextprotocol/skills` | [`add_skills`](../how-to/skills.md) | `list_skills` | in the handshake |
| `io.modelcontextprotocol/ui` | [`ui`](../how-to/apps.md) | pages are resources | in the handshake |
| `…/oauth-client-credentials`, `…/enterprise-managed-authorization` | – | [sign in](../how-to/sign-in.md) | the same |
| one of your own | [`Extension`](../how-to/write-an-extension.md) | `ClientExtension` | where it says so |

## The official conformance suite

`scripts/conformance server` and `scripts/conformance client` run what each revision requires, and every scenario of
`--suite all`, with those of extensions; `.ci/run` runs both.
Every check counts, warnings too, and a scenario without a success has failed.
One scenario is not counted, `tasks-status-notifications`, which the suite itself always skips.
"""


def _word(value: bool) -> str:
    return "yes" if value else "–"


def _elicitation(revision: Revision) -> str:
    """The ways to ask a user: none before there is the request, by form only where it has no field for a page."""
    if "elicitation/create" not in revision.server_requests and not revision.input_required_methods:
        return "–"
    return "form" if "url" in revision.lacks(ElicitRequestParams) else "form, url"


def facts(revision: Revision) -> dict[str, str]:
    """The rows of the table for one revision."""
    return {
        "era": "modern" if revision.is_modern else "legacy",
        "HTTP binding": revision.http,
        "structured output": revision.structured_output,
        "content kinds": ", ".join(sorted(revision.content_kinds)),
        "elicitation": _elicitation(revision),
        "sampling with tools": _word(revision.sampling_tools),
        "questions as rounds": ", ".join(sorted(revision.input_required_methods)) or "–",
        "tasks in the core": ", ".join(sorted(revision.task_methods)) or "–",
        "cache hints": _word(revision.has_cache_hints),
        "batches": _word(revision.has_batches),
        "titles": _word("title" not in revision.lacks(Tool)),
        "icons": _word("icons" not in revision.lacks(Tool)),
        "progress messages": _word(revision.has_progress_message),
        "mirrored headers": _word(revision.mirrors_headers),
        "code of a missing resource": str(revision.missing_resource_code),
    }


def table(rows: dict[str, list[str]]) -> str:
    """Markdown: one column per revision."""
    lines = ["| | " + " | ".join(REVISIONS) + " |", "|---|" + "---|" * len(REVISIONS)]
    lines += [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The whole page."""
    revisions = list(REVISIONS.values())
    by_revision = [facts(revision) for revision in revisions]
    parts = [HEAD, table({name: [found[name] for found in by_revision] for name in by_revision[0]})]
    for title, attribute in (
        ("Requests from the client", "requests"),
        ("Requests from the server", "server_requests"),
        ("Notifications from the client", "notifications"),
        ("Notifications from the server", "server_notifications"),
    ):
        names = sorted({name for revision in revisions for name in getattr(revision, attribute)})
        rows = {f"`{name}`": [_word(name in getattr(revision, attribute)) for revision in revisions] for name in names}
        parts += [f"## {title}\n", table(rows)]
    return "\n".join([*parts, EXTENSIONS])


def main(*, check: bool) -> None:
    """Write the pages, or say what is not current.

    Raises:
        SystemExit: with a line for each page that is not current, or that names code which does not exist.
    """
    made = page()
    if check:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == made
        wrong = [] if current else ["docs/topics/protocol-support.md is not current: scripts/docs --write"]
    else:
        PAGE.write_text(made, encoding="utf-8")
        wrong = []
    wrong += docs_snippets.differing(write=not check)
    if wrong:
        sys.exit("\n".join(wrong))


if __name__ == "__main__":
    main(check="--check" in sys.argv)
