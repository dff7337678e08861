"""Fixtures of the tests of record batches."""

from __future__ import annotations

import pytest

from kafkalog.records.kernels import loader


@pytest.fixture(scope="session")
def compiled() -> None:
    """The compiled kernels serve from here on."""
    loader.load()
