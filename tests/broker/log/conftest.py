"""Fixtures of the log's tests: log managers whose locks end with the test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from broker.log.log_manager import LogManager


@pytest.fixture
def managers() -> Iterator[list[LogManager]]:
    """Those that a test makes; their locks are let go when it ends."""
    made: list[LogManager] = []
    yield made
    for manager in made:
        manager.unlock()
