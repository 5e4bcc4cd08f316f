"""Python files that are no modules of a package, such as examples and snippets, loaded as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

__all__ = ["load_file"]


def load_file(path: Path, name: str) -> Any:
    """A file as a new module, without state from another test.

    Args:
        path: the file.
        name: the name of the module in ``sys.modules``.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
