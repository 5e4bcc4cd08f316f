"""Ferrule: servers and clients for the Model Context Protocol, both protocol eras.

The names of this package are loaded on first use: ``import ferrule`` costs a dozen modules, and a stdio server never
pays for the HTTP client. Type checkers follow the imports under ``TYPE_CHECKING``; a test holds the two lists, and
``__all__``, together.

The rule that a newcomer would break: nothing may be imported here at module level but the standard library's smallest
parts.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass

__version__ = "0.1.0"

# Public name -> the module that defines it.
_MODULES: dict[str, str] = {}

# Public modules that `import ferrule` makes reachable as attributes.
_SUBMODULES: tuple[str, ...] = ()

__all__ = [
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module, once."""
    if name in _SUBMODULES:
        return import_module(f"ferrule.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'ferrule' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, loaded or not."""
    return sorted({*globals(), *__all__})
