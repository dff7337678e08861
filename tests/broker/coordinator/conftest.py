"""Fixtures: logs of an internal topic, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.broker.coordinator.group.running import Running, Start
from tests.broker.coordinator.support import Stored


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[..., Stored]]:
    """Return a function that opens the directory with settings, again after each close."""
    with ExitStack() as stack:

        def make(**settings: str) -> Stored:
            return stack.enter_context(Stored(tmp_path, settings))

        yield make


@pytest.fixture
def start(stored: Callable[..., Stored]) -> Start:
    def make(**settings: str) -> Running:
        return Running(stored(group_initial_rebalance_delay_ms="0", **settings))

    return make
