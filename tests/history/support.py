"""Seeds of histories, run one after the other."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from tests.history.brokers import HistoryBroker
from tests.history.scenario import StuckError, run_seed

SOAK_FIRST = int(os.environ.get("KAFKALOG_SOAK_FIRST", "1000"))

SOAK_COUNT = int(os.environ.get("KAFKALOG_SOAK_COUNT", "3000"))
"""Seeds of the soak, which may be chosen by the environment."""


def run_seeds(
    first: int, count: int, broker: HistoryBroker, root: Path, kind: str = "kafkalog", copiers: int = 2
) -> Counter[str]:
    """Run these seeds, and return the counts of their events.

    The first seed that breaks a promise fails the test, with everything that is wrong in it.
    """
    happened: Counter[str] = Counter()
    for seed in range(first, first + count):
        again = f"again: python -m tests.history.scenario --seed {seed} --broker {kind} --copiers {copiers}"
        try:
            result = run_seed(seed, broker, root, copiers=copiers)
        except StuckError as error:
            raise AssertionError(f"seed {seed}: {error}; {again}") from error
        told = "\n".join(map(str, result.violations[:50]))
        assert not result.violations, f"seed {seed} ({result.directory}); {again}\n{told}"
        happened += result.events
    return happened
