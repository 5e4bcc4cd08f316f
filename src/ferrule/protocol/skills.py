"""The rules of skills (SEP-2640, "Skills"): names, URIs, digests, limits, and the frontmatter of ``SKILL.md``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from ferrule.wire.faults import DecodeError
from ferrule.wire.json_types import is_array, is_object
from ferrule.wire.patterns import pattern
from ferrule.wire.yaml_data import YamlError, decode_core_yaml, decode_yaml, encode_yaml

__all__ = [
    "DIRECTORY_TYPE",
    "DYNAMIC",
    "MAX_FRONTMATTER_CHARS",
    "MAX_SKILL_BYTES",
    "MAX_SKILL_FILES",
    "SKILL_FILE",
    "FrontmatterError",
    "differing_field",
    "digest_of",
    "frontmatter_text",
    "is_digest",
    "is_skill_name",
    "name_in_uri",
    "read_frontmatter",
    "root_of",
    "write_frontmatter",
]

SKILL_FILE: Final = "SKILL.md"
"""The file with the frontmatter and the instructions, at the root of every skill."""

DIRECTORY_TYPE: Final = "inode/directory"
"""The media type of directories."""

DYNAMIC: Final = "dynamic"
"""In place of the list of files, for a skill whose content is made at each read."""

MAX_SKILL_FILES: Final = 512
"""Number of files that every host takes ("Limits"); servers should not serve a larger skill."""

MAX_SKILL_BYTES: Final = 16 * 1024 * 1024
"""Number of bytes of all files of a skill that every host takes ("Limits")."""

MAX_FRONTMATTER_CHARS: Final = 64 * 1024
"""Maximum length of a frontmatter in characters."""

_MAX_VALUES: Final = 10_000
_NEEDS: Final = "the frontmatter of skills is YAML, which needs PyYAML: pip install 'ferrule[skills]'"
_NAME: Final = pattern(r"(?!.*--)[a-z0-9]([a-z0-9-]{0,62}[a-z0-9])?")
_PLAIN_KEY: Final = pattern(r"(?!true|false|null)[a-z-]{4,}")
_DIGEST: Final = pattern(r"sha256:[0-9a-f]{64}")
_END: Final = pattern(r"\r?\n---[ \t]*(?:\r?\n|\Z)")


class FrontmatterError(DecodeError):
    """A ``SKILL.md`` does not begin with a usable frontmatter; the message is the end of a sentence about the file."""


def digest_of(data: bytes) -> str:
    """Return the digest of a file's bytes: ``sha256:`` and 64 lowercase hexadecimal digits."""
    return f"sha256:{sha256(data).hexdigest()}"


def is_digest(text: str) -> bool:
    """Return whether a text has the form of a digest."""
    return _DIGEST.fullmatch(text) is not None


def is_skill_name(name: str) -> bool:
    """Return whether a name follows the Agent Skills specification: 1 to 64 of ``a-z``, ``0-9`` and single hyphens."""
    return _NAME.fullmatch(name) is not None


def root_of(uri: str) -> str | None:
    """Return the URI of a skill's root directory; ``None`` if ``uri`` is not that of a ``SKILL.md``."""
    root, slash, file = uri.rpartition("/")
    return root if slash and file == SKILL_FILE and root.partition("://")[2].strip("/") else None


def name_in_uri(uri: str) -> str:
    """Return the last segment of the skill's path in the URI of its ``SKILL.md``; empty if there is none."""
    return uri.partition("://")[2].removesuffix(f"/{SKILL_FILE}").rpartition("/")[2]


def read_frontmatter(text: str) -> dict[str, Any]:
    """Return the frontmatter of a ``SKILL.md`` as JSON-shaped data, as YAML 1.2 reads it: dates are text.

    Raises:
        FrontmatterError: there is none, it is too long, or it is not a mapping that JSON can express.
        ImportError: PyYAML is not installed.
    """
    return _read(frontmatter_text(text), decode_core_yaml)


def frontmatter_text(text: str) -> str:
    """Return the YAML between the first two lines of ``---``.

    Raises:
        FrontmatterError: there is none, or it is too long.
    """
    head = text[: MAX_FRONTMATTER_CHARS + 1].removeprefix("\ufeff")
    first, newline, rest = head.partition("\n")
    if not newline or first.removesuffix("\r") != "---":
        raise FrontmatterError("does not begin with a line of three hyphens and a frontmatter")
    end = _END.search("\n" + rest)
    if end is None:
        long = len(text) > MAX_FRONTMATTER_CHARS
        raise FrontmatterError(
            f"has a frontmatter of more than {MAX_FRONTMATTER_CHARS:,} characters"
            if long
            else "has a frontmatter that no line of three hyphens ends"
        )
    return rest[: max(0, end.start() - 1)]


def write_frontmatter(frontmatter: Mapping[str, Any]) -> str:
    """Return the lines of a frontmatter, for a ``SKILL.md`` that is made by a program.

    Raises:
        ImportError: PyYAML is not installed.
    """
    fields = "".join(
        f"{key if _PLAIN_KEY.fullmatch(key) else encode_yaml(key, needs=_NEEDS)}: {encode_yaml(value, needs=_NEEDS)}\n"
        for key, value in frontmatter.items()
    )
    return f"---\n{fields}---\n"


def differing_field(frontmatter: Mapping[str, Any], text: str) -> str | None:
    """Return a field of a ``SKILL.md`` whose value in a skill's entry is another one; ``None`` if all are equal.

    The specification does not name a version of YAML. A value is equal if one of the two in use, 1.1 and 1.2, reads it
    so: ``yes`` is text in the one and true in the other.

    Args:
        frontmatter: that of the entry.
        text: the contents of the ``SKILL.md``.

    Raises:
        FrontmatterError: the text has no usable frontmatter.
        ImportError: PyYAML is not installed.
    """
    written = frontmatter_text(text)
    core = _read(written, decode_core_yaml)
    differing = [name for name in dict.fromkeys((*frontmatter, *core)) if not _has_same(frontmatter, core, name)]
    if not differing:
        return None
    other = _read(written, decode_yaml)
    return next((name for name in differing if not _has_same(frontmatter, other, name)), None)


def _has_same(one: Mapping[str, Any], other: Mapping[str, Any], name: str) -> bool:
    return name in one and name in other and _equal(one[name], other[name])


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON; numbers by value, and true is not 1."""
    if is_object(one) and is_object(other):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if is_array(one) and is_array(other):
        return len(one) == len(other) and all(_equal(*pair) for pair in zip(one, other, strict=True))
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    return bool(one == other)


def _read(written: str, decode: Callable[..., Any]) -> dict[str, Any]:
    try:
        found = decode(written, _MAX_VALUES, needs=_NEEDS)
    except YamlError as error:
        raise FrontmatterError(f"has a frontmatter that {error}") from error
    if not is_object(found):
        raise FrontmatterError("has a frontmatter that is not a mapping")
    return found
