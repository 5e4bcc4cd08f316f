"""What was typed, what came back and what still runs is there again: after another tool, a reload, a changed source."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.inspector.conftest import Dev, Watched, developing, watching
from tests.inspector.scenarios.test_page import choose, expect, finished, go, press

SOURCE = '''
"""A server whose source changes."""

import anyio

from ferrule import Context, MCPServer

app = MCPServer("changing")


@app.tool
async def slow(ctx: Context, gate: str, steps: int = 1000) -> str:
    """Work until a file is there."""
    for step in range(steps):
        await ctx.progress(step, steps, f"VERSION step {step}")
        if await anyio.Path(gate).exists():
            return "VERSION is done"
        await anyio.sleep(0.05)
    return "VERSION gave up"


@app.tool
def sign_in(
    user: str,
    password: str = "",
    api_key: str = "",
) -> str:
    """Take secrets."""
    return f"VERSION {user} {len(password)} {len(api_key)}"
'''


@pytest.fixture
def page(browser: Any, dev: Dev) -> Iterator[Any]:
    """A page of its own."""
    with watching(browser, dev.url) as watched:
        watched.page.wait_for_selector(".item")
        yield watched.page


def test_another_tool_and_another_section_lose_nothing(watched: Watched) -> None:
    """Input that is not valid, a list, a choice, the result, and the mode of the form."""
    page = watched.page
    choose(page, "cut")
    page.locator("#view-tools").get_by_label("metal", exact=True).select_option(label="steel")
    page.get_by_label("length_mm", exact=True).fill("12 or so")
    press(page, "Add item to labels")
    page.keyboard.type("one")
    page.get_by_label("deburr", exact=True).uncheck()
    choose(page, "add")
    page.locator("#view-tools").get_by_label("a", exact=True).fill("40")
    page.locator("#view-tools").get_by_label("b", exact=True).fill("")
    press(page, "Call")
    assert "42" in finished(page)
    go(page, "Live")
    go(page, "Tools")
    assert page.locator("#view-tools").get_by_label("a", exact=True).input_value() == "40"
    choose(page, "cut")
    expect(page.locator("#view-tools").get_by_label("metal", exact=True).locator("option:checked")).to_have_text(
        "steel"
    )
    assert page.get_by_label("length_mm", exact=True).input_value() == "12 or so"
    assert page.locator("#view-tools .list-row input").input_value() == "one"
    assert not page.get_by_label("deburr", exact=True).is_checked()
    choose(page, "add")
    assert (
        page.locator("#view-tools").get_by_label("b", exact=True).input_value() == ""
    )  # not its default, which was removed
    assert "42" in finished(page)
    press(page, "Reset")
    assert page.locator("#view-tools").get_by_label("a", exact=True).input_value() == ""
    assert page.locator("#view-tools").get_by_label("b", exact=True).input_value() == "2"


def test_a_reload_loses_nothing(page: Any) -> None:
    """The tool, its arguments and its result; a form that is written as JSON; a prompt; a resource."""
    choose(page, "cut")
    page.get_by_label("metal", exact=True).select_option(label="steel")
    page.get_by_label("length_mm", exact=True).fill("7")
    press(page, "Call")
    assert "steel" in finished(page)
    page.get_by_label("length_mm", exact=True).fill("many")
    page.reload()
    expect(page.locator("#view-tools h2").last).to_have_text("cut")
    assert page.get_by_label("length_mm", exact=True).input_value() == "many"
    assert "steel" in finished(page)
    choose(page, "add")
    page.locator(".call").get_by_label("JSON").check()
    page.get_by_label("Arguments as JSON").fill('{"a": 5,\n "b": 6}')
    go(page, "Prompts")
    page.get_by_label("metal", exact=True).last.fill("tin")
    press(page, "Fill in")
    finished(page)
    go(page, "Resources")
    choose(page, "workshop://stock")
    page.locator("#view-resources .detail").get_by_role("button", name="Read").click()
    before = finished(page)
    page.reload()
    expect(page.locator("#tab-resources")).to_have_attribute("aria-selected", "true")
    assert finished(page) == before
    assert page.url.endswith(f"#resources/{quote('workshop://stock', safe='')}")
    go(page, "Prompts")
    assert page.get_by_label("metal", exact=True).last.input_value() == "tin"
    assert "of tin" in finished(page)
    go(page, "Tools")
    assert page.get_by_label("Arguments as JSON").input_value() == '{"a": 5,\n "b": 6}'
    press(page, "Call")
    assert "11" in finished(page)


def test_a_call_goes_on_while_one_is_elsewhere(page: Any, tmp_path: Path) -> None:
    """Its progress is there again after another tool and after a reload, and its result when it ends."""
    choose(page, "polish")
    page.get_by_label("passes", exact=True).fill("5000")
    press(page, "Call")
    page.get_by_text(re.compile("of 5000")).first.wait_for()
    choose(page, "add")
    assert page.locator("#view-tools .outcome[data-state=running]:visible").count() == 0
    choose(page, "polish")
    page.locator("#view-tools .outcome[data-state=running] progress:visible").wait_for()
    page.reload()
    page.locator("#view-tools .outcome[data-state=running] progress:visible").wait_for()
    press(page, "Cancel")
    page.locator("#view-tools .outcome[data-state=cancelled]").wait_for()


@pytest.fixture
def changing(tmp_path: Path) -> Iterator[tuple[Dev, Path]]:
    """An inspector of a file that the test changes."""
    source = tmp_path / "changing.py"
    source.write_text(SOURCE.replace("VERSION", "one"), encoding="utf-8")
    with developing(source) as running:
        yield running, source


def test_a_changed_source_ends_no_call(browser: Any, changing: tuple[Dev, Path], tmp_path: Path) -> None:
    """The old process finishes the call that runs; the next call is the new one's."""
    running, source = changing
    gate = tmp_path / "gate"
    with watching(browser, running.url) as watched:
        page = watched.page
        choose(page, "slow")
        page.get_by_label("gate", exact=True).fill(str(gate))
        press(page, "Call")
        page.get_by_text(re.compile("one step")).first.wait_for()
        source.write_text(SOURCE.replace("VERSION", "two"), encoding="utf-8")
        go(page, "Live")
        page.locator(".log", has_text="started again").wait_for()
        go(page, "Tools")
        expect(page.locator("#connection")).to_contain_text("connected")
        choose(page, "sign_in")
        page.get_by_label("user", exact=True).fill("ada")
        press(page, "Call")
        assert "two ada" in finished(page)
        choose(page, "slow")
        assert page.get_by_label("gate", exact=True).input_value() == str(gate)
        page.locator("#view-tools .outcome[data-state=running]").wait_for()
        gate.write_text("", encoding="utf-8")
        assert "one is done" in finished(page)
        press(page, "Call")
        expect(page.locator("#view-tools .job-outcome")).to_contain_text("two is done")


def test_secrets_are_in_memory_only(browser: Any, changing: tuple[Dev, Path]) -> None:
    """Neither in the storage of the tab nor in a link; they survive another tool, and not a reload."""
    running, _ = changing
    with watching(browser, running.url) as watched:
        page = watched.page
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        choose(page, "sign_in")
        page.get_by_label("user", exact=True).fill("ada")
        page.get_by_label("password", exact=True).fill("hush-hush")
        page.get_by_label("api_key", exact=True).fill("quiet-quiet")
        press(page, "Call")
        assert "ada 9 11" in finished(page)
        choose(page, "slow")
        choose(page, "sign_in")
        assert page.get_by_label("password", exact=True).input_value() == "hush-hush"
        press(page, "Copy link")
        page.get_by_text("Link copied, without the secrets").wait_for()
        link = page.evaluate("navigator.clipboard.readText()")
        stored = page.evaluate("JSON.stringify([{...sessionStorage}, {...localStorage}])")
        for text in (link, stored, page.url, page.locator(".history").inner_text()):
            assert "hush" not in text
            assert "quiet" not in text
        assert "ada" in link
        assert "ada" in stored
        page.reload()
        expect(page.get_by_label("user", exact=True)).to_have_value("ada")
        assert page.get_by_label("password", exact=True).input_value() == ""


def test_what_is_stored_is_bounded(watched: Watched) -> None:
    """A long text remains in memory; a full storage is no error."""
    page = watched.page
    kept = page.evaluate(
        """async () => {
          const drafts = await import("/drafts.js");
          const { schemaForm } = await import("/form.js");
          const schema = { type: "object", properties: { text: { type: "string" } } };
          const make = (place, length) => {
            const form = schemaForm(schema, {});
            document.body.append(form.element);
            const draft = drafts.followDraft(place, form, { schema });
            const control = form.element.querySelector("textarea, input");
            control.value = "x".repeat(length);
            draft.take();
            form.element.remove();
          };
          make("tools/long", 200000);
          const one = drafts.draftOf("tools/long").text.length;
          for (let at = 0; at < 40; at++) make(`tools/t${at}`, 30000);
          const text = sessionStorage.getItem("ferrule-drafts ");
          const has = (place) => text.includes(`"${place}"`);
          drafts.dropAllDrafts();
          return { one, size: text.length, ends: [has("tools/t0"), has("tools/t39")], long: has("tools/long") };
        }"""
    )
    assert kept["one"] == 200_000
    assert kept["size"] < 600_000
    assert kept["ends"] == [False, True]
    assert not kept["long"]


@pytest.mark.parametrize(
    ("schema", "value", "kept"),
    [
        ({"properties": {"a": {"format": "password"}, "b": {}}}, {"a": "x", "b": "y"}, {"b": "y"}),
        ({"properties": {"a": {"writeOnly": True, "type": "object"}}}, {"a": {"b": 1}}, {}),
        ({"properties": {"a": {"$ref": "#/$defs/S"}}, "$defs": {"S": {"format": "password"}}}, {"a": "x"}, {}),
        ({"properties": {"a": {"anyOf": [{"format": "password"}, {"type": "null"}]}}}, {"a": "x"}, {}),
        ({"properties": {"a": {"items": {"format": "password"}}}}, {"a": ["x", "y"]}, {"a": []}),
        (
            {"properties": {"a": {"properties": {"dbPassword": {}}}}},
            {"a": {"dbPassword": "x", "n": 1}},
            {"a": {"n": 1}},
        ),
        ({}, {"page_token": "x", "apiKey": "y", "cookie": ""}, {"page_token": "x", "cookie": ""}),
        ({"$ref": "#"}, {"a": 1}, {"a": 1}),
        (None, {"a": 1}, {"a": 1}),
    ],
)
def test_what_counts_as_a_secret(watched: Watched, schema: Any, value: Any, kept: Any) -> None:
    """Marks of the schema at any depth, and names; a schema that refers to itself ends."""
    script = "([value, schema]) => import('/secrets.js').then((made) => made.withoutSecrets(value, schema))"
    assert watched.page.evaluate(script, [value, schema]) == kept


CALLS = """async () => {
  const { state } = await import("/store.js");
  return [...state.jobs.values()].filter((job) => job.op === "call").length;
}"""


def _kept(dev: Dev) -> Iterator[dict[str, Any]]:
    for event in dev.events():
        if event["kind"] == "caught_up":
            return
        yield event


# -- links ------------------------------------------------------------------------------------------------------------


def test_a_link_fills_in_and_calls_nothing(browser: Any, dev: Dev) -> None:
    """Opened in a tab that has the token, and in one that has not yet: pasting the address there keeps the link."""
    link = f"#tools/cut?args={quote(json.dumps({'metal': 'bronze', 'length_mm': 3.5, 'labels': ['a', 'b']}))}"
    with watching(browser, dev.url.partition("?")[0] + link) as watched:
        page = watched.page
        calls = sum(event["kind"] == "job" and event["op"] == "call" for event in _kept(dev))
        page.get_by_label("Or paste it here").fill(dev.url)
        page.keyboard.press("Control+Enter")
        page.get_by_text("Filled in from a link. Nothing was called.").wait_for()
        expect(page.get_by_label("metal", exact=True).locator("option:checked")).to_have_text("bronze")
        assert page.get_by_label("length_mm", exact=True).input_value() == "3.5"
        assert page.locator("#view-tools .list-row input").count() == 2
        assert page.url.endswith("#tools/cut")
        assert page.evaluate(CALLS) == calls
        page.evaluate(f"location.hash = '#tools/add?args={quote(json.dumps({'a': 1}))}'")
        expect(page.get_by_label("a", exact=True)).to_have_value("1")
        page.get_by_role("button", name="Close").first.click()
        choose(page, "cut")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        press(page, "Copy link")
        page.get_by_text("Link copied").wait_for()
        copied = page.evaluate("navigator.clipboard.readText()")
        assert "token" not in copied
        page.goto("about:blank")
        page.goto(copied)
        expect(page.get_by_label("length_mm", exact=True)).to_have_value("3.5")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("#tools/add?args=" + quote(json.dumps({"a": "x" * 20_000})), "longer than 16384 characters"),
        ("#tools/add?args=%5B1%5D", "are no JSON object"),
        ("#tools/add?args={", "are no JSON object"),
        ("#tools/%E0%A4%A", "malformed"),
    ],
)
def test_a_link_that_cannot_be_taken_says_so(watched: Watched, link: str, words: str) -> None:
    """The form remains as it was."""
    page = watched.page
    choose(page, "add")
    page.get_by_label("a", exact=True).fill("8")
    page.evaluate("(link) => { location.hash = link; }", link)
    page.locator("#from-link", has_text=words).wait_for()
    choose(page, "add")
    assert page.get_by_label("a", exact=True).input_value() == "8"
    page.locator("#from-link").get_by_role("button", name="Close").click()


def test_hostile_arguments_of_a_link_are_values(watched: Watched) -> None:
    """No prototype is changed, nothing is run, and an unknown name is left out."""
    page = watched.page
    bad = "<img src=x onerror=window.pwned=1>"
    args = f'{{"__proto__": {{"polluted": 1}}, "constructor": {{"prototype": {{"polluted": 2}}}}, "why": "{bad}"}}'
    page.evaluate("(link) => { location.hash = link; }", f"#tools/fails?args={quote(args)}")
    expect(page.get_by_label("why", exact=True)).to_have_value(bad)
    assert page.evaluate("[({}).polluted, window.pwned]") == [None, None]
    page.locator("#from-link").get_by_role("button", name="Close").click()


def test_control_enter_runs_the_form_one_is_at(watched: Watched) -> None:
    """In a prompt, in a resource without a form, and in a request."""
    page = watched.page
    go(page, "Prompts")
    page.get_by_label("metal", exact=True).last.fill("lead")
    page.keyboard.press("Control+Enter")
    assert "of lead" in finished(page)
    go(page, "Resources")
    choose(page, "workshop://stock")
    page.keyboard.press("Control+Enter")
    assert "brass" in finished(page)
    go(page, "Server")
    page.get_by_label("Method").fill("ping/nothing")
    page.get_by_label("Params as JSON").fill("{}")
    page.keyboard.press("Control+Enter")
    page.locator("#view-server .outcome[data-state=failed]").wait_for()
