"""Resources by URI and by template: found, converted, guarded, and never empty."""

from __future__ import annotations

import pytest

from ferrule import Context, Embedded, File, Image, MCPServer, ToolError
from ferrule.app.components.resources import is_safe_path
from ferrule.app.errors import RegistrationError, SignatureError
from ferrule.protocol.errors import InternalError, MCPError, ResourceNotFound
from ferrule.types import ReadResourceResult, ResourceContents
from tests.app.support import EVERY_REVISION, ask

pytestmark = pytest.mark.anyio


@pytest.fixture
def app() -> MCPServer:
    app = MCPServer("x")

    @app.resource("data://stock", mime_type="text/csv", title="Stock")
    def stock() -> str:
        """All of it."""
        return "a,b"

    @app.resource("data://metals/{metal}/{n}")
    async def bar(metal: str, n: int, ctx: Context) -> dict:
        assert ctx.method == "resources/read"
        return {"metal": metal, "n": n}

    return app


async def read(app, uri, **more):
    return (await ask(app, "resources/read", {"uri": uri}, **more))["contents"]


@pytest.mark.parametrize("version", EVERY_REVISION)
async def test_every_revision_lists_and_reads(app, version):
    """Resources and templates are two lists."""
    listed = (await ask(app, "resources/list", version=version))["resources"]
    assert [(entry["uri"], entry["name"], entry["mimeType"]) for entry in listed] == [
        ("data://stock", "stock", "text/csv")
    ]
    templates = (await ask(app, "resources/templates/list", version=version))["resourceTemplates"]
    assert [entry["uriTemplate"] for entry in templates] == ["data://metals/{metal}/{n}"]
    assert await read(app, "data://stock", version=version) == [
        {"uri": "data://stock", "mimeType": "text/csv", "text": "a,b"}
    ]
    assert await read(app, "data://metals/brass/5", version=version) == [
        {"uri": "data://metals/brass/5", "mimeType": "application/json", "text": '{"metal":"brass","n":5}'}
    ]


@pytest.mark.parametrize("version", EVERY_REVISION)
@pytest.mark.parametrize("uri", ["data://gone", "data://metals/brass", "data://metals/brass/many", "DATA://stock"])
async def test_a_missing_resource_is_an_error_with_the_revisions_code(app, version, uri):
    """-32002 in the legacy era, -32602 in the modern one, and the URI in the data."""
    with pytest.raises(ResourceNotFound) as caught:
        await read(app, uri, version=version)
    assert caught.value.code == (-32602 if version == "2026-07-28" else -32002)
    assert caught.value.data == {"uri": uri}


async def test_none_and_resource_not_found_mean_a_missing_resource(app):
    """The author need not know the code of the revision."""

    @app.resource("data://maybe/{kind}")
    def maybe(kind: str):
        if kind == "raise":
            raise ResourceNotFound("data://maybe/raise")

    for kind in ("none", "raise"):
        with pytest.raises(ResourceNotFound) as caught:
            await read(app, f"data://maybe/{kind}", version="2025-11-25")
        assert caught.value.code == -32002


async def test_percent_escapes_are_decoded_once(app):
    """Twice would turn %252F into a slash."""

    @app.resource("data://text/{word}")
    def text(word: str) -> str:
        return word

    (contents,) = await read(app, "data://text/a%20b%252F%C3%A9")
    assert contents["text"] == "a b%2Fé"
    assert contents["uri"] == "data://text/a%20b%252F%C3%A9"


@pytest.mark.parametrize(
    "path", ["..%2Fsecret", "a/../../b", "%2Fetc/passwd", "a%00b", "..", "C%3A%5Cx", "..%5Cx", "%5C%5Chost"]
)
async def test_paths_that_leave_the_directory_are_not_found(app, path):
    """What comes from a peer is joined to a directory by the author, sooner or later."""
    seen = []

    @app.resource("file:///docs/{+path}")
    def docs(path: str) -> str:
        seen.append(path)
        return "x"

    with pytest.raises(ResourceNotFound):
        await read(app, f"file:///docs/{path}")
    assert seen == []


@pytest.mark.parametrize("path", ["a/b.txt", "a..b", "..a/b", "a/b..", ".hidden"])
async def test_ordinary_paths_pass_the_guard(app, path):
    """Two dots inside a name are a name."""

    @app.resource("file:///docs/{+path}")
    def docs(path: str) -> str:
        return path

    assert (await read(app, f"file:///docs/{path}"))[0]["text"] == path


async def test_the_guard_can_be_turned_off(app):
    """For variables that are never paths."""

    @app.resource("data://raw/{+word}", guard_paths=False)
    def raw(word: str) -> str:
        return word

    assert (await read(app, "data://raw/../x"))[0]["text"] == "../x"


def test_the_guard_looks_into_lists_and_mappings():
    """Exploded variables are lists."""
    assert is_safe_path({"a": ["x", "y"], "b": {"k": "v"}})
    assert not is_safe_path({"a": ["x", ".."]})
    assert not is_safe_path({"b": {"k": "/etc"}})


async def test_query_parameters_are_optional_arguments(app):
    """A template may leave them out, the function has a default."""

    @app.resource("data://search{?q,limit}")
    def search(q: str = "all", limit: int = 3) -> str:
        return f"{q}:{limit}"

    assert (await read(app, "data://search?limit=5&q=x"))[0]["text"] == "x:5"
    assert (await read(app, "data://search"))[0]["text"] == "all:3"


async def test_each_kind_of_contents(app):
    """Text or base64, several items where several are returned."""

    @app.resource("data://kinds/{kind}")
    def kinds(kind: str):
        return {
            "bytes": b"\xff",
            "list": [1, 2],
            "own": ResourceContents("data://other", text="t"),
            "many": [b"a", ResourceContents("data://other", text="t")],
            "file": File("hi", name="n.txt"),
            "embedded": Embedded("data://e", b"x"),
            "image": Image(b"p"),
            "result": ReadResourceResult([ResourceContents("data://r", text="r")]),
        }[kind]

    async def one(kind):
        return await read(app, f"data://kinds/{kind}")

    assert await one("bytes") == [{"uri": "data://kinds/bytes", "mimeType": "application/octet-stream", "blob": "/w=="}]
    assert (await one("list"))[0]["text"] == "[1,2]"
    assert await one("own") == [{"uri": "data://other", "text": "t"}]
    assert [sorted(item) for item in await one("many")] == [["blob", "mimeType", "uri"], ["text", "uri"]]
    assert (await one("file"))[0]["mimeType"] == "text/plain"
    assert (await one("embedded"))[0]["blob"] == "eA=="
    assert (await one("image"))[0]["mimeType"] == "image/png"
    assert (await one("result"))[0]["text"] == "r"


async def test_failures_become_protocol_errors(app):
    """Resources have no error results: ToolError's text is the message, the rest is internal."""

    @app.resource("data://fails/{kind}")
    def fails(kind: str):
        if kind == "told":
            raise ToolError("come back later")
        return object()

    with pytest.raises(MCPError, match="come back later"):
        await read(app, "data://fails/told")
    with pytest.raises(InternalError):
        await read(app, "data://fails/object")


def test_what_cannot_be_served_is_refused_at_registration(app):
    """A mismatch of variables and parameters would be a missing resource for ever."""
    for uri, function, error in (
        ("data://{a}", lambda: 1, SignatureError),
        ("data://x", lambda a: 1, SignatureError),
        ("data://{a", lambda a: 1, RegistrationError),
        ("stock", lambda: 1, RegistrationError),
        ("data://stock", lambda: 1, RegistrationError),
    ):
        with pytest.raises(error):
            app.resource(uri)(function)
    with pytest.raises(RegistrationError, match="needs a URI"):
        app.resource(lambda: 1)


async def test_cache_hints_of_one_resource_win(app):
    """Only the author of a resource can know the lifetime of its contents (2026-07-28, "Caching")."""

    @app.resource("data://slow", ttl_ms=5000, cache_scope="public")
    def slow() -> str:
        return "x"

    result = await ask(app, "resources/read", {"uri": "data://slow"})
    assert (result["ttlMs"], result["cacheScope"]) == (5000, "public")


async def test_a_fixed_uri_wins_over_a_template(app):
    """It is the more particular one, whatever was registered first."""

    @app.resource("data://{+anything}")
    def anything(anything: str) -> str:
        return "template"

    assert (await read(app, "data://stock"))[0]["text"] == "a,b"
    assert (await read(app, "data://other"))[0]["text"] == "template"


SPELLINGS = [
    "file:///docs/café menu.txt",
    "file:///docs/caf%C3%A9%20menu.txt",
    "file:///docs/caf%c3%a9%20menu.txt",
    "file:///%64ocs/café%20menu.txt",
]


@pytest.mark.parametrize("registered", SPELLINGS)
@pytest.mark.parametrize("asked", SPELLINGS)
async def test_a_uri_is_one_however_it_is_spelled(registered, asked):
    """Clients escape what people write (RFC 3987, 3.1), in either case."""
    app, host = MCPServer("x"), MCPServer("host")
    app.resource(registered)(lambda: "soup")
    host.mount(app)
    for server in (app, host):
        (contents,) = await read(server, asked)
        assert (contents["uri"], contents["text"]) == (asked, "soup")
        assert [entry["uri"] for entry in (await ask(server, "resources/list"))["resources"]] == [registered]
    with pytest.raises(RegistrationError, match="already a resource"):
        app.resource(asked)(lambda: "again")
    app.remove_resource(registered)
    with pytest.raises(ResourceNotFound):
        await read(app, asked)


async def test_an_escape_that_means_something_is_kept():
    """``%2F`` is part of a name, and ``/`` parts two."""
    app = MCPServer("x")
    app.resource("data://a%2Fb")(lambda: "one")
    app.resource("data://a/b")(lambda: "two")
    assert (await read(app, "data://a%2fb"))[0]["text"] == "one"
    assert (await read(app, "data://a/b"))[0]["text"] == "two"


async def test_a_template_matches_every_spelling_of_its_text():
    """As for resources without variables."""
    app = MCPServer("x")
    app.resource("data://menü/{dish}")(lambda dish: dish)
    for uri in ("data://menü/soup", "data://men%C3%BC/soup", "data://%6Den%c3%bc/soup"):
        assert (await read(app, uri))[0]["text"] == "soup"


@pytest.mark.parametrize("uri", ["data://{path*}", "data://x{/path*}", "data://{+path*}"])
def test_a_list_of_values_for_a_parameter_of_text_is_refused_with_the_right_spelling(app, uri):
    """Other libraries write a path with slashes so; here every read would fail."""

    def function(path: str) -> str:
        return path

    with pytest.raises(SignatureError, match=r"\{\+path\}"):
        app.resource(uri)(function)

    @app.resource("data://list{/path*}")
    def parts(path: list[str]) -> list[str]:
        return path

    app.resource("data://path/{+path}")(function)


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///{+path}{?lines}", "lines"),
        ("file:///{path}{lines}", "lines"),
        ("file:///{#path}{&lines}", "lines"),
        ("file:///{path}{.lines}", "lines"),
    ],
)
def test_a_variable_that_would_never_be_filled_is_refused(app, uri, name):
    """The one before it takes everything, so the parameter would stay at its default in silence."""

    def function(path: str, lines: str = "") -> str:
        return path

    with pytest.raises(RegistrationError, match=f"'{name}' would never be filled"):
        app.resource(uri)(function)
    app.resource("file:///{path}{?lines}")(function)
    app.resource("file:///{+path}/lines/{lines}")(function)


async def test_an_unlisted_resource_is_read_by_those_who_know_its_uri(app):
    """A list may leave out what is found by other means, such as the page of a tool; mounts keep that."""
    app.add_resource("data://quiet", lambda: "quiet", listed=False)

    @app.resource("quiet://{name}", listed=False)
    def quiet(name: str) -> str:
        return name

    outer = MCPServer("outer")
    outer.mount(app)
    for server in (app, outer):
        listed = await ask(server, "resources/list")
        templates = await ask(server, "resources/templates/list")
        assert [each["uri"] for each in listed["resources"]] == ["data://stock"]
        assert [each["uriTemplate"] for each in templates["resourceTemplates"]] == ["data://metals/{metal}/{n}"]
        assert (await read(server, "data://quiet"))[0]["text"] == "quiet"
        assert (await read(server, "quiet://x"))[0]["text"] == "x"


def test_many_resources_are_added_in_linear_work(app):
    """A folder of skills may have thousands of files: the look-up by URI is not made anew for each."""
    made: list[int] = []
    forget = app.resources._fixed_by_normal_uri

    def counted():
        made.append(app.resources._by_normal_uri is None)
        return forget()

    app.resources._fixed_by_normal_uri = counted
    for number in range(50):
        app.add_resource(f"data://{number}", lambda: "x")
    assert sum(made) <= 1
    app.remove_resource("data://7")
    app.add_resource("data://7", lambda: "again")
    with pytest.raises(RegistrationError, match="already a resource"):
        app.add_resource("data://7", lambda: "x")
