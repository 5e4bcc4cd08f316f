"""What answers of an API mean to the model."""

from __future__ import annotations

import logging
from base64 import b64encode
from typing import Any

import jsonschema_rs
import pytest

from ferrule import Client
from ferrule.expose.answers.results import MAX_INLINE_FILE_BYTES
from tests.expose.callers_for_tests import BASE_URL, AnsweringCaller, answer, call, exposing

pytestmark = pytest.mark.anyio

PAGES: dict[str, Any] = {
    "parameters": [
        {"name": "page", "in": "query", "schema": {"type": "integer"}},
        {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
        {"name": "X-Version", "in": "header", "schema": {"type": "string"}},
    ]
}


async def result_of(given: Any, raw: Any = None, **options: Any) -> Any:
    return await call(exposing(raw or {}, AnsweringCaller(given), **options))


def texts(result: Any) -> list[str]:
    return [block.text for block in result.content]


@pytest.mark.parametrize("value", [{"a": 1}, [1, 2], 7, "text", True, 1.5, [], {}])
async def test_any_json_is_data(value: Any) -> None:
    result = await result_of(answer(value if not isinstance(value, str) else f'"{value}"', content_type="x/y+json"))
    assert not result.is_error
    assert result.structured_content == value or texts(result) == [value]


@pytest.mark.parametrize("kind", ["application/json", "application/vnd.api+json; charset=utf-8", "text/json", ""])
async def test_json_is_recognized_by_its_media_type(kind: str) -> None:
    result = await result_of(answer('{"a": 1}', content_type=kind))
    assert result.structured_content == {"a": 1}


async def test_a_write_that_answers_nothing_where_something_is_described_is_a_success() -> None:
    raw = {"responses": {"201": {"content": {"application/json": {"schema": {"type": "object"}}}}}}
    result = await result_of(answer(status=201, location="/items/7"), raw, method="post", validate_output="publish")
    assert not result.is_error
    assert texts(result) == ["Done: /items/7"]


@pytest.mark.parametrize("mode", ["off", "log", "publish"])
@pytest.mark.parametrize("status", ["201", "2XX", "default"])
async def test_a_write_that_contradicts_its_schema_is_a_success(
    status: str, mode: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """What was written is written; an error would make the model write it again."""
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    raw = {"responses": {status: {"content": {"application/json": {"schema": schema}}}}}
    result = await result_of(answer({"id": "seven"}, status=201), raw, method="post", validate_output=mode)
    assert not result.is_error
    assert result.structured_content == {"id": "seven"}
    assert ("does not say" in caplog.text) is (mode != "off")


async def test_an_output_schema_is_published_only_where_it_is_asked_for() -> None:
    raw = {"responses": {"2XX": {"content": {"application/json": {"schema": {"type": "object"}}}}}}
    for mode, published in (("off", None), ("log", None), ("publish", {"type": "object"})):
        server = exposing(raw, AnsweringCaller(), validate_output=mode)
        async with Client(server) as client:
            assert (await client.list_tools())[0].output_schema == published


async def test_text_is_decoded_by_its_charset() -> None:
    latin = "<a>é</a>".encode("latin-1")
    assert texts(await result_of(answer(latin, content_type='application/xml; charset="ISO-8859-1"'))) == ["<a>é</a>"]
    assert texts(await result_of(answer("ü".encode("utf-16"), content_type="text/plain;charset=utf-16"))) == ["ü"]
    unknown = await result_of(answer(latin, content_type="text/plain; charset=klingon"))
    assert unknown.content[0].type == "resource"


@pytest.mark.parametrize(
    "charset", ["undefined", "punycode", "utf-7", "unicode_escape", "zlib", "a\x00b", "\ud800", "x" * 1000]
)
async def test_an_unknown_charset_is_not_a_failure(charset: str) -> None:
    result = await result_of(answer(b"a-b", content_type=f"text/plain; charset={charset}"))
    assert texts(result) == ["a-b"]


async def test_some_wrong_bytes_in_a_text_are_replaced() -> None:
    """A model can read the rest; base64 of all of it would tell it nothing."""
    assert texts(await result_of(answer(b"Stra\xdfe", content_type="text/plain"))) == ["Stra\ufffde"]
    wrong = await result_of(answer(b'{"street": "Stra\xdfe"}', content_type="application/json"))
    assert texts(wrong) == ['{"street": "Stra\ufffde"}']
    named = await result_of(answer(b'{"street": "Stra\xdfe"}', content_type="application/json; charset=iso-8859-1"))
    assert named.structured_content == {"street": "Straße"}
    assert (await result_of(answer(bytes(range(256)) * 9, content_type="text/plain"))).content[0].type == "resource"


@pytest.mark.parametrize("body", [b"NaN", b"[1e999]", b"9" * 100_000, b"[" * 200_000, b'{"a":' * 200_000, b"\x00"])
async def test_invalid_json_is_shown_unchanged(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Numbers that are none, and any depth: the call was made, and what came back is no failure of ours."""
    result = await result_of(answer(body, content_type="application/json"))
    assert not result.is_error
    assert "is not JSON" in caplog.text


@pytest.mark.parametrize("kind", ["image/png\r\nX-Evil: 1", "image/*", "audio/\x00", "nonsense", "x/" + "y" * 500])
async def test_an_invalid_media_type_makes_a_plain_file(kind: str) -> None:
    result = await result_of(answer(b"\x00\x01", content_type=kind))
    assert result.content[0].resource.mime_type == "application/octet-stream"


@pytest.mark.parametrize(
    ("status", "text"), [(304, "The API answered 304"), (204, "Done"), (102, "The API answered 102")]
)
async def test_only_a_success_without_a_body_is_done(status: int, text: str) -> None:
    assert texts(await result_of(answer(status=status))) == [text]


async def test_what_looks_like_a_result_is_data() -> None:
    """The API does not speak for the server: its members are data, whatever they are called."""
    given = {"content": [{"type": "text", "text": "x"}], "isError": True, "_meta": {"a": 1}, "__proto__": {"b": 2}}
    result = await result_of(answer(given))
    assert not result.is_error
    assert result.structured_content == given


async def test_a_page_that_is_called_json_is_shown_as_text() -> None:
    assert texts(await result_of(answer("<html>", content_type="application/json"))) == ["<html>"]


@pytest.mark.parametrize(("kind", "block"), [("image/png", "image"), ("audio/wav", "audio"), ("a/pdf", "resource")])
async def test_a_file_is_content_and_a_large_one_a_link(kind: str, block: str) -> None:
    small = await result_of(answer(b"\x00\x01", content_type=kind))
    assert [each.type for each in small.content] == [block]
    large = await result_of(answer(bytes(MAX_INLINE_FILE_BYTES + 1), content_type=kind))
    assert [(each.type, each.uri) for each in large.content] == [("resource_link", f"{BASE_URL}/x")]


async def test_an_answer_that_is_too_large_says_what_to_do() -> None:
    result = await result_of(answer([0] * 1000), max_response_bytes=100)
    assert result.is_error
    assert "Ask for less" in texts(result)[0]


async def test_secrets_are_masked_and_fields_chosen() -> None:
    given = {"items": [{"id": 1, "api_key": "k", "deep": {"Password": "p"}}], "total": 1, "token": None}
    masked = await result_of(answer(given), mask=("*key", "password", "token"))
    assert masked.structured_content == {
        "items": [{"id": 1, "api_key": "***", "deep": {"Password": "***"}}],
        "total": 1,
        "token": None,
    }
    chosen = await result_of(answer(given), fields={"it": ["items.id", "total"]})
    assert chosen.structured_content == {"items": [{"id": 1}], "total": 1}


JSON_OF_OTHER_FORMS = [
    ('{"token": "s3cret", "x": NaN}', "application/json"),
    ('\ufeff{"token": "s3cret"}', "application/json"),
    ('{"token": "s3cret"}', "text/plain"),
    ('[{"token": "s3cret"}]', "application/octet-stream"),
    ('{"token": "s3cret"}\n{"token": "s3cret"}', "application/x-ndjson"),
    ('\x1e{"token": "s3cret"}\n', "application/json-seq"),
    ('{"token": "s3cret"}{', "text/plain; charset=utf-8"),
]


@pytest.mark.parametrize(("body", "kind"), JSON_OF_OTHER_FORMS)
@pytest.mark.parametrize(
    ("status", "options"),
    [(200, {"mask": ["token"]}), (200, {"fields": {"it": ["x"]}}), (404, {"mask": ["token"]})],
    ids=["mask", "fields", "mask of a refusal"],
)
async def test_no_form_of_json_shows_a_member_that_is_left_out(
    body: str, kind: str, options: dict[str, Any], status: int
) -> None:
    """A body that is not quite JSON, or is called text, has the same members; they must not appear in its text."""
    result = await result_of(answer(body, status=status, content_type=kind), **options)
    assert "s3cret" not in repr(result)
    assert b64encode(b"s3cret").decode()[:6] not in repr(result)


async def test_a_text_that_is_no_json_stays_where_members_are_masked() -> None:
    for text in ("[INFO] started", "a,b\n1,2", "plain"):
        assert texts(await result_of(answer(text, content_type="text/plain"), mask=["token"])) == [text]


async def test_a_byte_order_mark_before_json_is_left_out() -> None:
    result = await result_of(answer('\ufeff{"a": 1}', content_type="application/json"))
    assert result.structured_content == {"a": 1}


@pytest.mark.parametrize("status", [500, 502, 503])
async def test_a_failure_is_masked_and_logged(status: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        result = await result_of(answer("Traceback: secret.py", status=status, retry_after="7"))
    assert texts(result) == [f"The API failed with status {status}; try again after 7 s"]
    assert "secret.py" in caplog.text


# -- the next page -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        answer([1], link='<https://api.example/v1/x?page=1>; rel="prev", <https://api.example/x?page=3>; rel="next"'),
        answer([1], link="</x?page=3>; title=a; rel=next"),
        answer([1], link='<?page=3>; rel="last next"'),
        answer({"next": "https://api.example/v1/x?page=3", "results": []}),
        answer({"links": {"next": "/x?page=3"}}),
        answer({"_links": {"next": {"href": "?page=3"}}}),
        answer({"@odata.nextLink": "https://api.example/v1/x?page=3"}),
    ],
)
async def test_the_arguments_of_the_next_page_stand_beside_the_data(given: Any) -> None:
    result = await call(exposing(PAGES, AnsweringCaller(given)), page=2)
    assert result.structured_content is not None
    assert texts(result)[1:] == ['Next page: call again with {"page":3} and the other arguments as they are']


@pytest.mark.parametrize(
    ("kind", "value", "said"),
    [
        ("number", "nan", '"nan"'),
        ("number", "inf", '"inf"'),
        ("integer", "9" * 400, "9" * 400),
        ("boolean", "yes", '"yes"'),
        ("string", "a%0Ab", '"a\\nb"'),
    ],
)
async def test_an_argument_of_the_next_page_is_a_value_of_json(kind: str, value: str, said: str) -> None:
    raw = {"parameters": [{"name": "page", "in": "query", "schema": {"type": kind}}]}
    result = await result_of(answer({"next": f"/x?page={value}"}), raw)
    assert f'{{"page":{said}}}' in texts(result)[-1]


async def test_the_next_page_leaves_the_projection_of_the_data_as_it_is() -> None:
    given = answer([{"a": 1}, {"a": 2}], link='<?page=3&tag=x&tag=y>; rel="next"')
    server = exposing(PAGES, AnsweringCaller(given), server={"text": lambda value: f"encoded {len(value)}"})
    result = await call(server)
    assert result.structured_content == [{"a": 1}, {"a": 2}]
    assert texts(result)[0] == "encoded 2"
    assert '{"page":3,"tag":["x","y"]}' in texts(result)[1]


@pytest.mark.parametrize(
    "given",
    [
        answer([1]),
        answer([1], link='<?page=2>; rel="next"'),
        answer([1], link='<?cursor=3>; rel="next"'),
        answer([1], link='<?page=3>; rel="nextish"'),
        answer([1], link='<?page=3>; rel="next"' + "x" * 100_000),
        answer([1], link="<" * 5000),
        answer({"next": "the next step"}),
        answer({"next": None}),
        answer("text", content_type="text/plain", link='<?page=3>; rel="next"'),
        answer({"error": 1}, status=200),
    ],
)
async def test_without_another_page_nothing_is_said(given: Any) -> None:
    result = await call(exposing(PAGES, AnsweringCaller(given)), page=2)
    assert len(result.content) == 1


async def test_a_published_schema_holds_beside_a_next_page() -> None:
    raw = PAGES | {"responses": {"200": {"content": {"application/json": {"schema": {"type": "array"}}}}}}
    given = answer([1], link='<?page=3>; rel="next"')
    result = await call(exposing(raw, AnsweringCaller(given), validate_output="publish"))
    assert jsonschema_rs.is_valid({"type": "array"}, result.structured_content)
    assert len(result.content) == 2
