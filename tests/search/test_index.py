"""The ranking of tools: a word in the name counts more than one in the description."""

from __future__ import annotations

import gc
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from ferrule.search.index import MAX_QUERY_CHARS, MAX_QUERY_WORDS, IndexedTool, ToolIndex, words_of

LONG = "Create an issue, and an issue. Whoever creates an issue of a repository may create another issue later."


def index(*tools: str | IndexedTool) -> ToolIndex:
    return ToolIndex(tool if isinstance(tool, IndexedTool) else IndexedTool(name=tool) for tool in tools)


def test_the_name_that_says_it_all_comes_before_longer_ones() -> None:
    """More words in the name are another thing, whatever the description repeats."""
    made = index(
        IndexedTool(name="issues_create_comment", description=LONG),
        IndexedTool(name="orgs_create_issue_type", description=LONG),
        IndexedTool(name="issues_create", description="Any user with pull access can do this."),
    )
    assert made.search("create an issue")[0] == "issues_create"


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    made = index("get_order", "get_customer", "get_invoice", "get_item", "list_webhooks")
    assert made.search("get webhooks")[0] == "list_webhooks"


@pytest.mark.parametrize("query", ["make an order", "new order", "add orders", "createOrder", "ORDER_CREATE"])
def test_verbs_for_the_same_thing_and_other_forms_find_it(query: str) -> None:
    assert index("delete_order", "create_order", "list_items").search(query)[0] == "create_order"


def test_the_own_word_comes_before_one_that_means_the_same() -> None:
    made = index("add_order", "create_order")
    assert made.search("add order")[0] == "add_order"
    assert made.search("create order")[0] == "create_order"


def test_a_word_of_the_description_or_of_an_argument_finds_what_the_name_does_not_say() -> None:
    made = index(
        IndexedTool(name="a", description="Nothing.\n\nMentions invoices in the end."),
        IndexedTool(name="b", description="Sends invoices."),
        IndexedTool(name="c", arguments="invoice_id"),
        IndexedTool(name="d"),
    )
    assert made.search("invoice") == ["b", "c", "a"]


def test_the_beginning_of_a_word_finds_it() -> None:
    assert index("list_authentications", "list_items").search("authent")[0] == "list_authentications"


@pytest.mark.parametrize(
    "query",
    [
        "",
        "   ",
        "!!!",
        '"',
        "a* OR b",
        "NEAR(a b)",
        "name:x",
        "'; DROP TABLE heads",
        "\x00",
        "\ud800",
        "%",
        "x" * 10**6,
    ],
)
def test_no_query_is_an_error(query: str) -> None:
    """A query is text of a model, never an expression."""
    made = index("create_order", "name_x")
    for name in made.search(query):
        assert name in ("create_order", "name_x")


def test_a_query_is_read_up_to_its_bounds() -> None:
    made = index("create_order")
    filler = " ".join(f"word{number}" for number in range(MAX_QUERY_WORDS))
    assert made.search(f"{filler} order") == []
    assert made.search("zz " * (MAX_QUERY_CHARS // 3 + 1) + "order") == []


def test_only_words_that_say_nothing_are_looked_for_when_there_are_no_others() -> None:
    assert index("list_items", "of_it").search("of it") == ["of_it"]


def test_an_index_without_tools_finds_nothing() -> None:
    assert index().search("order") == []


def test_equally_good_tools_stand_in_a_stable_order() -> None:
    assert index("order_b", "order_a").search("order") == ["order_a", "order_b"]


def test_accents_and_case_do_not_matter() -> None:
    assert index("café_list", "tea_list").search("CAFE") == ["café_list"]


def test_words_of_joined_names_are_separated() -> None:
    assert words_of("createPullRequest pulls_create-review HTTPServer2") == (
        "create Pull Request pulls create review HTTP Server2"
    )


def test_several_threads_search_at_the_same_time() -> None:
    """Under WSGI each request has a thread of its own."""
    made = index(*(f"create_thing{number}" for number in range(200)))
    queries = [f"create thing{number}" for number in range(200)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(made.search, queries))
    assert [names[0] for names in found] == [f"create_thing{number}" for number in range(200)]


def test_an_index_that_is_not_used_any_more_closes_its_database() -> None:
    """A connection that is collected while it is open warns from Python 3.13 on."""
    made = index("create_thing")
    connection = made._connection  # pyright: ignore[reportPrivateUsage]
    made.itself = made  # type: ignore[attr-defined]  # a cycle, as those of servers are
    del made
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
