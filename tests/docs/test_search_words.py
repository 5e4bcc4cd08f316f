"""Words that people search for stand in the title or a heading of the page that answers them.

A search engine, the search of the site and a reader of the navigation look at titles and headings first. When a page is
renamed or divided, move its words.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"

WORDS = {
    # writing a server
    "tools": "how-to/tools.md",
    "resources": "how-to/resources.md",
    "prompts": "how-to/prompts.md",
    "structured results": "how-to/structured-results.md",
    "pydantic": "topics/types.md",
    "json schema": "topics/types.md",
    "images": "how-to/images.md",
    "matplotlib": "how-to/images.md",
    "file upload|upload a file": "how-to/images.md",
    "pagination": "how-to/pagination.md",
    "progress": "how-to/progress.md",
    "cancellation": "how-to/progress.md",
    "elicitation": "how-to/ask-the-user.md",
    "confirmation": "how-to/ask-the-user.md",
    "long-running": "how-to/tasks.md",
    "background jobs": "how-to/tasks.md",
    "dependency injection": "how-to/dependencies.md",
    "lifespan": "how-to/dependencies.md",
    "database": "how-to/dependencies.md",
    "sqlite": "tutorial/notes.md",
    "environment variables": "how-to/settings.md",
    "middleware": "how-to/middleware.md",
    "error handling": "topics/errors.md",
    "logging": "how-to/logging.md",
    "timeout": "how-to/tools.md",
    "concurrency": "how-to/tools.md",
    "duplicate": "how-to/duplicates.md",
    "versioning": "how-to/versioning.md",
    "jupyter": "how-to/notebooks.md",
    "event loop": "how-to/notebooks.md",
    "pytest": "how-to/test-a-server.md",
    "fixtures": "how-to/test-a-server.md",
    "debug": "how-to/inspector.md",
    "inspector": "how-to/inspector.md",
    "lint": "how-to/check-a-server.md",
    "breaking changes": "how-to/check-a-server.md",
    "skills": "how-to/skills.md",
    "openapi|an api that you already have": "how-to/expose-an-api.md",
    "fastapi": "how-to/mount-in-a-web-app.md",
    "django": "tutorial/django.md",
    "flask": "how-to/expose-an-api.md",
    # running a server
    "streamable http": "how-to/serve-over-http.md",
    "cors": "how-to/serve-over-http.md",
    "streaming": "how-to/serve-over-http.md",
    "sse": "how-to/serve-over-http.md",
    "sessions": "how-to/serve-over-http.md",
    "authentication": "how-to/protect-a-server.md",
    "oauth": "how-to/protect-a-server.md",
    "api keys": "how-to/api-keys.md",
    "bearer tokens": "how-to/api-keys.md",
    "per-user": "how-to/per-user-data.md",
    "rate limit": "how-to/middleware.md",
    "caching": "how-to/client-cache.md",
    "deploy": "how-to/docker-and-systemd.md",
    "docker": "how-to/docker-and-systemd.md",
    "docker compose": "how-to/docker-and-systemd.md",
    "systemd": "how-to/docker-and-systemd.md",
    "kubernetes": "how-to/deploy-many-machines.md",
    "serverless": "how-to/deploy-many-machines.md",
    "workers": "how-to/many-workers.md",
    "redis": "how-to/stores.md",
    "reverse proxy": "how-to/reverse-proxy.md",
    "health": "how-to/monitor.md",
    "metrics": "how-to/monitor.md",
    "graceful shutdown": "how-to/monitor.md",
    "security": "topics/security.md",
    "performance": "topics/performance.md",
    # using servers
    "client": "how-to/client.md",
    "retries": "how-to/client.md",
    "reconnecting": "how-to/client.md",
    "sampling": "how-to/answer-servers.md",
    "roots": "how-to/answer-servers.md",
    "multiple mcp servers": "how-to/groups.md",
    "gateway": "how-to/gateway.md",
    "claude api": "how-to/use-with-model-apis.md",
    "openai": "how-to/use-with-model-apis.md",
    "gemini": "how-to/use-with-model-apis.md",
    "langchain": "how-to/use-with-model-apis.md",
    "test an agent": "how-to/use-with-model-apis.md",
    "claude desktop": "how-to/install-in-hosts.md",
    "registry": "how-to/publish-to-the-registry.md",
    "command line": "how-to/command-line.md",
}
"""A word, or several that are as good, to the page with it in a heading."""


def headings(page: str) -> list[str]:
    """The title and the headings of a page, in lower case; lines of code are none."""
    text = re.sub(r"^( *)(`{3,}).*?^\1\2$", "", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    return [line.lstrip("# ").lower() for line in text.splitlines() if line.startswith("#")]


@pytest.mark.parametrize(("words", "page"), WORDS.items(), ids=WORDS)
def test_a_word_leads_to_its_page(words: str, page: str) -> None:
    """At the beginning of a word, so that plural and longer forms count."""
    found = headings(page)
    assert any(re.search(rf"\b{re.escape(word)}", line) for word in words.split("|") for line in found), found


@pytest.mark.parametrize("page", sorted(set(WORDS.values())))
def test_the_page_is_in_the_navigation(page: str) -> None:
    """A page that only a search finds is no page of a book."""
    assert f"- {page}\n" in (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")


def test_code_is_no_heading() -> None:
    """A comment in a shell or in Python looks like one."""
    text = (DOCS / "how-to" / "docker-and-systemd.md").read_text(encoding="utf-8")
    assert "\n# The user of the server may write" in text
    assert not any(line.startswith("the user of the server") for line in headings("how-to/docker-and-systemd.md"))
