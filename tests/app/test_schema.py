"""The published schemas: stored, checked by the profile's rules, and valid 2020-12."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema_rs
import pytest

from ferrule.app.profile import schema_problems
from ferrule.app.signature import compile_function
from tests.app.forty_functions import FUNCTIONS

SNAPSHOTS = Path(__file__).with_name("snapshots")


@pytest.mark.parametrize("mode", ["model", "exact"])
def test_the_schemas_of_forty_functions_are_the_stored_ones(mode):
    """A schema that changes is a change for every model that reads it; FERRULE_UPDATE=1 stores the new ones."""
    schemas = {function.__name__: compile_function(function).input_schema(mode) for function in FUNCTIONS}
    assert len(schemas) == 40
    path = SNAPSHOTS / f"forty_{mode}.json"
    text = json.dumps(schemas, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("FERRULE_UPDATE"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_every_schema_follows_the_profile_and_is_valid(function):
    """Cases 21, D27, D28: one schema that a model API refuses costs its user all tools."""
    schema = compile_function(function).input_schema()
    assert schema_problems(schema) == []
    jsonschema_rs.meta.validate(schema)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_the_exact_schema_is_valid_too(function):
    """Turning the profile off must not publish something that no validator accepts."""
    schema = compile_function(function).input_schema("exact")
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema)  # no dangling reference


def test_reading_a_schema_twice_gives_equal_and_independent_results():
    """The memo of shared leaves must not leak one function's description into another's."""

    def first(a: str): ...

    def second(a: str): ...

    one = compile_function(first).input_schema()
    one["properties"]["a"]["description"] = "mine"
    assert compile_function(second).input_schema()["properties"]["a"] == {"type": "string"}


def test_a_parameters_description_comes_from_the_annotation_before_the_docstring():
    """The annotation stands at the parameter and is more particular."""
    from typing import Annotated

    from ferrule import Field

    def function(a: Annotated[int, Field("from the annotation")], b: int):
        """Do.

        Args:
            a: from the docstring
            b: also from the docstring
        """

    properties = compile_function(function).input_schema()["properties"]
    assert properties["a"]["description"] == "from the annotation"
    assert properties["b"]["description"] == "also from the docstring"
