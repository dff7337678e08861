"""Fixtures: logs of an internal topic without a broker around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.coordinator.support import Stored


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Callable[..., Stored]]:
    """Open the directory, again after each close, with settings."""
    with ExitStack() as stack:

        def make(**settings: str) -> Stored:
            return stack.enter_context(Stored(tmp_path, settings))

        yield make
