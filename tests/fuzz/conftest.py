"""The folder in memory of the fuzz targets ends with the tests."""

import shutil
from collections.abc import Iterator

import pytest
from fuzz import stored


@pytest.fixture(scope="session", autouse=True)
def _folder_in_memory() -> Iterator[None]:
    yield
    if stored.place.cache_info().currsize:
        shutil.rmtree(stored.place())
