"""The signature of whatever can be called, also while a name in its annotations is not defined yet.

From Python 3.14 on annotations are evaluated when they are asked for (PEP 649), so ``inspect.signature`` raises what
they raise. Here a name that is missing stays a `ForwardRef`, as it stays text in older versions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any, cast

__all__ = ["annotations_of", "parameters_of", "signature_of"]


def _annotation_library() -> Any:
    """``annotationlib``, which Python 3.14 brought; ``None`` before."""
    try:
        return import_module("annotationlib")
    except ImportError:
        return None


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, with names that are not defined yet as `ForwardRef`.

    Raises:
        TypeError, ValueError: it cannot be inspected.
        Exception: what an annotation raises, if it is not that a name is missing.
    """
    try:
        return inspect.signature(function)
    except NameError:
        library = _annotation_library()
        if library is None:
            raise
        return _signature(function, library.Format.FORWARDREF)


def parameters_of(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function whose annotations nobody needs.

    Raises:
        TypeError, ValueError: it cannot be inspected.
    """
    library = _annotation_library()
    made = inspect.signature(function) if library is None else _signature(function, library.Format.STRING)
    return list(made.parameters.values())


def annotations_of(function: Any) -> dict[str, Any]:
    """``__annotations__``, with names that are not defined yet as `ForwardRef`.

    Raises:
        Exception: what an annotation raises, if it is not that a name is missing.
    """
    try:
        return cast("dict[str, Any]", function.__annotations__)
    except NameError:
        library = _annotation_library()
        if library is None:
            raise
        return cast("dict[str, Any]", library.get_annotations(function, format=library.Format.FORWARDREF))


def _signature(function: Callable[..., Any], annotation_format: Any) -> inspect.Signature:
    read: Any = inspect.signature  # the argument came with Python 3.14
    return cast("inspect.Signature", read(function, annotation_format=annotation_format))
