"""Header values and the mirrored parameters of a tool call."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from ferrule.wire.faults import DecodeError, EncodeError, FerruleError
from ferrule.wire.headers import (
    HeaderValueError,
    InvalidHeaderAnnotation,
    ParamHeader,
    check_params,
    compile_param_plan,
    decode_header_value,
    encode_header_value,
    mirror_params,
    scalar_to_header,
)

MAX_SAFE = 2**53 - 1

# --- values (digest HE-1 to HE-8, SEP-2243) ---------------------------------------------------------------------------

ENCODED = {
    "us-west1": "us-west1",
    "": "",
    "two words  inside": "two words  inside",
    "Hello, 世界": "=?base64?SGVsbG8sIOS4lueVjA==?=",
    " padded ": "=?base64?IHBhZGRlZCA=?=",
    " leading": "=?base64?IGxlYWRpbmc=?=",
    "trailing ": "=?base64?dHJhaWxpbmcg?=",
    " ": "=?base64?IA==?=",
    "\tindented": "=?base64?CWluZGVudGVk?=",
    "tab\tinside": "=?base64?dGFiCWluc2lkZQ==?=",
    "line1\nline2": "=?base64?bGluZTEKbGluZTI=?=",
    "line1\r\nline2": "=?base64?bGluZTENCmxpbmUy?=",
    "cr\rhere": "=?base64?Y3IKaGVyZQ==?=".replace("Y3IKaGVyZQ", "Y3INaGVyZQ"),
    "nul\0": "=?base64?bnVsAA==?=",
    "del\x7f": "=?base64?ZGVsfw==?=",
    "é": "=?base64?w6k=?=",
    "=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",
    "=?base64??=": "=?base64?PT9iYXNlNjQ/Pz0=?=",
    "=?base64?=": "=?base64?PT9iYXNlNjQ/PQ==?=",
    "=?BASE64?eA==?=": "=?BASE64?eA==?=",
    "=?base64?eA==": "=?base64?eA==",
    "eA==?=": "eA==?=",
    "cut \ud83d off": "=?base64?Y3V0IO+/vSBvZmY=?=",
}


@pytest.mark.parametrize("value", ENCODED)
def test_a_value_is_encoded_only_where_it_is_unsafe(value: str) -> None:
    """The worked values of the specification, and the edges around them."""
    assert encode_header_value(value) == ENCODED[value]


@pytest.mark.parametrize("value", ENCODED)
def test_an_encoded_value_decodes_to_itself(value: str) -> None:
    """Both ends are ours; a lone surrogate becomes U+FFFD as it does in the body."""
    assert decode_header_value(encode_header_value(value)) == value.replace("\ud83d", "\ufffd")


@pytest.mark.parametrize(
    ("received", "meant"),
    [
        ("  foo ", "foo"),
        ("\tfoo\t", "foo"),
        (" =?base64?IHBhZGRlZCA=?= ", " padded "),
        ("=?base64??=", ""),
        ("=?base64?=", "=?base64?="),
        ("=?BASE64?eA==?=", "=?BASE64?eA==?="),
        ("=?Base64?eA==?=", "=?Base64?eA==?="),
        ("base64?eA==?=", "base64?eA==?="),
        ("=?base64?eA==", "=?base64?eA=="),
        ("tab\tinside", "tab\tinside"),
    ],
)
def test_a_received_value_is_trimmed_and_a_malformed_marker_is_a_literal(received: str, meant: str) -> None:
    """HTTP trims; only the exact lower-case markers encode."""
    assert decode_header_value(received) == meant


@pytest.mark.parametrize(
    "received",
    [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs!G8=?=",
        "=?base64?SGVs bG8=?=",
        "=?base64?SGVsbG8=SGVsbG8=?=",
        "=?base64?=?=",
        "=?base64?-_-_?=",
        "=?base64?/w==?=",
        "caf\xe9",
        "a\x00b",
        "a\nb",
        "\x7f",
        "世界",
    ],
)
def test_a_malformed_value_is_refused(received: str) -> None:
    """Padding, alphabet, UTF-8, raw control characters and raw bytes beyond ASCII."""
    with pytest.raises(HeaderValueError) as caught:
        decode_header_value(received)
    assert isinstance(caught.value, DecodeError | FerruleError)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-7, "-7"),
        (42.0, "42"),
        (MAX_SAFE, "9007199254740991"),
        (-MAX_SAFE, "-9007199254740991"),
        ("true", "true"),
        ("é", "=?base64?w6k=?="),
    ],
)
def test_a_scalar_has_its_json_spelling(value: str | int | float, expected: str) -> None:
    """A bool is an int in Python and must not become 1."""
    assert scalar_to_header(value) == expected


@pytest.mark.parametrize("value", [1.5, float("nan"), float("inf"), None, [], {}, MAX_SAFE + 1, -MAX_SAFE - 1, 1e300])
def test_what_no_header_can_carry_is_refused(value: Any) -> None:
    """Beyond 2^53 - 1 two integers share a double, so an intermediary could not tell them apart."""
    with pytest.raises(EncodeError):
        scalar_to_header(value)


# --- the plan (HX-1 to HX-5, HX-11) -----------------------------------------------------------------------------------


def annotated(name: Any = "Region", kind: Any = "string", **more: Any) -> dict[str, Any]:
    """A property with an annotation."""
    return {"type": kind, "x-mcp-header": name, **more}


def test_a_plan_holds_every_annotated_property_in_order() -> None:
    """Nested ones included, as long as only ``properties`` lead there."""
    schema = {
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "region": annotated("Region"),
            "where": {
                "type": "object",
                "properties": {"zone": annotated("Zone-2", "integer"), "deep.er": annotated("m")},
            },
            "dry": annotated("Method", "boolean"),
        },
    }
    assert compile_param_plan(schema) == (
        ParamHeader("mcp-param-region", "Mcp-Param-Region", ("region",), "string"),
        ParamHeader("mcp-param-zone-2", "Mcp-Param-Zone-2", ("where", "zone"), "integer"),
        ParamHeader("mcp-param-m", "Mcp-Param-m", ("where", "deep.er"), "string"),
        ParamHeader("mcp-param-method", "Mcp-Param-Method", ("dry",), "boolean"),
    )


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, True, None, [], {"properties": {"a": True}}, {"properties": 1}]
)
def test_a_schema_without_annotations_has_an_empty_plan(schema: Any) -> None:
    """Most tools, and schemas that are refused elsewhere."""
    assert compile_param_plan(schema) == ()


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a:b", "naïve", "a\tb", "a\n", "a/b", "(a)", '"a"', None, 1, True, ["a"], {}]
)
def test_an_annotation_is_an_http_token(name: Any) -> None:
    """2026-07-28, "Tools" (``x-mcp-header``)."""
    with pytest.raises(InvalidHeaderAnnotation) as caught:
        compile_param_plan({"properties": {"p": annotated(name)}})
    assert caught.value.path == "$.properties.p"


@pytest.mark.parametrize("name", ["!#$%&'*+-.^_`|~", "A", "0"])
def test_every_token_character_is_allowed(name: str) -> None:
    """RFC 9110, tchar."""
    assert compile_param_plan({"properties": {"p": annotated(name)}})[0].wire_name == f"Mcp-Param-{name}"


@pytest.mark.parametrize(
    "kind",
    ["number", "array", "object", "null", None, ["string", "integer"], ["string", "null"], ["null"], [], 1, "String"],
)
def test_only_string_integer_and_boolean_may_be_annotated(kind: Any) -> None:
    """A number has several spellings."""
    with pytest.raises(InvalidHeaderAnnotation, match="type"):
        compile_param_plan({"properties": {"p": annotated(kind=kind)}})
    with pytest.raises(InvalidHeaderAnnotation, match="type"):
        compile_param_plan({"properties": {"p": {"x-mcp-header": "A", "enum": ["a"]}}})


@pytest.mark.parametrize("second", ["Region", "region", "REGION"])
def test_names_are_unique_without_regard_to_case(second: str) -> None:
    """HTTP header names do not know case."""
    properties = {"a": annotated("Region"), "o": {"properties": {"b": annotated(second)}}}
    with pytest.raises(InvalidHeaderAnnotation, match="twice") as caught:
        compile_param_plan({"properties": properties})
    assert caught.value.path == "$.o.b"


INNER = {"properties": {"p": annotated()}}


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        (annotated(), "$"),
        ({"properties": {"a": {"type": "array", "items": annotated()}}}, "$.properties.a.items"),
        ({"properties": {"a": {"items": [annotated()]}}}, "$.properties.a.items[0]"),
        ({"properties": {"a": {"prefixItems": [{}, annotated()]}}}, "$.properties.a.prefixItems[1]"),
        ({"oneOf": [{}, INNER]}, "$.oneOf[1].properties.p"),
        ({"anyOf": [annotated()]}, "$.anyOf[0]"),
        ({"allOf": [INNER]}, "$.allOf[0].properties.p"),
        ({"properties": {"a": {"anyOf": [annotated(), {"type": "null"}]}}}, "$.properties.a.anyOf[0]"),
        ({"not": INNER}, "$.not.properties.p"),
        ({"if": INNER}, "$.if.properties.p"),
        ({"then": INNER}, "$.then.properties.p"),
        ({"else": INNER}, "$.else.properties.p"),
        ({"$defs": {"D": annotated()}}, "$.$defs.D"),
        ({"definitions": {"D": INNER}}, "$.definitions.D.properties.p"),
        ({"patternProperties": {"^a": annotated()}}, "$.patternProperties.^a"),
        ({"additionalProperties": annotated()}, "$.additionalProperties"),
        ({"unevaluatedProperties": annotated()}, "$.unevaluatedProperties"),
        ({"propertyNames": annotated()}, "$.propertyNames"),
        ({"dependentSchemas": {"a": INNER}}, "$.dependentSchemas.a.properties.p"),
        ({"properties": {"a": {"contains": annotated()}}}, "$.properties.a.contains"),
    ],
)
def test_an_annotation_elsewhere_invalidates_the_tool(schema: Any, path: str) -> None:
    """Its value would have no one path in the arguments."""
    with pytest.raises(InvalidHeaderAnnotation, match="may not stand") as caught:
        compile_param_plan(schema)
    assert caught.value.path == path


def test_the_words_of_an_annotation_as_data_are_no_annotation() -> None:
    """A property may be called so, and a default or an example may hold it."""
    schema = {
        "properties": {"x-mcp-header": {"type": "string", "default": {"x-mcp-header": "A"}}},
        "examples": [{"x-mcp-header": "A"}],
        "const": {"x-mcp-header": "A"},
        "enum": [{"x-mcp-header": "A"}],
    }
    assert compile_param_plan(schema) == ()


def test_a_deep_schema_is_walked_without_recursion() -> None:
    """A tool list comes from a server that the client may not trust."""
    schema: dict[str, Any] = {"properties": {"p": annotated()}}
    for _ in range(20_000):
        schema = {"properties": {"n": schema}}
    plan = compile_param_plan(schema)
    assert len(plan[0].path) == 20_001
    arguments: dict[str, Any] = {"p": "x"}
    for _ in range(20_000):
        arguments = {"n": arguments}
    assert mirror_params(plan, arguments) == {"Mcp-Param-Region": "x"}


# --- both ends (HX-6, HX-7, HE-4, HE-8) -------------------------------------------------------------------------------

PLAN = compile_param_plan(
    {
        "properties": {
            "s": annotated("S"),
            "o": {"properties": {"n": annotated("N", "integer")}},
            "b": annotated("B", "boolean"),
        }
    }
)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"s": "x", "o": {"n": 1}, "b": True}, {"Mcp-Param-S": "x", "Mcp-Param-N": "1", "Mcp-Param-B": "true"}),
        ({"s": "", "b": False}, {"Mcp-Param-S": "", "Mcp-Param-B": "false"}),
        ({"o": {"n": 0}}, {"Mcp-Param-N": "0"}),
        ({"s": " é"}, {"Mcp-Param-S": "=?base64?IMOp?="}),
        ({"s": None, "o": None}, {}),
        ({"o": {"n": None}}, {}),
        ({"o": [1]}, {}),
        ({}, {}),
        (None, {}),
        ({"s": ["x"], "o": {"n": 1.5}, "b": {}}, {}),
        ({"o": {"n": 42.0}}, {"Mcp-Param-N": "42"}),
        ({"s": 5, "b": "true"}, {"Mcp-Param-S": "5", "Mcp-Param-B": "true"}),
        ({"s": float("nan"), "o": {"n": float("inf")}}, {}),
    ],
)
def test_what_a_client_mirrors_passes_the_servers_check(arguments: Any, headers: dict[str, str]) -> None:
    """Absent and null have no header; an empty string has an empty one."""
    assert mirror_params(PLAN, arguments) == headers
    assert check_params(PLAN, {name.lower(): value for name, value in headers.items()}, arguments) is None


def test_an_integer_that_no_header_can_carry_names_its_argument() -> None:
    """The path and not the value: arguments may be secret."""
    with pytest.raises(EncodeError, match=r"\$\.o\.n") as caught:
        mirror_params(PLAN, {"o": {"n": MAX_SAFE + 1}})
    assert str(MAX_SAFE + 1) not in str(caught.value)


@pytest.mark.parametrize(
    ("headers", "arguments", "words"),
    [
        ({}, {"s": "x"}, "missing"),
        ({}, {"s": ""}, "missing"),
        ({"mcp-param-s": "secret"}, {}, "present"),
        ({"mcp-param-s": ""}, {"s": None}, "present"),
        ({"mcp-param-s": "x"}, {"s": ["x"]}, "present"),
        ({"mcp-param-s": "X"}, {"s": "x"}, "match"),
        ({"mcp-param-s": "secret"}, {"s": "hidden"}, "match"),
        ({"mcp-param-s": "=?base64?eA=?="}, {"s": "x"}, "malformed"),
        ({"mcp-param-s": "caf\xe9"}, {"s": "café"}, "malformed"),
        ({"mcp-param-s": "42.0"}, {"s": "42"}, "match"),
        ({"mcp-param-n": "43"}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": "42.5"}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": "0x2a"}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": "4_2"}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": "+42"}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": "٤٢"}, {"o": {"n": 42}}, "malformed"),
        ({"mcp-param-n": "9" * 5000}, {"o": {"n": 42}}, "match"),
        ({"mcp-param-n": ""}, {"o": {"n": 0}}, "match"),
        ({"mcp-param-n": "true"}, {"o": {"n": 1}}, "match"),
        ({"mcp-param-n": str(MAX_SAFE + 1)}, {"o": {"n": MAX_SAFE + 1}}, "beyond"),
        ({"mcp-param-b": "1"}, {"b": True}, "match"),
        ({"mcp-param-b": "True"}, {"b": True}, "match"),
        ({"mcp-param-b": "0"}, {"b": False}, "match"),
        ({"mcp-param-b": "false"}, {"b": True}, "match"),
    ],
)
def test_a_header_that_contradicts_its_argument_is_a_problem(
    headers: dict[str, str], arguments: dict[str, Any], words: str
) -> None:
    """One sentence with the header's name and the argument's path, and neither value."""
    problem = check_params(PLAN, headers, arguments)
    assert problem is not None
    assert words in problem
    assert "Mcp-Param-" in problem
    assert "$." in problem or "malformed" in problem
    assert "secret" not in problem
    assert "hidden" not in problem


@pytest.mark.parametrize("header", ["42", "42.0", "42.000", " 42 ", "=?base64?NDI=?=", "042"])
@pytest.mark.parametrize("value", [42, 42.0])
def test_integers_are_compared_as_numbers(header: str, value: float) -> None:
    """``42.0`` and ``42`` are one JSON integer."""
    assert check_params(PLAN, {"mcp-param-n": header}, {"o": {"n": value}}) is None


@pytest.mark.parametrize(
    ("header", "agrees"), [("1.5", True), ("1.50", True), ("15e-1", True), ("1.6", False), ("x", False)]
)
def test_a_fraction_is_left_to_argument_validation(header: str, agrees: bool) -> None:
    """The official client mirrors it, ours does not; the call must get the tool's own complaint, not ours."""
    problem = check_params(PLAN, {"mcp-param-n": header}, {"o": {"n": 1.5}})
    assert (problem is None) == agrees
    assert check_params(PLAN, {}, {"o": {"n": 1.5}}) is None


def test_a_header_outside_the_plan_is_ignored() -> None:
    """An intermediary forwards unknown ones, so they arrive."""
    assert check_params(PLAN, {"mcp-param-other": "x", "mcp-name": "y"}, {}) is None


def test_a_string_with_a_lone_surrogate_matches_what_its_client_sent() -> None:
    """Body and header replace it alike."""
    assert check_params(PLAN, {"mcp-param-s": encode_header_value("a\ud800")}, {"s": "a\ud800"}) is None
    assert check_params(PLAN, {"mcp-param-s": encode_header_value("a\ud800")}, {"s": "a\ufffd"}) is None


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("encoded", [False, True])
def test_a_boolean_is_compared_by_its_text(value: bool, encoded: bool) -> None:
    """What was received is a text of its own, never the constant of the library."""
    text = b"true".decode() if value else b"false".decode()
    header = f"=?base64?{b64encode(text.encode()).decode()}?=" if encoded else text
    assert check_params(PLAN, {"mcp-param-b": header}, {"b": value}) is None
    assert check_params(PLAN, {"mcp-param-b": header}, {"b": not value}) is not None
