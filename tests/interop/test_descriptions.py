"""Published descriptions of other authors, converted as a whole; two validators accept each schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from bench.descriptions import DOCUMENTS, EXAMPLES, Document
from ferrule.expose import NotADescription, from_openapi
from ferrule.expose.description.operation_schemas import MAX_SCHEMA_BYTES
from ferrule.expose.openapi import read_openapi
from ferrule.wire.codec import encode
from tests.properties.test_type_fidelity import Ajv

pytestmark = [pytest.mark.peer, pytest.mark.slow]

OPERATIONS = {
    "GitHub": 1223,
    "GitHub, without references": 1223,
    "GitHub Enterprise Server": 1039,
    "Kubernetes": 845,
    "Stripe": 452,
    "Jira": 499,
    "Autotask": 2958,
    "Buildium": 462,
    "OpenAI (YAML)": 271,
    "Anthropic": 106,
    "Azure OpenAI": 52,
    "Cohere (YAML)": 41,
    "Directus": 136,
    "Blockfrost (YAML)": 129,
}
"""Operations that each document describes; every one of them is converted."""


@pytest.fixture(scope="module")
def ajv(peer_node: tuple[str, Path]) -> Iterator[Ajv]:
    node, folder = peer_node
    judge = Ajv(node, folder)
    yield judge
    judge.aclose()


@pytest.mark.parametrize(
    "document", [each for each in DOCUMENTS if each.name in OPERATIONS], ids=lambda each: each.name
)
def test_every_operation_of_a_published_description_is_converted(
    document: Document, peer_descriptions: Callable[[Document], bytes], ajv: Ajv
) -> None:
    description = read_openapi(peer_descriptions(document))
    assert description.skipped == ()
    assert len(description.operations) == OPERATIONS[document.name]
    assert len({each.name for each in description.operations}) == len(description.operations)
    for index, operation in enumerate(description.operations):
        schemas = operation.schemas()
        assert len(encode(schemas.input)) <= MAX_SCHEMA_BYTES
        assert schemas.input["properties"].keys() == operation.arguments
        for schema in (schemas.input, schemas.output):
            if schema is not None:
                jsonschema_rs.validator_for(schema)
                if index % 10 == 0:  # all of them take minutes
                    assert ajv.problems(schema, []) == [], operation.label


def test_the_examples_of_the_openapi_initiative_are_converted(peer_packages: Callable[[], Path], ajv: Ajv) -> None:
    """In JSON and YAML, which give the same; and others about one feature each, 3.0 and 3.1."""
    found: dict[str, Any] = {}
    for name, data in EXAMPLES.read_all(peer_packages()):
        if "/openapi-workshop/" in name:  # parts of documents
            continue
        description = read_openapi(data)
        assert description.skipped == (), name
        for operation in description.operations:
            schemas = operation.schemas()
            assert not any("simplified" in note for note in schemas.notes), (name, operation.label)
            for schema in (schemas.input, schemas.output):
                if schema is not None:
                    jsonschema_rs.validator_for(schema)
                    if name.endswith(".json") and description.openapi.startswith("3.0"):
                        assert ajv.problems(schema, []) == [], (name, operation.label)
        made = [(each.label, each.name, each.schemas().input) for each in description.operations]
        found[name] = description.openapi, made
    assert len(found) > 90
    for name in ("callbacks", "link-example", "petstore", "petstore-expanded", "uspto"):
        assert found[f"package/3.0/json/{name}.json"] == found[f"package/3.0/yaml/{name}.yaml"], name


def test_swagger_2_is_refused_with_a_converter(peer_descriptions: Callable[[Document], bytes]) -> None:
    document = next(each for each in DOCUMENTS if each.name.startswith("Okta"))
    with pytest.raises(NotADescription, match="swagger2openapi"):
        read_openapi(peer_descriptions(document))


@pytest.mark.anyio
async def test_the_list_of_a_thousand_operations_is_short(peer_descriptions: Callable[[Document], bytes]) -> None:
    from ferrule import Client

    server: Any = from_openapi(peer_descriptions(DOCUMENTS[0]), base_url="https://api.github.com", include="*")
    async with Client(server) as client:
        tools = await client.list_tools()
    assert sum(len(encode(tool.input_schema)) + len(tool.description or "") for tool in tools) < 2048
