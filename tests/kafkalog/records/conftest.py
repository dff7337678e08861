"""Fixtures of the tests of record batches."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.records.kernels import loader
from tests.support.sources.checked_kernels import checked_kernels


@pytest.fixture(scope="module", params=["compiled", "checked"])
def each_build(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test with the shipped kernels, and again with the checked build."""
    if request.param == "compiled":
        loader.load()
        yield
    else:
        with checked_kernels():
            yield
