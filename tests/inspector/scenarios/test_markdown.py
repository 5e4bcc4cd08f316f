"""Markdown of a server: what it becomes, that nothing of it runs or loads, and that its cost is bounded."""

from __future__ import annotations

from typing import Any

import pytest

from tests.inspector.conftest import Watched

RENDER = """async (text) => {
  const { markdownView } = await import("/markdown.js");
  const made = markdownView(text);
  const inside = (node) => node.nodeType === 3 ? node.data
    : [node.tagName.toLowerCase(), ...[...node.childNodes].map(inside)];
  return [...made.childNodes].map(inside);
}"""


def rendered(opened: Watched, text: str) -> Any:
    """The elements as lists: the name of the element, and what is inside."""
    return opened.page.evaluate(RENDER, text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# A\n## B #", [["h3", "A"], ["h4", "B"]]),
        ("a\nb\n\nc", [["p", "a\nb"], ["p", "c"]]),
        (
            "a **b** *c* _d_ __e__ ~~f~~",
            [["p", "a ", ["strong", "b"], " ", ["em", "c"], " ", ["em", "d"], " ", ["strong", "e"], " ", ["del", "f"]]],
        ),
        ("**a *b* c**", [["p", ["strong", "a ", ["em", "b"], " c"]]]),
        ("snake_case_name 2*3*4 ** x", [["p", "snake_case_name 2", ["em", "3"], "4 ** x"]]),
        ("`a*b*` ``c`d``", [["p", ["code", "a*b*"], " ", ["code", "c`d"]]]),
        ("- a\n- b\n  - c", [["ul", ["li", "a"], ["li", "b", ["ul", ["li", "c"]]]]]),
        ("1. a\n2. b", [["ol", ["li", "a"], ["li", "b"]]]),
        ("- [x] a\n- [ ] b", [["ul", ["li", ["span", "☑ "], "a"], ["li", ["span", "☐ "], "b"]]]),
        ("> a\n> b\n\nc", [["blockquote", ["p", "a\nb"]], ["p", "c"]]),
        ("```py\na = `1`\n<b>\n```\nx", [["pre", "a = `1`\n<b>"], ["p", "x"]]),
        ("~~~\nopen", [["pre", "open"]]),
        ("    code", [["pre", "code"]]),
        ("---", [["hr"]]),
        (r"\*a\* \# \\", [["p", r"*a* # \ "[:-1]]]),
        (
            "a|b\n-|-:\n1|2\\|3",
            [
                [
                    "div",
                    [
                        "table",
                        ["thead", ["tr", ["th", "a"], ["th", "b"]]],
                        ["tbody", ["tr", ["td", "1"], ["td", "2|3"]]],
                    ],
                ]
            ],
        ),
        ("In 1990. we\n1990. x", [["p", "In 1990. we\n1990. x"]]),
        ("", []),
    ],
    ids=range(18),
)
def test_the_subset(opened: Watched, text: str, expected: Any) -> None:
    """Headings, paragraphs, emphasis, code, lists, quotes, rules and tables."""
    assert rendered(opened, text) == expected


LINKS = """async (text) => {
  const { markdownView } = await import("/markdown.js");
  const made = markdownView(text);
  const links = [...made.querySelectorAll("a")];
  return [links.map((a) => [a.getAttribute("href"), a.rel, a.target, a.textContent]), made.textContent];
}"""
REL = "noopener noreferrer nofollow"


@pytest.mark.parametrize(
    ("text", "href", "shown"),
    [
        ("[docs](https://example.com/a?b=1)", "https://example.com/a?b=1", "docs (example.com)"),
        (
            "[https://bank.example](https://evil.example/)",
            "https://evil.example/",
            "https://bank.example (evil.example)",
        ),
        ("<https://example.com/>", "https://example.com/", "https://example.com/"),
        ("see https://example.com/a_(b)_c.", "https://example.com/a_(b)_c", "see https://example.com/a_(b)_c."),
        ("[m](mailto:a@example.com)", "mailto:a@example.com", "m (a@example.com)"),
        ("![alt](https://example.com/x.png)", "https://example.com/x.png", "picture: alt (example.com)"),
        ('[t](https://example.com/ "title")', "https://example.com/", "t (example.com)"),
        ("**[b](https://example.com/)**", "https://example.com/", "b (example.com)"),
    ],
    ids=range(8),
)
def test_links_open_alone_and_name_their_host(opened: Watched, text: str, href: str, shown: str) -> None:
    """A label may say anything."""
    links, text_shown = opened.page.evaluate(LINKS, text)
    assert [(link[0], link[1], link[2]) for link in links] == [(href, REL, "_blank")]
    assert text_shown == shown


@pytest.mark.parametrize(
    "address",
    [
        "javascript:window.pwned=1",
        "JaVaScRiPt:window.pwned=1",
        "java\tscript:window.pwned=1",
        "data:text/html,<script>",
        "vbscript:x",
        "file:///etc/passwd",
        "blob:https://x/y",
        "//example.com/x",
        "/api/run",
        "ferrule:x",
        "https://user:pw@example.com/",
        "&#106;avascript:1",
        "\x01javascript:window.pwned=1",
        "http:///",
        "view-source:https://example.com",
    ],
)
@pytest.mark.parametrize("form", ["[x](%s)", "<%s>", "![x](%s)", "[![x](%s)](%s)", "[x](<%s>)"])
def test_other_addresses_are_text(opened: Watched, address: str, form: str) -> None:
    """Only http, https and mailto can be opened, and none with a password in it."""
    links, _ = opened.page.evaluate(LINKS, form.replace("%s", address))
    assert [link for link in links if not link[0].startswith(("http://", "https://"))] == []
    assert [link for link in links if "user" in link[0] or "/api" in link[0]] == []


HOSTILE = [
    "<script>window.pwned = 1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    '[x](https://e.example/" onmouseover="window.pwned=1)',
    "[<img src=x onerror=window.pwned=1>](https://e.example)",
    "![<img src=x onerror=window.pwned=1>](https://e.example/x.png)",
    "`<img src=x onerror=window.pwned=1>`",
    "```<img src=x onerror=window.pwned=1>\n<img src=x>\n```",
    "|<img src=x onerror=window.pwned=1>|b|\n|-|-|\n|<script>window.pwned=1</script>|2|",
    "# <iframe src=javascript:window.pwned=1>",
    "<style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>",
    "&lt;script&gt;window.pwned = 1&lt;/script&gt;",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_html_is_text_and_nothing_is_loaded(opened: Watched, text: str) -> None:
    """Every character of it is seen; no element, attribute or request comes of it."""
    opened.requests.clear()
    found = opened.page.evaluate(
        """async (text) => {
          const { markdownView } = await import("/markdown.js");
          const made = markdownView(text);
          document.body.append(made);
          await new Promise((done) => setTimeout(done, 20));
          const names = "script, img, svg, iframe, style, link, object, embed, form, input, video, audio, base, meta";
          const attributes = [...made.querySelectorAll("*")].flatMap((each) => [...each.attributes]);
          const bad = made.querySelectorAll(names).length
            + attributes.filter((each) => /^on|^style$|^src/.test(each.name)).length;
          made.remove();
          return [bad, window.pwned ?? null];
        }""",
        text,
    )
    assert found == [0, None]
    assert [url for url in opened.requests if not url.endswith(".js")] == []


def test_hidden_characters_are_seen(opened: Watched) -> None:
    """Direction marks in a label would turn the host around."""
    _, text = opened.page.evaluate(LINKS, "[a\u202eb](https://example.com/) `\u200b` **\u2066x**\x00")
    for code in ("U+202E", "U+200B", "U+2066", "U+0000"):
        assert code in text


COST = """async (text) => {
  const { markdownView, isMarkdown } = await import("/markdown.js");
  const before = performance.now();
  isMarkdown(text);
  const made = markdownView(text);
  return [performance.now() - before, made.querySelectorAll("*").length];
}"""
PIECES = [
    "*",
    "**a",
    "_a_",
    "`",
    "[",
    "[a](",
    "![",
    "](",
    "<http://",
    "> ",
    "- ",
    "  - ",
    "1. ",
    "|",
    "|-",
    "a|b\n-|-\n",
    "\\",
    "~~",
    "#",
    "```\n",
    "    ",
    "[[",
    "*a **b ",
    "a*",
    "(https://e.example/(",
    "[a](<",
    "https://",
    "\u202e",
    "\ud800",
    "x" * 1000 + " ",
]


@pytest.mark.parametrize("piece", PIECES, ids=range(len(PIECES)))
@pytest.mark.parametrize("end", ["", "\n"])
def test_hostile_markdown_costs_little(opened: Watched, piece: str, end: str) -> None:
    """100,000 characters of one mark: bounded elements. The limit of time only guards against a hang."""
    text = ((piece + end) * (100_000 // len(piece + end) + 1))[:100_000]
    milliseconds, elements = opened.page.evaluate(COST, text)
    assert elements <= 30_000
    assert milliseconds < 30_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, with 2 * 3 = 6 and a-b", False),
        ("# Title", True),
        ("#!/bin/sh", False),
        ("- item", True),
        ("a **b** c", True),
        ('{"a": [1, 2]}', False),
        ("see [a](https://b)", True),
        ("<script>window.pwned = 1</script>", False),
        ("", False),
        ("a_b_c", False),
        ("0123456789abcde\n" * 1000, False),
        ("a|b\n-|-\n1|2", True),
        ("x = `y`", True),
    ],
)
def test_markdown_is_recognised(opened: Watched, text: str, expected: bool) -> None:
    """Plain text stays as it is."""
    script = "async (text) => (await import('/markdown.js')).isMarkdown(text)"
    assert opened.page.evaluate(script, text) is expected
