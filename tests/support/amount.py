"""How much the dear tests try: a part of it in `make check` and `make test`, all of it in `make test-all`.

`KAFKALOG_TESTS=all` asks for every Hypothesis example. Seeds and schedules are chosen by the marker `exhaustive`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = os.environ.get("KAFKALOG_TESTS") == "all"
FEWER = 5
"""A quick run draws one of so many examples."""


def examples(count: int) -> int:
    """How many examples Hypothesis draws where a full run draws ``count``."""
    return count if ALL else max(count // FEWER, 1)


def mostly_exhaustive(values: Iterable[Any], few: int) -> list[Any]:
    """Parameters of which all but the first ``few`` are marked `exhaustive`."""
    return [
        value if index < few else pytest.param(value, marks=pytest.mark.exhaustive)
        for index, value in enumerate(values)
    ]
