import pytest

from ferrule.testing import check_tools_sync


@pytest.fixture(autouse=True)
def own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("NOTES_FILE", str(tmp_path / "notes.db"))


def test_a_note_is_found(client):
    client.call_tool("add_note", {"title": "Milk", "text": "Two litres"})
    client.call_tool("add_note", {"title": "Bread"})
    found = client.call_tool("find_notes", {"word": "litre"}).data
    assert [note["title"] for note in found] == ["Milk"]


def test_a_picture_comes_back(client):
    client.call_tool("add_note", {"title": "Cat"})
    client.call_tool("add_picture", {"id": 1, "picture": b"\x89PNG..."}, raise_on_error=True)
    (image,) = client.call_tool("show_picture", {"id": 1}).content
    assert image.mime_type == "image/png"


def answer(yes):
    return {"elicitation_handler": lambda params: {"confirm": yes}}


@pytest.mark.parametrize(("client_options", "left"), [(answer(True), 0), (answer(False), 1)])
def test_the_user_decides(client, left):
    client.call_tool("add_note", {"title": "Milk"})
    client.call_tool("delete_note", {"id": 1})
    assert len(client.call_tool("find_notes").data) == left


def test_progress(client):
    seen = []
    lines = ["Milk: two litres", "Bread"]
    client.call_tool("import_notes", {"lines": lines}, on_progress=lambda now, total, text: seen.append((now, text)))
    assert seen == [(1, "Milk"), (2, "Bread")]


def test_every_schema(client):
    check_tools_sync(client, skip=["add_picture", "show_picture"])
