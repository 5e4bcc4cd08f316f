"""What an input schema accepts arrives at an independent server framework as the same values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

import anyio
import jsonschema_rs
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from fastapi import Body, Cookie, FastAPI, Form, Header, Query, UploadFile
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from ferrule.expose.callers.asgi import ASGICaller
from ferrule.expose.description.reader import read_description
from ferrule.expose.exchange import Origin
from ferrule.expose.operations import Operation
from ferrule.expose.requests.build import build_request
from ferrule.expose.requests.files import FileContents

api = FastAPI()


class Part(BaseModel):
    name: str
    sizes: list[float] = []
    inner: Part | None = None


@api.get("/query/{path}/{number}")
def query(
    path: str,
    number: int,
    text: str | None = None,
    whole: int | None = None,
    real: float | None = None,
    flag: bool | None = None,
    texts: Annotated[list[str] | None, Query()] = None,
    numbers: Annotated[list[int] | None, Query()] = None,
    x_text: Annotated[str | None, Header()] = None,
    x_number: Annotated[int | None, Header()] = None,
    crumb: Annotated[str | None, Cookie()] = None,
) -> Any:
    return {
        "path": path, "number": number, "text": text, "whole": whole, "real": real, "flag": flag, "texts": texts,
        "numbers": numbers, "x-text": x_text, "x-number": x_number, "crumb": crumb,
    }  # fmt: skip


@api.post("/json/{name}")
def take_json(name: str, part: Part) -> Any:
    return {"name": name, "name_body": part.name, **part.model_dump(exclude={"name"})}


@api.post("/list")
def take_list(body: Annotated[list[Part], Body()]) -> Any:
    return {"body": [part.model_dump() for part in body]}


@api.post("/form")
def take_form(
    text: Annotated[str, Form()],
    texts: Annotated[list[str] | None, Form()] = None,
    real: Annotated[float | None, Form()] = None,
    flag: Annotated[bool | None, Form()] = None,
) -> Any:
    return {"text": text, "texts": texts, "real": real, "flag": flag}


@api.post("/files")
async def take_files(
    file: UploadFile, files: list[UploadFile], text: Annotated[str, Form()], texts: Annotated[list[str], Form()]
) -> Any:
    return {
        "file": [file.filename, (await file.read()).hex()],
        "files": [[each.filename, (await each.read()).hex()] for each in files],
        "text": text,
        "texts": texts,
    }


OPERATIONS: dict[str, Operation] = {each.path: each for each in read_description(api.openapi()).operations}
CALLER = ASGICaller(api)

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
_step = _text.filter(lambda text: text not in ("", ".", "..") and "/" not in text)
_whole = st.integers(-(2**53), 2**53)
_real = st.floats(allow_nan=False, allow_infinity=False, width=32)
_header = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=12)
_crumb = st.text("abcXYZ019-_.!#$&'()*+/:<=>?@[]^`{|}~", min_size=1, max_size=12)
_parts = st.recursive(
    st.fixed_dictionaries({"name": _text}, optional={"sizes": st.lists(_real, max_size=3)}),
    lambda inner: st.fixed_dictionaries(
        {"name": _text}, optional={"sizes": st.lists(_real, max_size=3), "inner": inner | st.none()}
    ),
    max_leaves=4,
)


_arguments = st.fixed_dictionaries(
    {"path": _step, "number": _whole},
    optional={
        "text": _text,
        "whole": _whole,
        "real": _real,
        "flag": st.booleans(),
        "crumb": _crumb,
        "texts": st.lists(_text, min_size=1, max_size=3),
        "numbers": st.lists(_whole, min_size=1, max_size=3),
        "x-text": _header,
        "x-number": _whole,
    },
)
_form = st.fixed_dictionaries(
    {"text": _text.filter(bool)},
    optional={
        "texts": st.lists(_text.filter(bool), min_size=1, max_size=3),
        "real": _real,
        "flag": st.booleans(),
    },
)


@pytest.fixture(scope="module")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal() as made:
        yield made


def sent(portal: BlockingPortal, path: str, arguments: dict[str, Any], files: Any = None) -> dict[str, Any]:
    """Return what the server understood."""
    operation = OPERATIONS[path]
    jsonschema_rs.validator_for(operation.schemas().input).validate(arguments)
    request = build_request(operation, arguments, files=files)

    async def call() -> Any:
        with anyio.fail_after(60):
            return await CALLER.call(request, Origin(), max_bytes=1_000_000)

    response = portal.call(call)
    assert response.status == 200, response.body
    return dict(json.loads(response.body))


@settings(deadline=None)
@given(_arguments)
def test_parameters_arrive_as_they_were_given(portal: BlockingPortal, arguments: dict[str, Any]) -> None:
    understood = sent(portal, "/query/{path}/{number}", arguments)
    assert {name: value for name, value in understood.items() if value is not None} == arguments


@settings(deadline=None)
@given(_step, _parts)
def test_members_of_a_json_body_arrive_as_they_were_given(portal: BlockingPortal, name: str, part: Any) -> None:
    arguments = {"name": name, **{("name_body" if key == "name" else key): value for key, value in part.items()}}
    assert sent(portal, "/json/{name}", arguments) == {"sizes": [], "inner": None} | {
        **arguments,
        "inner": None if part.get("inner") is None else Part(**part["inner"]).model_dump(),
    }


@settings(deadline=None)
@given(st.lists(_parts, max_size=3))
def test_a_list_arrives_as_it_was_given(portal: BlockingPortal, parts: Any) -> None:
    assert sent(portal, "/list", {"body": parts}) == {"body": [Part(**part).model_dump() for part in parts]}


@settings(deadline=None)
@given(_form)
def test_a_form_arrives_as_it_was_given(portal: BlockingPortal, arguments: dict[str, Any]) -> None:
    understood = sent(portal, "/form", arguments)
    assert {name: value for name, value in understood.items() if value is not None} == arguments


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=2, max_size=4), _text.filter(bool), st.lists(_text, min_size=1))
def test_files_and_values_of_a_multipart_body_arrive_as_they_were_given(
    portal: BlockingPortal, data: list[bytes], text: str, texts: list[str]
) -> None:
    contents = [FileContents(data=each, filename=f"{index}.bin") for index, each in enumerate(data)]
    understood = sent(
        portal,
        "/files",
        {"file": {}, "files": [{} for _ in data[1:]], "text": text, "texts": texts},
        {"file": contents[0], "files": contents[1:]},
    )
    assert understood == {
        "file": ["0.bin", data[0].hex()],
        "files": [[f"{index}.bin", each.hex()] for index, each in enumerate(data) if index],
        "text": text,
        "texts": texts,
    }
