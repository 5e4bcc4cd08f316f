"""Arguments in paths of URLconfs."""

from __future__ import annotations

import pytest

from ferrule.django.exposing.path_arguments import arguments_of


@pytest.mark.parametrize(
    ("route", "arguments"),
    [
        ("items/<int:pk>/", {"pk": False}),
        ("files/<path:rest>", {"rest": True}),
        ("<tenant>/<slug:slug>/", {"tenant": False, "slug": False}),
        (r"^drugs/(?P<code>.+)/$", {"code": True}),
        (r"^drugs/(?P<code>[^/.]+)/(?P<day>[0-9]{4}-(01|1[0-2]))/$", {"code": False, "day": False}),
        (r"^a/(?P<one>[)/]+(x|y))/(?P<two>\(.*\))/(?P<three>.*)", {"one": False, "two": False, "three": True}),
        (r"(?P<broken>(?=", {"broken": False}),
        ("/raw/{path:rest}", {"rest": True}),
        ("/items/{item_id}/{int:n}", {"item_id": False, "n": False}),
        ("<unknown:x>/", {"x": False}),
        ("plain/", {}),
    ],
)
def test_arguments_are_found_with_whether_they_take_slashes(route: str, arguments: dict[str, bool]) -> None:
    assert arguments_of(route) == arguments
