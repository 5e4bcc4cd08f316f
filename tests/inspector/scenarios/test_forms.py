"""Forms from JSON schemas: the controls of each schema, the values read from them, and schemas without a form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.inspector.conftest import Watched

READ = """async ([schema, initial, fill]) => {
  const { schemaForm } = await import("/form.js");
  const form = schemaForm(schema, initial);
  const work = document.createElement("div");
  work.append(form.element);
  for (const [at, value] of Object.entries(fill)) {
    const control = work.querySelectorAll("input, select, textarea")[Number(at)];
    if (typeof value === "boolean") control.checked = value;
    else control.value = value;
    control.dispatchEvent(new Event("input"));
    control.dispatchEvent(new Event("change"));
  }
  const kinds = [...work.querySelectorAll("input, select, textarea")].map((each) => each.type);
  const { value, problems } = form.read();
  return { text: JSON.stringify(value), problems, kinds };
}"""


def read(opened: Watched, schema: Any, initial: Any = None, **fill: Any) -> Any:
    """Make a form, fill in its controls by their number, and read it."""
    by_number = {name.removeprefix("c"): value for name, value in fill.items()}
    found = opened.page.evaluate(READ, [schema, initial or {}, by_number])
    return {**found, "value": json.loads(found["text"]) if "text" in found else None}


def one(schema: Any, *, required: bool = True) -> dict[str, Any]:
    """An object with one property."""
    return {"type": "object", "properties": {"x": schema}, "required": ["x"] if required else []}


@pytest.mark.parametrize(
    ("schema", "required", "fill", "expected"),
    [
        ({"type": "string"}, True, {"c0": "a"}, {"x": "a"}),
        ({"type": "string"}, False, {}, {}),
        ({"type": "integer"}, True, {"c0": " 7 "}, {"x": 7}),
        ({"type": "number"}, True, {"c0": "-1e3"}, {"x": -1000}),
        ({"type": "boolean"}, True, {"c0": True}, {"x": True}),
        ({"type": "boolean"}, True, {}, {"x": False}),
        ({"type": "boolean"}, False, {}, {}),
        ({"type": "boolean"}, False, {"c0": "1"}, {"x": False}),
        ({"type": "boolean", "default": True}, False, {}, {"x": True}),
        ({"enum": [1, "1", None, True]}, True, {"c0": "1"}, {"x": "1"}),
        ({"enum": [1, "1", None, True]}, True, {"c0": "2"}, {"x": None}),
        ({"const": "only"}, True, {}, {"x": "only"}),
        ({"oneOf": [{"const": 1, "title": "One"}, {"const": 2}]}, True, {"c0": "1"}, {"x": 2}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, True, {}, {"x": None}),
        ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, False, {"c0": "t"}, {"x": "t"}),
        ({"type": ["integer", "null"]}, False, {"c0": "3"}, {"x": 3}),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, True, {"c0": "1", "c1": "s"}, {"x": "s"}),
        ({"type": "array", "items": {"type": "integer"}}, True, {"c0": "4"}, {"x": [4]}),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, True, {"c1": True}, {"x": ["b"]}),
        ({"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}}, True, {"c0": True}, {"x": ["a"]}),
        ({"type": "object", "properties": {"y": {"type": "string"}}}, False, {}, {}),
        (
            {"type": "object", "properties": {"y": {"type": "string"}}},
            False,
            {"c0": True, "c1": "z"},
            {"x": {"y": "z"}},
        ),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, True, {"c0": '{"k": 1}'}, {"x": {"k": 1}}),
        ({}, True, {"c0": "[1, null]"}, {"x": [1, None]}),
        ({"$ref": "#/nowhere"}, True, {"c0": "5"}, {"x": 5}),
        ({"allOf": [{"type": "integer"}]}, True, {"c0": "5"}, {"x": 5}),
        ({"type": "string", "format": "date"}, True, {"c0": "2026-07-28"}, {"x": "2026-07-28"}),
        (
            {"type": "string", "format": "date-time"},
            True,
            {"c0": "2026-07-28T10:00", "c1": "Europe/Berlin"},
            {"x": "2026-07-28T10:00:00+02:00"},
        ),
        (
            {"type": "string", "format": "date-time"},
            True,
            {"c0": "2026-01-28T10:00:05", "c1": "Europe/Berlin"},
            {"x": "2026-01-28T10:00:05+01:00"},
        ),
        (
            {"type": "string", "format": "date-time"},
            True,
            {"c0": "2026-03-29T03:30", "c1": "Europe/Berlin"},
            {"x": "2026-03-29T03:30:00+02:00"},
        ),
        (
            {"type": "string", "format": "date-time"},
            False,
            {"c0": "2026-07-28T10:00", "c1": "UTC"},
            {"x": "2026-07-28T10:00:00Z"},
        ),
        ({"type": "string", "format": "time"}, True, {"c0": "10:00", "c1": "+05:30"}, {"x": "10:00:00+05:30"}),
        ({"type": "string", "format": "date-time"}, False, {}, {}),
        ({"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]}, True, {}, {"x": None}),
    ],
    ids=range(34),
)
def test_a_schema_is_a_form(opened: Watched, schema: Any, required: bool, fill: Any, expected: Any) -> None:
    """Each control returns its value with the type of the schema."""
    found = read(opened, one(schema, required=required), **fill)
    assert (found["value"], found["problems"]) == (expected, [])


@pytest.mark.parametrize(
    ("schema", "fill"),
    [
        ({"type": "string"}, {}),
        ({"type": "string", "minLength": 3}, {"c0": "ab"}),
        ({"type": "string", "maxLength": 1}, {"c0": "ab"}),
        ({"type": "integer"}, {"c0": "1.5"}),
        ({"type": "integer"}, {"c0": "x"}),
        ({"type": "number", "minimum": 2}, {"c0": "1"}),
        ({"type": "number", "maximum": 2}, {"c0": "3"}),
        ({"enum": ["a", "b"]}, {}),
        ({"type": "object"}, {"c0": "{"}),
        ({"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1}, {}),
        ({"type": "string", "format": "date-time"}, {}),
        ({"type": "string", "format": "date-time"}, {"c0": "2026-07-28T10:00", "c1": "Nowhere/At-all"}),
        ({"type": "integer"}, {"c0": "12345678901234567890.5"}),
    ],
    ids=range(13),
)
def test_a_wrong_value_is_a_problem(opened: Watched, schema: Any, fill: Any) -> None:
    """It is shown before anything is sent."""
    assert len(read(opened, one(schema), **fill)["problems"]) == 1


def test_references_are_followed_within_the_schema(opened: Watched) -> None:
    """Escapes in the pointer, and words beside the reference."""
    schema = one({"$ref": "#/$defs/a~1b", "title": "T"}) | {"$defs": {"a/b": {"type": "integer"}}}
    assert read(opened, schema, c0="3")["value"] == {"x": 3}


@pytest.mark.parametrize("required", [True, False])
def test_a_schema_without_end_ends_in_json(opened: Watched, required: bool) -> None:
    """Ten references to itself are ten to the eighth fields: hostile, or just a tree."""
    names = [f"p{number}" for number in range(10)]
    node = {
        "type": "object",
        "properties": {name: {"$ref": "#/$defs/n"} for name in names},
        "required": names if required else [],
    }
    found = read(opened, {**node, "$defs": {"n": node}})
    assert len(found["kinds"]) < 2000


@pytest.mark.parametrize(
    "schema", [None, True, [], "x", {"type": "object", "properties": {"x": True, "y": None}}], ids=str
)
def test_a_malformed_schema_is_no_exception(opened: Watched, schema: Any) -> None:
    """Servers send anything."""
    assert isinstance(read(opened, schema)["problems"], list)


def test_values_that_are_there_are_shown(opened: Watched) -> None:
    """A call that is repeated in the other view begins with its arguments."""
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string", "default": "d"},
            "list": {"type": "array", "items": {"type": "number"}},
            "inner": {"type": "object", "properties": {"flag": {"type": "boolean"}}},
            "any": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
    }
    value = {"text": "", "list": [1, 2.5], "inner": {"flag": True}, "any": 4}
    found = read(opened, schema, value)["value"]
    assert found["list"] == [1, 2.5]
    assert found["inner"] == {"flag": True}
    assert found["any"] == 4


DEEP: Any = {"$ref": "#/properties/x"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": 5},
        {"type": "object", "properties": "abc", "required": 7},
        one({"title": {"toString": 1, "valueOf": 1}, "type": "string"}),
        one({"enum": [{"toString": 1, "valueOf": 1}]}),
        one({"type": "array", "items": {"enum": ["a"]}, "default": 5}),
        one({"type": "array", "items": {"enum": ["a"]}, "default": {"includes": 1}}),
        {"type": "object", "required": 5, "properties": {"x": {"type": "string"}}},
        {"type": "object", "properties": {f"p{at}": {"type": "string"} for at in range(20_000)}},
        one({"anyOf": [{"type": "string", "title": str(at)} for at in range(20_000)]}),
        one({"enum": [str(at) for at in range(200_000)]}),
        one({"type": "array", "items": {"type": "string"}, "default": ["x"] * 50_000}),
        one({"type": "array", "uniqueItems": True, "items": {"enum": [str(at) for at in range(50_000)]}}),
        one(DEEP),
        one({"type": "object", "properties": {"a": DEEP, "b": DEEP, "c": DEEP, "d": DEEP}}),
        one({"allOf": [{"allOf": [{"$ref": "#"}]}]}),
        one({"type": "string", "pattern": "(a+)+$", "minLength": "x"}),
        one({"$ref": "#/__proto__/toString"}),
    ],
)
def test_no_schema_is_too_strange_or_too_large(opened: Watched, schema: Any) -> None:
    """A question of the server opens by itself: one that threw, or took a minute, would take the page with it."""
    with_count = READ.replace("return { text", "return { count: work.querySelectorAll('*').length, text")
    found = opened.page.evaluate(with_count, [schema, {}, {}])
    assert 0 < found["count"] < 10_000


def test_names_of_javascript_are_names(opened: Watched) -> None:
    """An inherited property is not the value of a field, and a field named ``__proto__`` changes no prototype."""
    names = ["__proto__", "constructor", "toString", "hasOwnProperty"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names}}
    # Over JSON, as the page gets it: a literal would set the prototype already in the test.
    script = READ.replace("const { schemaForm }", "schema = JSON.parse(schema); const { schemaForm }")
    found = opened.page.evaluate(script, [json.dumps(schema), {}, {}])
    assert found["text"] == "{}"
    found = opened.page.evaluate(script, [json.dumps(schema), {}, {"0": "1", "1": "2", "2": "3", "3": "4"}])
    assert json.loads(found["text"]) == dict(zip(names, [1, 2, 3, 4], strict=True))
    assert opened.page.evaluate("({}).polluted") is None


# -- numbers -----------------------------------------------------------------------------------------------------------

ODD_NUMBERS = [
    "1.0",
    "1",
    "9007199254740993",
    "1e400",
    "-0",
    "0.10000000000000000555",
    "1E2",
    "0.10",
    "12345678901234567890",
]


@pytest.mark.parametrize("text", ODD_NUMBERS)
def test_a_number_is_sent_as_it_was_typed(opened: Watched, text: str) -> None:
    """JavaScript would make another number of it, or another text."""
    assert read(opened, one({"type": "number"}), c0=text)["text"] == f'{{"x":{text}}}'


@pytest.mark.parametrize(
    "text",
    [*ODD_NUMBERS, "0.00000012", "-0.0000001", "1234567.1234567891", "123456789012345.67", "1e-7", "5e-324", "0e0"],
)
def test_a_number_of_a_server_is_shown_as_it_was_written(opened: Watched, text: str) -> None:
    """Whatever JavaScript would write in its place."""
    script = "async text => { const { parseExact } = await import('/exact.js'); return String(parseExact(text)[0].x); }"
    assert opened.page.evaluate(script, f'[{{"x":{text}}}]') == text


def test_text_that_is_no_number_yet_stays_in_its_field(opened: Watched) -> None:
    """As it was typed before another tool was chosen."""
    found = read(opened, one({"type": "number"}), {"x": "12 or so"})
    assert (found["kinds"], found["problems"]) == (["text"], ["x: A number is needed here."])


@pytest.mark.parametrize(("typed", "sent"), [("+5", "5"), (".5", "0.5"), ("007", "7")])
def test_what_is_no_number_of_json_is_sent_as_one(opened: Watched, typed: str, sent: str) -> None:
    """It is plain what was meant."""
    assert read(opened, one({"type": "number"}), c0=typed)["text"] == f'{{"x":{sent}}}'


def test_numbers_keep_their_text_through_json_and_back(opened: Watched) -> None:
    """Also where they stand deep in a value, and beside names that JavaScript knows."""
    text = '{"a":[1.0,{"__proto__":1e400}],"b":"1.0","c":9007199254740993,"d":-0,"e":1.5}'
    script = (
        "async text => { const { parseExact } = await import('/exact.js'); return JSON.stringify(parseExact(text)); }"
    )
    assert opened.page.evaluate(script, text) == text


# -- unions ------------------------------------------------------------------------------------------------------------

NAMES = """async ([schema, initial]) => {
  const { schemaForm } = await import("/form.js");
  const form = schemaForm(schema, initial);
  const selects = [...form.element.querySelectorAll("select")];
  return [selects.map((select) => [...select.options].map((each) => each.text)), JSON.stringify(form.peek())];
}"""
CAT = {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]}
DOG = {"type": "object", "properties": {"kind": {"const": "dog", "default": "dog"}, "tricks": {"type": "string"}}}


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ([CAT, DOG], ["cat", "dog"]),
        ([{**CAT, "title": "A cat"}, {**DOG, "title": "A dog"}], ["A cat", "A dog"]),
        ([{**CAT, "title": "Pet"}, {**DOG, "title": "Pet"}], ["Pet (cat)", "Pet (dog)"]),
        ([CAT, DOG, {"type": "null"}], ["none", "cat", "dog"]),
        ([{"anyOf": [CAT, {"type": "null"}]}, DOG], ["none", "cat", "dog"]),
        ([{"type": "string"}, {"type": "integer"}, {"type": "boolean"}], ["text", "whole number", "true or false"]),
        ([{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"title": "Dog"}}],
         ["list of integer", "list of Dog"]),
        ([{"type": "object", "properties": {"a": {}, "b": {}}}, {"type": "object"}], ["object with a, b", "object"]),
        ([{"const": 1}, {"enum": ["a", "b"]}], ["1", "one of a, b"]),
        ([{"type": "string", "format": "date"}, *2 * [{"type": "string"}]], ["text (date)", "text", "text 2"]),
    ],
    ids=range(10),
)  # fmt: skip
def test_the_branches_of_a_union_have_names(opened: Watched, options: list[Any], names: list[str]) -> None:
    """The title, the value that tells them apart, or what they are."""
    found, _ = opened.page.evaluate(NAMES, [one({"anyOf": options}), {}])
    assert found[0] == names


def test_the_branch_of_a_value_is_chosen(opened: Watched) -> None:
    """By the property that tells the branches apart, or by what fits; nested ones too."""
    nested = {"title": "Pets", "anyOf": [CAT, DOG]}
    schema = one({"anyOf": [nested, {"type": "integer"}, {"type": "null"}]})
    for value in ({"kind": "dog", "tricks": "sit"}, {"kind": "cat", "lives": 9}, 5, None):
        assert json.loads(opened.page.evaluate(NAMES, [schema, {"x": value}])[1]) == {"x": value}


def test_what_tells_branches_apart_is_always_sent(opened: Watched) -> None:
    """Also where the schema has it as optional: the server could not tell which branch is meant."""
    plain_dog = {"type": "object", "properties": {"kind": {"const": "dog"}}}
    found = read(opened, one({"oneOf": [CAT, plain_dog]}), c0="1")
    assert (found["value"], found["problems"]) == ({"x": {"kind": "dog"}}, [])


# -- the form and its JSON --------------------------------------------------------------------------------------------

THERE_AND_BACK = """async ([schema, text]) => {
  const { schemaForm } = await import("/form.js");
  const { parseExact } = await import("/exact.js");
  const form = schemaForm(schema, parseExact(text));
  const first = JSON.stringify(form.read().value);
  form.showJson(true);
  form.showJson(false);
  return [first, JSON.stringify(form.read().value), form.read().problems];
}"""
EVERYTHING = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "list": {"type": "array", "items": {"type": "string"}},
        "set": {"type": "array", "items": {"enum": ["a", "b"]}},
        "inner": {"type": "object", "properties": {"deep": {"type": "integer"}}},
        "pet": {"anyOf": [CAT, DOG]},
        "when": {"type": "string", "format": "date-time"},
        "choice": {"enum": ["x", "y"]},
        "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}


@pytest.mark.parametrize(
    "value",
    [
        "{}",
        '{"text":"","number":1.0,"flag":false,"list":[],"set":[],"inner":{},"choice":"y"}',
        '{"text":5,"number":"5","flag":null,"list":{},"set":["b","a"],"inner":[],"pet":7,"when":"soon","choice":"z"}',
        '{"inner":{"deep":1e400,"other":[1.0]},"more":{"__proto__":2}}',
        '{"pet":{"kind":"dog","tricks":"sit","age":3},"when":"2026-07-28T10:00:00.123456789-03:00","maybe":null}',
        '{"list":["a",5],"set":["a","q"],"text":"two\\nlines","maybe":""}',
    ],
    ids=range(6),
)
def test_nothing_is_lost_between_form_and_json(opened: Watched, value: str) -> None:
    """What does not fit its control is a field of JSON; members that the schema does not know are sent, too."""
    first, second, problems = opened.page.evaluate(THERE_AND_BACK, [EVERYTHING, value])
    assert (json.loads(first), problems) == (json.loads(value), [])
    assert second == first
    assert ("1.0" in value, "1e400" in value) == ("1.0" in first, "1e400" in first)


def test_text_that_is_no_json_stays_in_the_editor(opened: Watched) -> None:
    """A form could not hold it."""
    script = """async () => {
      const { schemaForm } = await import("/form.js");
      const form = schemaForm({type: "object", properties: {a: {type: "integer"}}}, {a: 1});
      form.showJson(true);
      const area = form.element.querySelector("textarea");
      area.value = '{"a": 1,\\n "b": }';
      return [form.showJson(false), form.isJson, form.read().problems[0], area.value];
    }"""
    is_shown, is_json, problem, text = opened.page.evaluate(script)
    assert (is_shown, is_json, text) == (True, True, '{"a": 1,\n "b": }')
    assert problem == "No JSON, line 2, column 7: a value is expected here."


@pytest.mark.parametrize(
    ("text", "path", "line"),
    [
        ('{\n "a": 1,\n "b": {\n  "c": [1,\n   2]}}', ["b", "c", 1], 5),
        ('{\n "a": "}\\"",\n "b": 2}', ["b"], 3),
        ('{\n "a\\u0062": 2}', ["ab"], 2),
        ("{\n}", ["missing"], 1),
        ("[\n" * 400 + "]" * 400, [0] * 399, 400),
        ("{", ["a", "b"], 1),
        ("", [], 1),
    ],
    ids=range(7),
)
def test_the_line_of_a_path_is_found(opened: Watched, text: str, path: list[Any], line: int) -> None:
    """In any JSON, and in text that is none any more."""
    script = "async ([text, path]) => (await import('/jsontext.js')).lineOfPath(text, path)"
    assert opened.page.evaluate(script, [text, path]) == line


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1,}', (1, 9, "a name in double quotes")),
        ('{"a" 1}', (1, 6, "a colon")),
        ("{\n  a: 1}", (2, 3, "a name in double quotes or }")),
        ("[1 2]", (1, 4, "a comma or ]")),
        ("[1,\n]", (2, 1, "a value")),
        ('{"a": 01}', (1, 7, "a value")),
        ('{"a": NaN}', (1, 7, "a value")),
        ('{"a": "x\n"}', (1, 7, "this text has no end")),
        ('{"a": "\\q"}', (1, 7, "this text has no end")),
        ("{} {}", (1, 4, "nothing more")),
        ('{"a": [', (1, 8, "the text ends too early")),
        ("[}", (1, 2, "a value or ]")),
        ("", (1, 1, "the text ends too early")),
        ('{"a": [1.5e3, -0, true, null, {}, [], "\\u00e9\\n"]}', None),
    ],
    ids=range(14),
)
def test_the_first_error_of_a_text_is_found(opened: Watched, text: str, place: Any) -> None:
    """With its line and column, in the same words in every browser."""
    script = """async (text) => {
      let isJson = true;
      try { JSON.parse(text); } catch { isJson = false; }
      return [isJson, (await import("/jsontext.js")).firstError(text)];
    }"""
    is_json, found = opened.page.evaluate(script, text)
    assert is_json == (place is None)
    if place is None:
        assert found is None
    else:
        assert (found["line"], found["column"]) == place[:2]
        assert found["text"].startswith(place[2])


def test_characters_that_are_not_seen_are_seen_in_controls(opened: Watched) -> None:
    """JSON has escapes for them; beside a text they are written out. What is sent is the same."""
    script = """async () => {
      const { schemaForm } = await import("/form.js");
      const value = {label: "a\\u202eb\\u{e0041}", json: {"k\\u200b": "\\u2066"}};
      const form = schemaForm({type: "object", properties: {label: {type: "string"}, json: {}}}, value);
      const [text, json] = [form.element.querySelector("input"), form.element.querySelector("textarea")];
      const before = [text.value, json.value, form.element.querySelector(".tricky").textContent];
      const sent = JSON.stringify(form.read().value) === JSON.stringify(value);
      form.showJson(true);
      const shown = form.element.querySelector("textarea.editor").value;
      return [before, sent, shown, JSON.stringify(form.read().value) === JSON.stringify(value)];
    }"""
    (text, inner, note), is_sent, shown, is_same = opened.page.evaluate(script)
    assert text == "a\u202eb\U000e0041"
    assert inner == '{\n  "k\\u200b": "\\u2066"\n}'
    assert "U+202E" in note
    assert "\\u202e" in shown
    assert "\\udb40\\udc41" in shown
    assert (is_sent, is_same) == (True, True)
