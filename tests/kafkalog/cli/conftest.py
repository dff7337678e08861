"""Fixtures of the tests of commands."""

from __future__ import annotations

import pytest

from tests.support.console import new_topic


@pytest.fixture
def topic(broker_address: str) -> str:
    """Create a topic with one partition."""
    return new_topic(broker_address)
