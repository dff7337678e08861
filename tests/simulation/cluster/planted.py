"""Defects that are planted into the brokers, to test the simulator: `python -m tests.simulation.cluster.planted NAME`.

The exit code is 0 if the simulator finds the defect. A seed that is known to find it runs first; where a change of the
product makes another run of it, others follow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from broker.controller.cluster.machine import restarts
from broker.controller.cluster.model import leaders
from broker.coordinator.group.replay import Replay
from broker.coordinator.transaction.partition_transactions import PartitionTransactions
from broker.replica.divergence import Truncation
from broker.replica.partition import Partition
from tests.simulation.cluster.schedule import run_schedule

SEEDS = range(24)


class Defect(NamedTuple):
    """A defect, a part of the message that names it, and a seed that found it."""

    plant: Callable[[], None]
    message: str
    seed: int


def _never_truncate() -> None:
    def keep(self: Partition, epoch: int, end_offset: int) -> Truncation:
        return Truncation(self.log.log_end_offset, True)

    _replace(Partition, "truncation", keep)
    _replace(Partition, "divergence", lambda self, epoch, offset: None)


def _acknowledge_alone() -> None:
    def alone(self: Partition) -> bool:
        if self.leading is None:
            return False
        before = self.log.high_watermark
        self.log.high_watermark = self.log.log_end_offset
        return self.log.high_watermark > before

    _replace(Partition, "advance_high_watermark", alone)


def _ignore_min_insync() -> None:
    _replace(Partition, "effective_min_insync", property(lambda self: 1))


def _elect_anybody() -> None:
    def anybody(candidates: Any, isr: Any, online: Any) -> int | None:
        return next((each for each in candidates if each in online and each not in isr), None) or next(
            (each for each in candidates if each in online), None
        )

    _replace(leaders, "first", anybody)


def _ignore_restarts() -> None:
    _replace(restarts, "_settled", lambda context, key, state: None)


def _take_over_no_offsets() -> None:
    _replace(Replay, "apply", lambda self, batches: None)


def _take_over_no_transactions() -> None:
    _replace(PartitionTransactions, "replay", lambda self, batches: None)


def _keep_what_is_deleted() -> None:
    _replace(Partition, "raise_log_start", lambda self, of_leader: None)


def _replace(where: object, name: str, by: object) -> None:
    assert hasattr(where, name), f"{where} has no {name} any more"
    setattr(where, name, by)


DEFECTS = {
    "followers do not truncate": Defect(_never_truncate, "I2", 4),
    "leaders acknowledge too early": Defect(_acknowledge_alone, "I6", 0),
    "leaders ignore min.insync.replicas": Defect(_ignore_min_insync, "I10", 1),
    "leaders out of the ISR": Defect(_elect_anybody, "elected out of the ISR", 1),
    "leaders go on after a loss of power": Defect(_ignore_restarts, "I1", 16),
    "coordinators take over no offsets": Defect(_take_over_no_offsets, "I9", 3),
    "coordinators take over no transactions": Defect(_take_over_no_transactions, "I9", 12),
    "followers keep what leaders delete": Defect(_keep_what_is_deleted, "has deleted records", 2),
}


def main() -> int:
    """Plant a defect, and run seeds until one of them finds it."""
    defect = DEFECTS[sys.argv[1]]
    defect.plant()
    for seed in dict.fromkeys([defect.seed, *SEEDS]):
        if any(defect.message in fault for fault in run_schedule(seed).faults):
            print(f"seed {seed} finds it")
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
