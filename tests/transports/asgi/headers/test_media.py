"""ferrule.transports.asgi.headers.media."""

import pytest

from ferrule.transports.asgi.headers.media import accepts, is_json_content_type


@pytest.mark.parametrize(
    ("value", "json", "stream"),
    [
        ("", True, True),
        ("*/*", True, True),
        ("application/json, text/event-stream", True, True),
        ("Application/JSON,TEXT/Event-Stream", True, True),
        ("application/json", True, False),
        ("application/*, text/*;q=0.1", True, True),
        ("*/*, text/event-stream;q=0", True, False),
        ("text/event-stream;q=0, */*;q=0.5", True, False),
        ("text/*;q=0, text/event-stream", False, True),
        ("application/json;q=0", False, False),
        ("application/json;q=0.000, text/event-stream;q=1.000", False, True),
        ("text/html, application/xhtml+xml", False, False),
        ("application/json ; charset=utf-8 ; q=1 , text/event-stream", True, True),
        ("application/json;q=nonsense", True, False),
        ("application/jsonx, text/event-streams", False, False),
        ("*/json", False, False),
    ],
)
def test_accept_is_read_by_specificity_and_weight(value: str, json: bool, stream: bool) -> None:
    """A wildcard admits, a zero weight excludes, and the more specific range decides (RFC 9110, 12.5.1)."""
    assert accepts(value, "application/json") is json
    assert accepts(value, "text/event-stream") is stream


@pytest.mark.parametrize(
    ("value", "good"),
    [
        ("application/json", True),
        ("Application/JSON; charset=UTF-8", True),
        ('application/json;charset="utf-8"', True),
        ("application/json; profile=x", True),
        ("application/json; charset=latin-1", False),
        ("application/json-rpc", False),
        ("text/plain", False),
        ("", False),
        ("application/x-www-form-urlencoded", False),
    ],
)
def test_only_json_in_utf8_is_a_message(value: str, good: bool) -> None:
    """A form or a text body can be sent by any web page without asking; JSON cannot."""
    assert is_json_content_type(value) is good
