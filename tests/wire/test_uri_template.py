"""URI templates: the examples of RFC 6570, and matching."""

from __future__ import annotations

import sys
import time
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.wire.faults import EncodeError, FerruleError
from ferrule.wire.uri_template import (
    MAX_STEPS,
    MAX_URI_CHARS,
    MAX_VARIABLES,
    UriTemplate,
    UriTemplateError,
    first_match,
    normal_uri,
)

# RFC 6570, section 3.2: the variables of its examples.
VARIABLES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}

# RFC 6570, sections 1.2 and 3.2.1 to 3.2.9. Where the order of a mapping decides, it is the order above.
RFC_EXAMPLES: list[tuple[str, str]] = [
    # 3.2.1 variable expansion
    ("{count}", "one,two,three"),
    ("{count*}", "one,two,three"),
    ("{/count}", "/one,two,three"),
    ("{/count*}", "/one/two/three"),
    ("{;count}", ";count=one,two,three"),
    ("{;count*}", ";count=one;count=two;count=three"),
    ("{?count}", "?count=one,two,three"),
    ("{?count*}", "?count=one&count=two&count=three"),
    ("{&count*}", "&count=one&count=two&count=three"),
    # 3.2.2 simple strings
    ("{var}", "value"),
    ("{hello}", "Hello%20World%21"),
    ("{half}", "50%25"),
    ("O{empty}X", "OX"),
    ("O{undef}X", "OX"),
    ("{x,y}", "1024,768"),
    ("{x,hello,y}", "1024,Hello%20World%21,768"),
    ("?{x,empty}", "?1024,"),
    ("?{x,undef}", "?1024"),
    ("?{undef,y}", "?768"),
    ("{var:3}", "val"),
    ("{var:30}", "value"),
    ("{list}", "red,green,blue"),
    ("{list*}", "red,green,blue"),
    ("{keys}", "semi,%3B,dot,.,comma,%2C"),
    ("{keys*}", "semi=%3B,dot=.,comma=%2C"),
    # 3.2.3 reserved
    ("{+var}", "value"),
    ("{+hello}", "Hello%20World!"),
    ("{+half}", "50%25"),
    ("{base}index", "http%3A%2F%2Fexample.com%2Fhome%2Findex"),
    ("{+base}index", "http://example.com/home/index"),
    ("O{+empty}X", "OX"),
    ("O{+undef}X", "OX"),
    ("{+path}/here", "/foo/bar/here"),
    ("here?ref={+path}", "here?ref=/foo/bar"),
    ("up{+path}{var}/here", "up/foo/barvalue/here"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{+path,x}/here", "/foo/bar,1024/here"),
    ("{+path:6}/here", "/foo/b/here"),
    ("{+list}", "red,green,blue"),
    ("{+list*}", "red,green,blue"),
    ("{+keys}", "semi,;,dot,.,comma,,"),
    ("{+keys*}", "semi=;,dot=.,comma=,"),
    # 3.2.4 fragments
    ("{#var}", "#value"),
    ("{#hello}", "#Hello%20World!"),
    ("{#half}", "#50%25"),
    ("foo{#empty}", "foo#"),
    ("foo{#undef}", "foo"),
    ("{#x,hello,y}", "#1024,Hello%20World!,768"),
    ("{#path,x}/here", "#/foo/bar,1024/here"),
    ("{#path:6}/here", "#/foo/b/here"),
    ("{#list}", "#red,green,blue"),
    ("{#list*}", "#red,green,blue"),
    ("{#keys}", "#semi,;,dot,.,comma,,"),
    ("{#keys*}", "#semi=;,dot=.,comma=,"),
    # 3.2.5 labels
    ("{.who}", ".fred"),
    ("{.who,who}", ".fred.fred"),
    ("{.half,who}", ".50%25.fred"),
    ("www{.dom*}", "www.example.com"),
    ("X{.var}", "X.value"),
    ("X{.empty}", "X."),
    ("X{.undef}", "X"),
    ("X{.var:3}", "X.val"),
    ("X{.list}", "X.red,green,blue"),
    ("X{.list*}", "X.red.green.blue"),
    ("X{.keys}", "X.semi,%3B,dot,.,comma,%2C"),
    ("X{.keys*}", "X.semi=%3B.dot=..comma=%2C"),
    ("X{.empty_keys}", "X"),
    ("X{.empty_keys*}", "X"),
    # 3.2.6 path segments
    ("{/who}", "/fred"),
    ("{/who,who}", "/fred/fred"),
    ("{/half,who}", "/50%25/fred"),
    ("{/who,dub}", "/fred/me%2Ftoo"),
    ("{/var}", "/value"),
    ("{/var,empty}", "/value/"),
    ("{/var,undef}", "/value"),
    ("{/var,x}/here", "/value/1024/here"),
    ("{/var:1,var}", "/v/value"),
    ("{/list}", "/red,green,blue"),
    ("{/list*}", "/red/green/blue"),
    ("{/list*,path:4}", "/red/green/blue/%2Ffoo"),
    ("{/keys}", "/semi,%3B,dot,.,comma,%2C"),
    ("{/keys*}", "/semi=%3B/dot=./comma=%2C"),
    # 3.2.7 path-style parameters
    ("{;who}", ";who=fred"),
    ("{;half}", ";half=50%25"),
    ("{;empty}", ";empty"),
    ("{;v,empty,who}", ";v=6;empty;who=fred"),
    ("{;v,bar,who}", ";v=6;who=fred"),
    ("{;x,y}", ";x=1024;y=768"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
    ("{;x,y,undef}", ";x=1024;y=768"),
    ("{;hello:5}", ";hello=Hello"),
    ("{;list}", ";list=red,green,blue"),
    ("{;list*}", ";list=red;list=green;list=blue"),
    ("{;keys}", ";keys=semi,%3B,dot,.,comma,%2C"),
    ("{;keys*}", ";semi=%3B;dot=.;comma=%2C"),
    # 3.2.8 form-style query
    ("{?who}", "?who=fred"),
    ("{?half}", "?half=50%25"),
    ("{?x,y}", "?x=1024&y=768"),
    ("{?x,y,empty}", "?x=1024&y=768&empty="),
    ("{?x,y,undef}", "?x=1024&y=768"),
    ("{?var:3}", "?var=val"),
    ("{?list}", "?list=red,green,blue"),
    ("{?list*}", "?list=red&list=green&list=blue"),
    ("{?keys}", "?keys=semi,%3B,dot,.,comma,%2C"),
    ("{?keys*}", "?semi=%3B&dot=.&comma=%2C"),
    # 3.2.9 form-style continuation
    ("{&who}", "&who=fred"),
    ("{&half}", "&half=50%25"),
    ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
    ("{&x,y,empty}", "&x=1024&y=768&empty="),
    ("{&x,y,undef}", "&x=1024&y=768"),
    ("{&var:3}", "&var=val"),
    ("{&list}", "&list=red,green,blue"),
    ("{&list*}", "&list=red&list=green&list=blue"),
    ("{&keys}", "&keys=semi,%3B,dot,.,comma,%2C"),
    ("{&keys*}", "&semi=%3B&dot=.&comma=%2C"),
    # 1.2 the levels
    ("map?{x,y}", "map?1024,768"),
    ("{+x,hello,y}", "1024,Hello%20World!,768"),
    ("{/var:1,var}", "/v/value"),
    ("{;x,y,empty}", ";x=1024;y=768;empty"),
]


@pytest.mark.parametrize(("template", "uri"), RFC_EXAMPLES)
def test_the_examples_of_the_rfc_expand(template: str, uri: str) -> None:
    """RFC 6570, all four levels."""
    assert UriTemplate(template).expand(VARIABLES) == uri


@pytest.mark.parametrize(("template", "uri"), RFC_EXAMPLES)
def test_what_the_rfc_expands_matches_and_expands_again(template: str, uri: str) -> None:
    """Matching inverts expansion: the values found expand to the same URI, prefixes and lists included.

    Up to escapes of ``,`` and ``=``: a list that is not exploded comes back as one text with commas in it, because
    the URI does not say which it was.
    """
    found = UriTemplate(template).match(uri)
    assert found is not None
    again = UriTemplate(template).expand(found)
    assert _unescape_separators(again) == _unescape_separators(uri)


def _unescape_separators(uri: str) -> str:
    return uri.replace("%2C", ",").replace("%3D", "=")


# --- the template -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("{", 0),
        ("a{id", 1),
        ("a}", 1),
        ("{id}}", 4),
        ("{a{b}", 0),
        ("{}", 0),
        ("{?}", 0),
        ("{,a}", 0),
        ("{a,}", 0),
        ("{a b}", 0),
        ("{ a}", 0),
        ("{a-b}", 0),
        ("{a:0}", 0),
        ("{a:10000}", 0),
        ("{a:x}", 0),
        ("{a:}", 0),
        ("{a:3*}", 0),
        ("{a**}", 0),
        ("{*a}", 0),
        ("{??a}", 0),
        ("{=a}", 0),
        ("{!a}", 0),
        ("{@a}", 0),
        ("{|a}", 0),
        ("{$a}", 0),
        ("{~a}", 0),
        ("{a.}", 0),
        ("{.}", 0),
        ("{a..b}", 0),
        ("{a%2}", 0),
        ("{é}", 0),
        ("{?empty=default,var}", 0),
        ("{-prefix|/-/|var}", 0),
        ("/sparql{?query){&graph*}", 7),
    ],
)
def test_a_malformed_template_is_refused_with_its_place(template: str, position: int) -> None:
    """At its registration, not when a client reads a resource."""
    with pytest.raises(UriTemplateError) as caught:
        UriTemplate(template)
    assert caught.value.position == position
    assert caught.value.template == template
    assert isinstance(caught.value, FerruleError)
    assert isinstance(caught.value, ValueError)


def test_a_template_lists_its_variables_once_in_order() -> None:
    """An author's function is checked against them."""
    assert UriTemplate("/{b}/{a:3}{?c*,b,d.e,%41}").variables == ("b", "a", "c", "d.e", "%41")
    assert UriTemplate("plain").variables == ()


def test_templates_are_values() -> None:
    """They serve as keys of a registry."""
    one, other = UriTemplate("/{a}"), UriTemplate("/{b}")
    assert one == UriTemplate("/{a}")
    assert one != other
    assert one != "/{a}"
    assert len({one, other, UriTemplate("/{a}")}) == 2
    assert str(one) == "/{a}"
    assert repr(one) == "UriTemplate('/{a}')"


# --- expansion --------------------------------------------------------------------------------------------------------


def test_expansion_takes_keywords_a_mapping_or_both() -> None:
    """Names that are not identifiers need the mapping."""
    assert UriTemplate("{a}{b.c}").expand({"a": "x", "b.c": "y"}, a="z") == "zy"
    assert UriTemplate("{a}").expand(a=1) == "1"
    assert UriTemplate("{a}").expand() == ""


@pytest.mark.parametrize(
    ("template", "value", "uri"),
    [
        ("{a}", 5, "5"),
        ("{a}", 1.5, "1.5"),
        ("{a}", True, "true"),
        ("{a}", [1, None, False], "1,false"),
        ("{a*}", {"x": 1, "y": None}, "x=1"),
        ("{a}", (), ""),
        ("{/a*}", [], ""),
        ("{a:2}", "éèê", "%C3%A9%C3%A8"),
        ("{a}", "\ud83d", "%EF%BF%BD"),
        ("{+a}", "a%20b%zz", "a%20b%25zz"),
        ("{a}", "a%20b", "a%2520b"),
        ("{?a*}", {"k": ""}, "?k="),
        ("{;a*}", {"k": ""}, ";k"),
        ("{a*}", {"k": ""}, "k="),
    ],
)
def test_values_of_other_types_have_one_text(template: str, value: Any, uri: str) -> None:
    """Numbers and booleans as JSON has them; a null inside a list or mapping is left out."""
    assert UriTemplate(template).expand(a=value) == uri


@pytest.mark.parametrize(
    ("template", "value"),
    [("{a}", object()), ("{a}", b"x"), ("{a}", {1, 2}), ("{a:1}", ["x"]), ("{a:1}", {"x": "y"}), ("{a}", [["x"]])],
)
def test_a_value_that_no_uri_can_hold_is_refused(template: str, value: Any) -> None:
    """It names the variable; the caller's mistake."""
    with pytest.raises(EncodeError, match="'a'"):
        UriTemplate(template).expand(a=value)


def test_literals_are_escaped_where_a_uri_needs_it() -> None:
    """RFC 6570, 3.1: a literal outside reserved and unreserved characters is written as its escape."""
    assert UriTemplate("file:///my docs/ü/100%/%41/{a}").expand(a="x") == "file:///my%20docs/%C3%BC/100%25/%41/x"


# --- matching ---------------------------------------------------------------------------------------------------------

MATCHES: list[tuple[str, str, dict[str, Any] | None]] = [
    # literals
    ("config://app", "config://app", {}),
    ("config://app", "config://app/", None),
    ("config://app", "config://ap", None),
    ("config://app", "Config://app", None),
    ("", "", {}),
    ("", "x", None),
    ("a.b", "axb", None),
    # simple expressions
    ("users://{id}/profile", "users://42/profile", {"id": "42"}),
    ("users://{id}/profile", "users://4/2/profile", None),
    ("users://{id}/profile", "users://42/profile/x", None),
    ("users://{id}/profile", "users:///profile", {"id": ""}),
    ("users://{id}", "users://a?b", None),
    ("users://{id}", "users://a#b", None),
    ("users://{id}", "users://a@b:c,d!$&'()*+;=[]", {"id": "a@b:c,d!$&'()*+;=[]"}),
    ("users://{id}", "users://büro 7", {"id": "büro 7"}),
    ("users://{id}", "users://a%2Fb%20c", {"id": "a/b c"}),
    ("users://{id}", "users://a%252Fb", {"id": "a%2Fb"}),
    ("users://{id}", "users://b%C3%BCro", {"id": "büro"}),
    ("users://{id}", "users://%FF", None),
    ("users://{id}", "users://100%", {"id": "100%"}),
    ("users://{id}", "users://%zz", {"id": "%zz"}),
    ("users://{id}", "users://a+b", {"id": "a+b"}),
    ("{a}/{b}", "x/y", {"a": "x", "b": "y"}),
    ("{a}/{a}", "x/x", {"a": "x"}),
    ("{a}/{a}", "x/y", None),
    ("{x,y}", "1024,768", {"x": "1024", "y": "768"}),
    ("{x,y}", "1024", {"x": "1024"}),
    ("{x,y}", "1,2,3", None),
    ("{list*}", "red,green", {"list": ["red", "green"]}),
    ("{list*}", "red", {"list": ["red"]}),
    ("O{list*}X", "OX", {}),
    ("{a}-{b}", "x-y-z", {"a": "x-y", "b": "z"}),
    ("{a}{b}", "xy", {"a": "xy", "b": ""}),
    ("{a}.json", "x.json.json", {"a": "x.json"}),
    # prefixes
    ("{a:3}", "val", {"a": "val"}),
    ("{a:3}", "value", None),
    ("{a:3}", "%C3%A9%C3%A9%C3%A9", {"a": "ééé"}),
    ("{/a:1,a}", "/v/value", {"a": "value"}),
    ("{/a:1,a}", "/w/value", None),
    # reserved and fragments
    ("file:///{+path}", "file:///a/b/c.txt", {"path": "a/b/c.txt"}),
    ("file:///{+path}", "file:///a?b#c", {"path": "a?b#c"}),
    ("file:///{+path}/raw", "file:///a/raw/b/raw", {"path": "a/raw/b"}),
    ("file:///{+path}", "file:///a\nb", {"path": "a\nb"}),
    ("file:///{+path}", "file:///", {"path": ""}),
    ("file:///{+path}", "http:///a", None),
    ("file:///{+path:3}", "file:///abcd", None),
    ("{x}/{+path}", "a/b/c", {"x": "a", "path": "b/c"}),
    ("{+path*}", "a,b", {"path": ["a", "b"]}),
    ("s/{+path}{?q}", "s/a?q=1", {"path": "a?q=1"}),
    ("file:///{+path}", "file:///a%2Fb", {"path": "a/b"}),
    ("{+a}/{+b}", "x/y/z", {"a": "x/y", "b": "z"}),
    ("p{#part}", "p#a/b?c", {"part": "a/b?c"}),
    ("p{#part}", "p", {}),
    ("p{#part}", "p#", {"part": ""}),
    # labels and segments
    ("f{.ext}", "f.tar.gz", {"ext": "tar.gz"}),
    ("f{.ext*}", "f.tar.gz", {"ext": ["tar", "gz"]}),
    ("f{.ext}", "f", {}),
    ("f{.ext}", "f.a/b", None),
    ("{/segments*}", "/a/b%2Fc", {"segments": ["a", "b/c"]}),
    ("{/segments*}", "", {}),
    ("{/segments*}", "/", {"segments": [""]}),
    ("{/a,b}", "/x", {"a": "x"}),
    ("{/a,b}", "/x/y", {"a": "x", "b": "y"}),
    ("{/a,b}", "/x/y/z", None),
    ("r:{/segments*}/end", "r:/a/b/end", {"segments": ["a", "b"]}),
    ("r:{/segments*}/end", "r:/end", {}),
    # path-style parameters
    ("{;p}", ";p=1", {"p": "1"}),
    ("{;p}", ";p", {"p": ""}),
    ("{;p}", ";p=", {"p": ""}),
    ("{;p}", "", {}),
    ("{;p}", ";q=1", None),
    ("{;p,q}", ";q=1", {"q": "1"}),
    ("{;p,q}", ";q=1;p=2", None),
    ("{;p*}", ";p=1;p=2", {"p": ["1", "2"]}),
    ("{;p*}", ";a=1;b", {"p": {"a": "1", "b": ""}}),
    # queries
    ("s{?q,limit}", "s?q=a%20b&limit=5", {"q": "a b", "limit": "5"}),
    ("s{?q,limit}", "s?limit=5&q=x", {"q": "x", "limit": "5"}),
    ("s{?q,limit}", "s", {}),
    ("s{?q,limit}", "s?limit=5", {"limit": "5"}),
    ("s{?q,limit}", "s?q=", {"q": ""}),
    ("s{?q,limit}", "s?q", {"q": ""}),
    ("s{?q,limit}", "s?q=a=b/c?d", {"q": "a=b/c?d"}),
    ("s{?q}", "s?q=a&other=1", None),
    ("s{?q}", "s?q=a&q=b", None),
    ("s{?q}", "s?", None),
    ("s{?q}", "s?q=a#f", None),
    ("s{?q}", "s?q=a&", None),
    ("s{?q}", "t?q=a", None),
    ("s{?query*}", "s?a=1&b=%26", {"query": {"a": "1", "b": "&"}}),
    ("s{?query*}", "s?query=1&query=2", {"query": ["1", "2"]}),
    ("s{?q,rest*}", "s?a=1&q=x&b=2", {"q": "x", "rest": {"a": "1", "b": "2"}}),
    ("s{?q}{&page}", "s?page=2&q=x", {"q": "x", "page": "2"}),
    ("s?fixed=1{&x}", "s?fixed=1&x=2", {"x": "2"}),
    ("s?fixed=1{&x}", "s?fixed=1", {}),
    ("s?fixed=1{&x}", "s?fixed=2&x=2", None),
    ("{+p}{?q}", "a/b?q=1", {"p": "a/b?q=1"}),
    ("{+p}?q={q}", "a/b?q=1", {"p": "a/b", "q": "1"}),
    ("s{?q}{#f}", "s?q=1#top", {"q": "1", "f": "top"}),
    ("s{?q}/x", "s?q=1/x", {"q": "1"}),
    # literals that need escapes match either spelling
    ("d/my docs/{a}", "d/my%20docs/x", {"a": "x"}),
    ("d/my docs/{a}", "d/my docs/x", {"a": "x"}),
    ("d/ü/{a}", "d/%c3%bc/x", {"a": "x"}),
    ("d/%2f/{a}", "d/%2F/x", {"a": "x"}),
    ("{a}2F", "x%2F", None),
]


@pytest.mark.parametrize(("template", "uri", "expected"), MATCHES)
def test_a_uri_matches_with_these_values(template: str, uri: str, expected: dict[str, Any] | None) -> None:
    """One row per rule; ``None`` is no match."""
    assert UriTemplate(template).match(uri) == expected


def test_duplicate_keys_of_an_exploded_query_take_the_last() -> None:
    """As in JSON; a mapping cannot hold both and no expansion writes them."""
    assert UriTemplate("s{?q*}").match("s?a=1&a=2") == {"q": {"a": "2"}}


def test_a_uri_over_the_limit_matches_nothing() -> None:
    """The limit bounds the work that one request can cause."""
    assert MAX_URI_CHARS == 8192
    template = UriTemplate("{a}x{b}")
    assert template.match("x" * 8192) is not None
    assert template.match("x" * 8193) is None
    assert UriTemplate("{a}").match("x" * 8193) is None


@pytest.mark.parametrize(
    "template",
    [
        "{a}-{b}-{c}-{d}-{e}-{f}-{g}-{h}!",
        "{+a}{+b}{+c}{+d}{+e}{+f}!",
        "{+a,b,c,d,e,f}!",
        "{a*}{b*}{c*}{d*}{e*}!",
        "{/a*}{/b*}{/c*}{/d*}!",
        "{.a,b,c,d,e,f,g,h}!",
        "{;a*}{;b*}{;c*}!",
    ],
)
def test_an_ambiguous_template_does_not_backtrack(template: str) -> None:
    """A backtracking matcher would need hours for these; ten seconds are a wide margin above the linear time."""
    compiled = UriTemplate(template)
    started = time.process_time()
    for piece in ("-", "a-", ",", "/a", ".a", ";a=b"):
        assert compiled.match(piece * (MAX_URI_CHARS // len(piece))) is None
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "template",
    [
        "{" + ",".join(f"v{n}" for n in range(1500)) + "}",
        "{+" + "}{+".join(f"v{n}" for n in range(1500)) + "}",
        "x{?" + ",".join(f"v{n}" for n in range(1500)) + "}",
        "{;" + ",".join(f"v{n}{'x' * 200}" for n in range(MAX_VARIABLES)) + "}",
        "{a}{b}" + "x" * 5000,
        "{a}" + "x" * 1_000_000,
    ],
)
def test_a_template_that_would_take_too_many_states_is_refused(template: str) -> None:
    """A template may come from a server behind a gateway: one with 1,500 variables held the process for ten seconds."""
    with pytest.raises(UriTemplateError) as caught:
        UriTemplate(template)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("template", "states"),
    [
        ("a/b", 1),
        ("a/{x}", 1),
        ("a/{x}/{y}", 1),
        ("a/{x}/{+rest}", 1),
        ("a/{x}?b", 1),
        ("a/{x}#b", 1),
        ("a/{x}{?q,r}", 1),
        ("{a}{b}", 11),
        ("{a}-b", 8),
        ("{+a}/b", 8),
        ("{a,b}", 17),
        ("{/a}", 7),
    ],
)
def test_plain_templates_take_one_step_for_each_character(template: str, states: int) -> None:
    """Variables between slashes are a regular expression; all others take as many steps as they have states."""
    assert UriTemplate(template).steps("x" * 10) == 10 * states


def test_the_bound_on_states_is_exact() -> None:
    """Two variables and the end take eleven states, and each character of fixed text one more."""
    assert UriTemplate("{a}{b}" + "x" * 3989).steps("x") == 4000
    with pytest.raises(UriTemplateError, match="more than 4000 states"):
        UriTemplate("{a}{b}" + "x" * 3990)


def test_one_variable_more_than_allowed_is_refused() -> None:
    """However the variables are spread over expressions."""
    names = [f"v{n}" for n in range(101)]
    assert UriTemplate("{" + ",".join(names[:50]) + "}/{" + ",".join(names[50:100]) + "}").match("/") is not None
    for template in ("{" + ",".join(names) + "}", "/".join(f"{{{name}}}" for name in names)):
        with pytest.raises(UriTemplateError, match="more than 100 variables"):
            UriTemplate(template)


def test_a_template_of_twice_the_length_of_a_uri_is_read_and_no_longer_one() -> None:
    """Names of variables are not part of the URI, so a template may be longer than one."""
    assert UriTemplate("{" + "v" * (2 * 8192 - 2) + "}").match("a") is not None
    with pytest.raises(UriTemplateError, match="longer than 16384 characters"):
        UriTemplate("{" + "v" * (2 * 8192 - 1) + "}")


def test_as_many_variables_as_are_allowed_work() -> None:
    """The bound is far above what people write."""
    names = [f"v{n}" for n in range(MAX_VARIABLES)]
    template = UriTemplate("x/{" + ",".join(names) + "}")
    assert template.match("x/" + ",".join(names)) == {name: name for name in names}


def test_the_work_of_one_match_is_bounded() -> None:
    """States times length: a long URI does not match a large template, a short one does."""
    template = UriTemplate("{+a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q,r,s,t,u,v,w,x,y,z}")
    assert template.steps("x" * MAX_URI_CHARS) > MAX_STEPS
    assert template.match("x" * MAX_URI_CHARS) is None
    assert template.match("x,y") is not None


def test_many_templates_share_one_bound() -> None:
    """A server may list thousands, each within its own bound."""
    costly = UriTemplate("{+a,b,c,d,e,f,g}!")
    wanted = UriTemplate("x{+rest}")
    uri = "x" * 5000
    assert first_match([costly, wanted], uri) == (wanted, {"rest": "x" * 4999})
    assert first_match([costly] * 1000 + [wanted], uri) is None
    assert first_match([costly] * 1000 + [wanted], "xy") == (wanted, {"rest": "y"})
    assert first_match([UriTemplate(f"a/{n}/{{v}}") for n in range(500)] + [wanted], uri) is not None


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("{;a}{/b}", ";a=1/x", {"a": "1", "b": "x"}),
        ("{;a}{/b}", ";a/x", {"a": "", "b": "x"}),
        ("{;a}{/b}", ";axx/x", None),
        ("/a?b=1{?c}", "/a?b=1?c=2", {"c": "2"}),
        ("/a?b=1{?c}", "/a?b=1&c=2", None),
        ("/a#f{?c}", "/a#f?c=2", {"c": "2"}),
        ("/a{?b,c}", "/a?c=2&b=1", {"b": "1", "c": "2"}),
    ],
)
def test_names_of_parameters_end_where_their_values_begin(
    template: str, uri: str, values: dict[str, str] | None
) -> None:
    """A longer name is another one; after a question mark of the template's own, order counts."""
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "found"),
    [
        ("x{a}", []),
        ("x{a}{b}", [("b", "a")]),
        ("x{a}/{b}", []),
        ("{a}/x{b}{c}", [("c", "b")]),
        ("{a}{/b}", []),
        ("{+a}{/b}", [("b", "a")]),
        ("{a,b}{c,d}", [("c", "b"), ("d", "b")]),
    ],
)
def test_variables_that_no_uri_can_fill_are_named(template: str, found: list[tuple[str, str]]) -> None:
    """Wherever they stand: what comes before them takes everything."""
    assert UriTemplate(template).never_filled() == found


# -- the normal form ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("uri", "normal"),
    [
        ("data://a/b?c=d#e", "data://a/b?c=d#e"),
        ("data://größe", "data://gr%C3%B6%C3%9Fe"),
        ("data://gr%c3%b6%C3%9fe", "data://gr%C3%B6%C3%9Fe"),
        ("data://%61%2d%7E%5f%2E%39", "data://a-~_.9"),
        ("data://a b", "data://a%20b"),
        ("data://%2f%2F", "data://%2F%2F"),
        ("data://100%", "data://100%25"),
        ("data://%%%41%4", "data://%25%25A%254"),
        ("data://%é", "data://%25%C3%A9"),
        ("data://\ud83d\ude00", "data://%F0%9F%98%80"),
        ("data://\ud83d", "data://%EF%BF%BD"),
        ("", ""),
    ],
)
def test_the_normal_form_of_a_uri(uri: str, normal: str) -> None:
    assert normal_uri(uri) == normal


@given(st.text(st.sampled_from("aZ9-._~:/?#[]@!$&'()*+,;= %é€2fF4C{}|"), max_size=30))
def test_the_normal_form_is_what_quoting_each_character_makes(uri: str) -> None:
    """Of each escape of the text, and of each other character."""
    expected, at = "", 0
    while at < len(uri):
        token = uri[at : at + 3]
        is_escape = len(token) == 3 and token[0] == "%" and all(char in "0123456789abcdefABCDEF" for char in token[1:])
        if is_escape:
            char = chr(int(token[1:], 16))
            expected += char if char.isascii() and (char.isalnum() or char in "-._~") else token.upper()
        else:
            expected += quote(uri[at], safe=":/?#[]@!$&'()*+,;=-._~")
        at += 3 if is_escape else 1
    assert normal_uri(uri) == expected
    assert normal_uri(expected) == expected


@pytest.mark.parametrize("text", ["é", "é/", "% ", "%%%", "€"])
def test_the_normal_form_takes_no_python_call_for_each_character(text: str) -> None:
    """A peer chooses the URI, and may subscribe to thousands at once."""
    uri = f"data://{text * (MAX_URI_CHARS // len(text) - 10)}"
    normal_uri(uri)  # compiles the patterns
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        normal_uri(uri)
    finally:
        sys.setprofile(None)
    assert calls < 10


def test_a_uri_that_is_longer_than_any_is_not_normalized() -> None:
    """Unsubscribing from it took as long as its text was, where the subscription had refused it."""
    assert normal_uri("é" * MAX_URI_CHARS) == "%C3%A9" * MAX_URI_CHARS
    assert normal_uri("é" * (MAX_URI_CHARS + 1)) == "é" * (MAX_URI_CHARS + 1)
