"""Test the simulator itself: it finds defects that are planted into the brokers."""

from __future__ import annotations

from typing import Any

import pytest

from broker.controller.cluster.machine import restarts
from broker.controller.cluster.model import leaders
from broker.replica.partition import Partition
from broker.replica.roles import Truncation
from tests.simulation.cluster.schedule import run_schedule

SEEDS = range(24)


def found(wanted: str) -> bool:
    """Return whether one of the seeds finds a fault that names an invariant."""
    return any(wanted in fault for seed in SEEDS for fault in run_schedule(seed).faults)


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_followers_that_do_not_truncate_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def keep(self: Partition, epoch: int, end_offset: int) -> Truncation:
        return Truncation(self.log.log_end_offset, True)

    monkeypatch.setattr(Partition, "truncation", keep)
    monkeypatch.setattr(Partition, "divergence", lambda self, epoch, offset: None)
    assert found("I2")


def test_leaders_that_acknowledge_too_early_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(self: Partition) -> bool:
        if self.leading is None:
            return False
        before = self.log.high_watermark
        self.log.high_watermark = self.log.log_end_offset
        return self.log.high_watermark > before

    monkeypatch.setattr(Partition, "advance_high_watermark", alone)
    assert found("I6")


def test_elections_out_of_the_isr_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def anybody(candidates: Any, isr: Any, online: Any) -> int | None:
        return next((each for each in candidates if each in online and each not in isr), None) or next(
            (each for each in candidates if each in online), None
        )

    monkeypatch.setattr(leaders, "first", anybody)
    assert found("elected out of the ISR")


@pytest.mark.exhaustive
@pytest.mark.timeout(900)
def test_leaders_that_go_on_after_a_loss_of_power_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "_settled", lambda context, key, state: None)
    assert found("I1")
