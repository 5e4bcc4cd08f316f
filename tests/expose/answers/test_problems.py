"""The message with which an API refuses a request, in any form, reaches the model."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.expose.answers.problems import MAX_PROBLEM_CHARS, message_text, problem_text
from tests.expose.callers_for_tests import answer


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # FastAPI, pydantic
        (
            {
                "detail": [
                    {"loc": ["body", "items", 0, "name"], "msg": "Field required", "type": "missing", "input": {}}
                ]
            },
            ["body.items.0.name: Field required"],
        ),
        ({"detail": "Not found"}, ["Not found"]),
        # Django REST framework, nested three deep
        ({"name": ["This field is required."], "non_field_errors": ["No."]}, ["name: This field is required.", "No."]),
        ({"lines": [{}, {"product": {"code": ["Unknown."]}}]}, ["lines[1].product.code: Unknown."]),
        # and with fields that have the names of members of other forms
        (
            {"title": ["Blank."], "status": ["Not a choice."], "type": ["Unknown."], "url": ["Not a URL."]},
            ["title: Blank.", "status: Not a choice.", "type: Unknown.", "url: Not a URL."],
        ),
        ({"message": ["Too long."], "name": ["Taken."], "code": ["Wrong."]}, ["message: Too long.", "code: Wrong."]),
        # problem details (RFC 9457), with members by extension
        (
            {
                "type": "https://x.example/p",
                "title": "Invalid",
                "status": 422,
                "detail": "Bad input",
                "errors": [{"pointer": "#/age", "detail": "must be positive"}],
            },
            ["Invalid", "Bad input", "#/age: must be positive"],
        ),
        # ASP.NET, GitHub, JSON:API, Google, OAuth, GraphQL, Spring
        ({"title": "Errors", "errors": {"Age": ["must be positive"]}}, ["Errors", "Age: must be positive"]),
        (
            {"message": "Validation Failed", "errors": [{"resource": "Issue", "field": "title", "code": "missing"}]},
            ["Validation Failed", "title", "missing"],
        ),
        (
            {"errors": [{"status": "422", "title": "Invalid", "source": {"pointer": "/data/age"}}]},
            ["Invalid", "/data/age"],
        ),
        ({"error": {"code": 400, "message": "Bad", "details": [{"reason": "NO"}]}}, ["Bad", "NO"]),
        ({"error": "invalid_grant", "error_description": "expired"}, ["invalid_grant", "expired"]),
        ({"errors": [{"message": "no", "path": ["a", 0]}]}, ["a.0: no"]),
        ({"violations": [{"propertyPath": "age", "message": "positive"}]}, ["age", "positive"]),
        ({"success": False, "msg": "no", "data": None}, ["no"]),
        # none at all
        ("Bad things", ["Bad things"]),
        (["first", "second"], ["first", "second"]),
        (7, ["7"]),
    ],
)
def test_every_message_of_every_envelope_is_there(body: Any, expected: list[str]) -> None:
    text = problem_text(answer(body, status=422))
    for message in expected:
        assert message in text, text


def test_an_html_page_becomes_its_text() -> None:
    page = "<html><style>p{}</style><script>x()</script><h1>Not&nbsp;here</h1><p>Go away</p></html>"
    assert problem_text(answer(page, status=404, content_type="text/html")) == (
        "The API answered 404 Not Found\nNot here Go away"
    )


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<h1>No</h1><script>steal(", "No"),
        ("<h1>No</h1><SCRIPT src=x>a<b</script ><p>end", "No end"),
        ("<style>a</style><style>b</style>No", "No"),
        ("<scripture>No</scripture>", "No"),
        ("<script" * 5000, ""),
        ("<" * 5 + "b>No", "<<<< No"),
    ],
)
def test_a_script_that_does_not_end_takes_the_rest(page: str, text: str) -> None:
    """As browsers read it. Looking for each end from each beginning would take quadratic time."""
    said = problem_text(answer(page, status=400, content_type="text/html"))
    assert said.removeprefix("The API answered 400 Bad Request").strip() == text


@pytest.mark.parametrize("status", [400, 401, 403, 404, 406, 409, 422, 429, 451, 499])
def test_any_status_below_500_says_what_was_wrong(status: int) -> None:
    text = problem_text(answer({"fields": {"age": "no"}}, status=status))
    assert text.startswith(f"The API answered {status}")
    assert "age: no" in text


@pytest.mark.parametrize(
    ("header", "line"),
    [("30", "Try again after 30 s"), ("Wed, 21 Oct 2026 07:28:00 GMT", "after Wed, 21 Oct 2026 07:28:00 GMT")],
)
def test_a_throttled_call_says_when_to_try_again(header: str, line: str) -> None:
    assert line in problem_text(answer({"detail": "throttled"}, status=429, retry_after=header))


@pytest.mark.parametrize(
    "body",
    [
        {"errors": [{"field": f"f{n}", "message": "x" * 500} for n in range(1000)]},
        "x" * 1_000_000,
        "<p>" * 300_000,
        "<script " * 200_000,
        {"a" * 100_000: "b"},
        b"\x00\xff" * 1000,
        b"",
        b"{",
        b"[" * 100_000,
    ],
)
def test_what_is_said_is_bounded(body: Any) -> None:
    assert len(problem_text(answer(body, status=400))) <= MAX_PROBLEM_CHARS


def test_a_deep_answer_is_read_to_a_bound() -> None:
    body: Any = "inner"
    for _ in range(60):
        body = {"a": [body]}
    assert problem_text(answer(body, status=400)) == "The API answered 400 Bad Request"


def test_messages_without_a_response_have_the_same_form_and_bound() -> None:
    """As of a function that refuses as an API does."""
    messages = {"amount": ["Too much."], "lines": [{}, {"code": ["Unknown."]}], "non_field_errors": ["No."]}
    assert message_text(messages, retry_after="5") == (
        "amount: Too much.\nlines[1].code: Unknown.\nNo.\nTry again after 5 s"
    )
    assert message_text(None) == ""
    assert len(message_text("x" * 9999)) == MAX_PROBLEM_CHARS
