"""`ServerPicture`: the entries of a server by kind and name."""

from __future__ import annotations

from ferrule.checks.picture import KINDS, ServerPicture


def test_the_name_of_each_kind() -> None:
    """Resources are named by their URI; what is no object is left out."""
    lists = {"tools": [{"name": "a"}, "x"], "resources": [{"uri": "u://"}], "templates": [{"uriTemplate": "t://{x}"}]}
    picture = ServerPicture(prompts=[{"name": "p"}], **lists)  # type: ignore[arg-type]
    assert [(kind, name) for kind, name, _ in picture.named()] == [
        ("tools", "a"), ("resources", "u://"), ("templates", "t://{x}"), ("prompts", "p"),
    ]  # fmt: skip
    assert [len(picture.definitions(kind)) for kind in KINDS] == [2, 1, 1, 1]
