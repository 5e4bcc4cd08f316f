"""Descriptions from docstrings in the three styles."""

from __future__ import annotations

import pytest

from ferrule.app.signatures.docstrings import Doc, parse, summary

GOOGLE = """Find things.

    In two paragraphs.

    Args:
        city: where, on
            two lines.
        days (int, optional): how many. Defaults to 3.

    Returns:
        str: nothing.
    """
NUMPY = """Find things.

    In two paragraphs.

    Parameters
    ----------
    city : str
        where, on
        two lines.
    days : int, optional
        how many. Defaults to 3.

    Returns
    -------
    str
    """
SPHINX = """Find things.

    In two paragraphs.

    :param city: where, on
        two lines.
    :param int days: how many. Defaults to 3.
    :returns: nothing.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_each_style_gives_the_same_reading(text):
    """Authors can keep the docstring style of their project."""
    doc = parse(text)
    assert doc.description == "Find things.\n\nIn two paragraphs."
    assert doc.parameters == {"city": "where, on two lines.", "days": "how many. Defaults to 3."}


def test_text_without_sections_is_the_description_as_it_stands():
    """A colon or a list in prose is not a section."""
    text = "Convert: a to b.\n\n- one\n- two\n\nNote: not a section."
    assert parse(text) == Doc(text)


@pytest.mark.parametrize("text", [None, "", "  \n "])
def test_an_empty_docstring_has_no_description(text):
    """No empty description is published."""
    assert parse(text) == Doc()


def test_a_docstring_that_starts_with_a_section_has_no_description():
    """The section's text is not a description."""
    doc = parse("\n    Args:\n        a: b\n    ")
    assert doc == Doc(None, {"a": "b"})


def test_numpy_entries_may_name_several_parameters():
    """``x, y : int`` describes both."""
    assert parse("D.\n\nParameters\n----------\nx, y : int\n    both.\n").parameters == {"x": "both.", "y": "both."}


def test_the_summary_ends_before_returns_and_raises():
    """They speak to the caller of the function, not to a model."""
    assert summary("Do it.\n\nReturns:\n    x\n") == "Do it."
    assert summary("Do it.\n\n:raises ValueError: never\n") == "Do it."
