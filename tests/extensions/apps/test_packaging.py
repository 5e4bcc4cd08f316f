"""ferrule.extensions.apps.packaging: one document that needs no server behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ferrule.extensions.apps.errors import PageError
from ferrule.extensions.apps.packaging import package, page_problems
from ferrule.extensions.apps.policy import UiPolicy, make_policy
from ferrule.extensions.apps.view_script import view_script

NOTHING = make_policy()


def packed(folder: Path, text: str, policy: UiPolicy = NOTHING, **files: str | bytes) -> str:
    """The document, packaged in a folder with these files; ``a_js`` is the file ``a.js``."""
    for name, content in files.items():
        path = folder / name.replace("_", ".").replace("..", "_")
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return package(text, policy, label="board.html", folder=folder).html


def refusal(folder: Path, text: str, policy: UiPolicy = NOTHING, **files: str | bytes) -> PageError:
    with pytest.raises(PageError) as caught:
        packed(folder, text, policy, **files)
    return caught.value


def test_scripts_styles_pictures_and_fonts_become_part_of_the_page(tmp_path: Path) -> None:
    """A view's frame has no server, so that nothing can be loaded by a relative URL."""
    made = packed(
        tmp_path,
        '<!DOCTYPE html>\n<link rel=stylesheet href="a.css?v=1" media="print">\n<script src="a.js"></script>\n'
        '<img src="a.png" srcset="a.png 1x, a.png 2x" alt="&quot;">\n<p style="background: url(a.png)">x</p>\n'
        '<svg><image href="a.png" /></svg><link rel="icon" href="a.png"><link rel=preload href=a.js>',
        a_css="@import \"b.css\" screen;\n@font-face { src: url('a.woff2') }",
        b_css=".b { background: url( a.png ) }",
        a_js="let x = '</script>', y = '<!-- x';",
        a_png=b"PNG",
        a_woff2=b"FONT",
    )
    picture, font = "data:image/png;base64,UE5H", "data:font/woff2;base64,Rk9OVA=="
    assert made == (
        f'<!DOCTYPE html>\n<style media="print">\n@media screen {{\n.b {{ background: url("{picture}") }}\n}}\n'
        f'@font-face {{ src: url("{font}") }}\n</style>\n'
        "<script>\nlet x = '<\\/script>', y = '<\\!-- x';\n</script>\n"
        f'<img src="{picture}" srcset="{picture} 1x, {picture} 2x" alt="&quot;">\n'
        f'<p style="background: url(&quot;{picture}&quot;)">x</p>\n'
        f'<svg><image href="{picture}" /></svg><link rel="icon" href="{picture}">'
    )


def test_a_page_without_references_stays_as_it_is(tmp_path: Path) -> None:
    """What a parser could change, such as spaces and spelling, is the author's."""
    text = "<!doctype html>\r\n<P CLASS = x >&amp; a < b\r\n<a href='https://example.com'>x</a><img src='#x'><br/>"
    assert packed(tmp_path, text) == text


def test_a_fragment_becomes_a_document(tmp_path: Path) -> None:
    """Hosts need an HTML5 document."""
    assert packed(tmp_path, "<p>x") == "<!doctype html>\n<p>x"


def test_a_deferred_script_still_runs_after_the_document(tmp_path: Path) -> None:
    """Browsers ignore ``defer`` without ``src``: the script would not find the elements that it uses."""
    made = packed(
        tmp_path,
        '<head><script defer src="a.js"></script><script async src="b.js"></script>'
        '<script type="module" src="b.js"></script></head><body><p></p></body>',
        a_js="first()",
        b_js="second()",
    )
    assert made == (
        '<!doctype html>\n<head><script type="module">\nsecond()\n</script></head><body><p></p>'
        "<script>\nfirst()\n</script>\n<script>\nsecond()\n</script>\n</body>"
    )


def test_the_view_script_is_inserted(tmp_path: Path) -> None:
    """An author needs no file of ours beside the page."""
    made = package('<script src="ferrule:view"></script>', NOTHING, label="x").html
    assert made == f"<!doctype html>\n<script>\n{view_script()}\n</script>"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('<p>\n<script src="https://cdn.example/x.js"></script>', 2, '"resourceDomains": ["https://cdn.example"]'),
        ("<script src=//cdn.example/x.js></script>", 1, "https://cdn.example"),
        ('<link rel="stylesheet" href="https://cdn.example/x.css">', 1, "resourceDomains"),
        ("<style>\n\n@import url(https://cdn.example/x.css);</style>", 3, "resourceDomains"),
        ("<style>\n.a { background:\nurl('http://cdn.example/x.png') }</style>", 3, "http://cdn.example"),
        ('<p style="background: url(https://cdn.example/x.png)">', 1, "resourceDomains"),
        ('<img srcset="https://cdn.example/x.png 2x">', 1, "resourceDomains"),
        ('<video poster="https://cdn.example/x.png">', 1, "resourceDomains"),
        ('<iframe src="https://cdn.example/">', 1, "frameDomains"),
        ('<base href="https://cdn.example/">', 1, "baseUriDomains"),
        ("<script>\nfetch('https://api.example/x')</script>", 2, "connectDomains"),
        ("<script>\n\nnew WebSocket(`wss://api.example/x`)</script>", 3, '"connectDomains": ["wss://api.example"]'),
        ('<script>r.open("GET", "https://api.example/x")</script>', 1, "connectDomains"),
        ("<script>await import('https://cdn.example/x.js')</script>", 1, "resourceDomains"),
        ("<script type=module>\nimport { a,\n b } from 'https://cdn.example/x.js'</script>", 3, "resourceDomains"),
        ('<embed src="https://cdn.example/x.svg">', 1, "object-src"),
        ('<iframe src="other.html">', 1, "no server"),
        ('<script type="module">import "./x.js"</script>', 1, "bundle"),
        ('<img src="missing.png">', 1, "there is no file 'missing.png'"),
        ('<img src="file:///etc/passwd">', 1, "cannot be loaded"),
        ('<script src="ferrule:views"></script>', 1, "ferrule:views"),
    ],
)
def test_what_hosts_would_not_load_is_refused_with_file_and_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    """In a host the reader would see an empty frame, and the author nothing at all."""
    error = refusal(tmp_path, text)
    assert str(error).startswith(f"board.html:{line}: ")
    assert said in str(error)
    assert (error.file, error.line) == ("board.html", line)


def test_the_line_is_that_of_the_file_that_refers(tmp_path: Path) -> None:
    """The reference may be in a style sheet that a style sheet imports."""
    error = refusal(
        tmp_path,
        "<link rel=stylesheet href=a.css>",
        a_css='@import "b.css";',
        b_css="\n\na { src: url(//x.example/a) }",
    )
    assert (error.file, error.line) == (str(tmp_path / "b.css"), 3)
    error = refusal(tmp_path, "<script src=a.js></script>", a_js="\nfetch('https://x.example')")
    assert (error.file, error.line) == (str(tmp_path / "a.js"), 2)


def test_the_policy_allows_what_it_names(tmp_path: Path) -> None:
    """The same references, declared."""
    text = (
        '<script src="https://cdn.example/x.js"></script><img src="//img.example.com/x.png"><iframe src="https://f.x/">'
        "<script>fetch('https://api.example:8443/x'); new WebSocket('wss://api.example/x')</script>"
    )
    policy = make_policy(
        {
            "resourceDomains": ["https://cdn.example", "https://*.example.com"],
            "frameDomains": ["https://f.x"],
            "connectDomains": ["https://api.example:8443", "wss://api.example"],
        }
    )
    assert packed(tmp_path, text, policy) == f"<!doctype html>\n{text}"


@pytest.mark.parametrize(
    "text",
    [
        "<script>// fetch('https://api.example/x')\n/*\n * import 'https://x.example' */</script>",
        "<style>/* url(https://x.example/a.png) */ a::before { content: 'url(https://x.example/b.png)' }</style>",
        "<!-- <img src=https://x.example/a.png> --><script type='application/json'>\"fetch('https://x')\"</script>",
        "<a href='https://x.example'>x</a><link rel=canonical href=https://x.example>",
        "<script>const label = 'import x from y'; export_('https://x.example')</script>",
        "<img src='data:image/png;base64,AA=='><img src=''><script src=''></script>",
    ],
)
def test_what_loads_nothing_is_no_reference(tmp_path: Path, text: str) -> None:
    """Comments, texts and links load nothing by themselves."""
    assert packed(tmp_path, text) == f"<!doctype html>\n{text}"


def test_a_long_script_with_markup_in_it_is_one_text(tmp_path: Path) -> None:
    """The parser gives such a text in pieces, and the lines are those of the whole."""
    error = refusal(tmp_path, "<script>\nlet a = '<b>&amp;</b>' </\nlet b;\nfetch('https://x.example')</script>")
    assert error.line == 4


@pytest.mark.parametrize(
    ("conditions", "made"),
    [
        ("", "{}"),
        (" screen and (width > 1px)", "@media screen and (width > 1px) {{\n{}\n}}"),
        (" layer", "@layer {{\n{}\n}}"),
        (" layer(base) supports(display: grid) print", (
            "@layer base {{\n@supports (display: grid) {{\n@media print {{\n{}\n}}\n}}\n}}"
        )),
        (" supports(not (display: grid))", "@supports (not (display: grid)) {{\n{}\n}}"),
    ],
)  # fmt: skip
def test_an_imported_style_sheet_keeps_its_conditions(tmp_path: Path, conditions: str, made: str) -> None:
    """The rule that stands in its place says the same."""
    text = packed(tmp_path, f"<style>@import url(a.css){conditions};</style>", a_css="p { top: 0 }")
    assert text == f"<!doctype html>\n<style>{made.format('p { top: 0 }')}</style>"


def test_the_output_of_a_bundler_is_one_page(tmp_path: Path) -> None:
    """As Vite writes it: a module in the head, root-relative names, hints."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "index-a1.js").write_text('const a="</script>";document.body.append(a);')
    (tmp_path / "assets" / "index-a1.css").write_text("#root{top:0}")
    (tmp_path / "vite.svg").write_text("<svg/>")
    made = packed(
        tmp_path,
        '<!doctype html><html lang="en"><head><link rel="icon" type="image/svg+xml" href="/vite.svg" />'
        '<script type="module" crossorigin src="/assets/index-a1.js"></script>'
        '<link rel="modulepreload" crossorigin href="/assets/index-a1.js">'
        '<link rel="stylesheet" crossorigin href="/assets/index-a1.css"></head>'
        '<body><div id="root"></div></body></html>',
    )
    assert made == (
        '<!doctype html><html lang="en"><head><link rel="icon" type="image/svg+xml" '
        'href="data:image/svg+xml;base64,PHN2Zy8+">'
        '<script type="module">\nconst a="<\\/script>";document.body.append(a);\n</script>'
        '<style>\n#root{top:0}\n</style></head><body><div id="root"></div></body></html>'
    )


def test_styles_that_import_themselves_are_refused(tmp_path: Path) -> None:
    """They would be inlined forever."""
    error = refusal(tmp_path, "<style>@import 'a.css';</style>", a_css="@import 'b.css';", b_css="@import 'a.css';")
    assert "imports itself" in str(error)


def test_a_page_given_as_text_has_no_files() -> None:
    """There is no folder that its URLs could belong to."""
    with pytest.raises(PageError, match="given as text"):
        package("<img src=a.png>", NOTHING, label="x")


def test_the_size_of_a_page_is_bounded(tmp_path: Path) -> None:
    """Every host holds the whole page, and sends it to a browser."""
    (tmp_path / "a.png").write_bytes(b"x" * 1000)
    with pytest.raises(PageError, match=r"more than may be part of it|at most 500"):
        package("<img src=a.png>", NOTHING, label="x", folder=tmp_path, max_bytes=500)


def test_root_relative_and_encoded_urls_are_files_of_the_page_folder(tmp_path: Path) -> None:
    """As a web server with the page's folder as its root would give them."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a b.css").write_text("a { src: url(/dot.png) } b { src: url(../dot.png#x) }")
    (tmp_path / "dot.png").write_bytes(b"PNG")
    made = packed(tmp_path, '<link rel="stylesheet" href="/in/a%20b.css">')
    assert made.count('url("data:image/png;base64,UE5H') == 2


@pytest.mark.parametrize(
    "text",
    [
        "<style>" + "url(" * 50_000,
        "<style>" + "/* " * 70_000,
        "<style>" + "@import a " * 20_000,
        "<style>" + "@import " + " " * 100_000,
        "<script type=module>" + "import a, b\n" * 20_000,
        "<script type=module>" + "from 'x' " * 20_000,
        "<script type=module>" + "\n" * 200_000,
        "<script>" + "</" * 100_000,
        "<" * 100_000,
        "<a " * 100_000,
        "<a x='" * 100_000,
        "<!--" * 100_000,
        "<script>" * 50_000,
        "<![" * 100_000,
        "<!" * 100_000,
    ],
    ids=lambda text: text[:28],
)
def test_a_hostile_page_is_judged_in_time_that_grows_with_it(text: str) -> None:
    """The host of `ferrule.testing` reads pages of any server; this took hours with patterns that look back."""
    page_problems(text, NOTHING, label="x")


@pytest.mark.parametrize("end", ["", "<", "<!--", "<img src='https://a.example/", "</scr"])
def test_the_end_of_a_page_may_be_missing(end: str) -> None:
    """A browser runs a script without an end, and drops a tag or a comment without one."""
    (problem,) = page_problems(f"<script>fetch('https://b.example/x'); {end}", NOTHING, label="x")
    assert "b.example" in str(problem)
    assert page_problems(f"<p>{end}", NOTHING, label="x") == []


@pytest.mark.parametrize("text", ["<![CDATA[ <p> ]]>", "<![if IE]>", "<![", "<![]", "<![a"])
def test_a_marked_section_is_a_comment(text: str) -> None:
    """As in a browser; the parser of some Pythons raises an error for those that are malformed."""
    (problem,) = page_problems(f"{text}><img src='https://b.example/x.png'>", NOTHING, label="x")
    assert "b.example" in str(problem)


@pytest.mark.parametrize("name", ["a\0.js", f"{'a' * 5000}.js"])
def test_what_cannot_be_the_name_of_a_file_is_refused(tmp_path: Path, name: str) -> None:
    """By the system with exceptions of its own."""
    with pytest.raises(PageError, match=r"is not the name of a file|there is no file"):
        package(f"<script src='{name}'></script>", NOTHING, label="x", folder=tmp_path)


def test_style_sheets_that_multiply_are_refused(tmp_path: Path) -> None:
    """Each imports the next one three times: thirty small files are more than any machine has room for."""
    for number in range(30):
        (tmp_path / f"a{number}.css").write_text(f"@import 'a{number + 1}.css';" * 3)
    (tmp_path / "a30.css").write_text("b {}")
    with pytest.raises(PageError, match="more than may be part of it"):
        package("<link rel=stylesheet href=a0.css>", NOTHING, label="x", folder=tmp_path)


def test_a_large_file_is_not_read_whole(tmp_path: Path) -> None:
    """No more than what is left for the page."""
    with (tmp_path / "a.png").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(PageError, match=r"a\.png"):
        package("<img src=a.png>", NOTHING, label="x", folder=tmp_path, max_bytes=500)
