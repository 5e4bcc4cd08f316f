"""TypedDicts whose annotations are evaluated at once; `typed_dicts_postponed` holds the same ones as text."""

import typing
from typing import Annotated, NotRequired, Required, TypedDict

import typing_extensions as te


class Total(TypedDict):
    a: int
    b: NotRequired[str]
    c: te.NotRequired[list[int]]
    d: Annotated[NotRequired[float], "d"]
    e: te.ReadOnly[typing.NotRequired[bool]]


class Partial(TypedDict, total=False):
    a: Required[int]
    b: Annotated[te.Required[str], "b"]
    c: int | None


class Inherited(Partial):
    d: str
    e: NotRequired[Total]


ALL = [Total, Partial, Inherited]
