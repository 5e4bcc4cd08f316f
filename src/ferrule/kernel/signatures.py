"""Signatures of callables, also while a name in an annotation is not defined yet.

From Python 3.14 on annotations are evaluated on access (PEP 649), so that ``inspect.signature`` raises the exceptions
of that evaluation. Here an undefined name stays a `ForwardRef`, as it stays text in older versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

__all__ = ["annotations_of", "parameters_of", "signature_of"]


def _annotation_library() -> Any:
    """Return the module ``annotationlib``, which is new in Python 3.14; ``None`` before."""
    try:
        return import_module("annotationlib")
    except ImportError:
        return None


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, with names that are not defined yet as `ForwardRef`.

    Raises:
        TypeError, ValueError: the function cannot be inspected.
        Exception: the evaluation of an annotation raised something else than `NameError`.
    """
    try:
        return inspect.signature(function)
    except NameError:
        library = _annotation_library()
        if library is None:
            raise
        return _signature(function, library.Format.FORWARDREF)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, without evaluating its annotations.

    Raises:
        TypeError, ValueError: the function cannot be inspected.
    """
    library = _annotation_library()
    made = inspect.signature(function) if library is None else _signature(function, library.Format.STRING)
    return list(made.parameters.values())


def annotations_of(function: Any) -> dict[str, Any]:
    """Return ``__annotations__``, with names that are not defined yet as `ForwardRef`.

    Raises:
        Exception: the evaluation of an annotation raised something else than `NameError`.
    """
    try:
        return cast("dict[str, Any]", function.__annotations__)
    except NameError:
        library = _annotation_library()
        if library is None:
            raise
        return cast("dict[str, Any]", library.get_annotations(function, format=library.Format.FORWARDREF))


def _signature(function: Callable[..., Any], annotation_format: Any) -> inspect.Signature:
    read: Any = inspect.signature  # the argument is new in Python 3.14, and unknown to older type stubs
    return cast("inspect.Signature", read(function, annotation_format=annotation_format))
