"""Set how much the expensive tests try: a part in `make check` and `make test`, everything in `make test-all`.

`KAFKALOG_TESTS=all` runs every Hypothesis example. The marker `exhaustive` selects seeds and schedules.
`KAFKALOG_TESTS_UNTIL`, in seconds since the epoch, skips what would begin later (`tests/conftest.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = os.environ.get("KAFKALOG_TESTS") == "all"
FEWER = 5
"""The divisor of the number of examples in a quick run."""


def examples(count: int) -> int:
    """Return the number of examples to draw; a full run draws `count`."""
    return count if ALL else max(count // FEWER, 1)


def mostly_exhaustive(values: Iterable[Any], few: int) -> list[Any]:
    """Return parameters; all but the first `few` are marked `exhaustive`."""
    return [
        value if index < few else pytest.param(value, marks=pytest.mark.exhaustive)
        for index, value in enumerate(values)
    ]
