"""Sites with the packages that make tokens."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from tests.django.access.example_sites import ExampleSite, example_site


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[ExampleSite]:
    """The example with the package that the parameter names."""
    with example_site(request.param, tmp_path_factory.mktemp(request.param)) as found:
        yield found
