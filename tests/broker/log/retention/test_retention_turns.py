"""Test that retention of many segments lets others have their turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.retention.retention_turns import LOGS_AT_ONCE, REMOVED_AT_ONCE, run_retention
from tests.broker.log.support import NOW, batch

CONFIG = LogConfig(segment_bytes=batch(1).nbytes, retention_ms=-1, retention_bytes=batch(1).nbytes)
SEGMENTS = 2 * REMOVED_AT_ONCE + 7


@pytest.fixture
def manager(tmp_path: Path, managers: list[LogManager]) -> LogManager:
    made = LogManager([tmp_path], CONFIG, clock=lambda: NOW)
    made.load_all()
    managers.append(made)
    return made


def fill(log: Log, segments: int) -> None:
    for _ in range(segments):
        log.append_batch(batch(1), leader_epoch=0, now_ms=NOW)
    log.high_watermark = log.log_end_offset


def test_each_turn_removes_a_bounded_number_of_segments(manager: LogManager) -> None:
    log, other = manager.create("a", 0), manager.create("b", 0)
    fill(log, SEGMENTS)
    fill(other, 3)
    seen: list[tuple[int, int, int]] = []
    for gone in run_retention(manager, NOW):
        seen.append((gone, log.log_start_offset, other.log_start_offset))
        # What is appended in between is not lost.
        fill(log, 1)
    assert seen == [(100, 100, 0), (100, 200, 0), (8, 208, 0), (2, 208, 2)]
    assert (len(log.segments), log.log_end_offset) == (3, SEGMENTS + 4)


def test_a_log_that_is_cleaned_or_deleted_in_between_is_left_alone(manager: LogManager) -> None:
    cleaned, deleted = manager.create("a", 0), manager.create("b", 0)
    for log in (cleaned, deleted):
        fill(log, SEGMENTS)
    turns = run_retention(manager, NOW)
    assert next(turns) == REMOVED_AT_ONCE
    cleaned.being_cleaned = True
    assert next(turns) == REMOVED_AT_ONCE
    manager.delete("b", 0)
    assert list(turns) == []
    assert len(cleaned.segments) == SEGMENTS - REMOVED_AT_ONCE
    cleaned.being_cleaned = False


def test_logs_of_which_nothing_goes_have_turns_as_well(manager: LogManager) -> None:
    for partition in range(2 * LOGS_AT_ONCE + 1):
        manager.create("a", partition)
    assert list(run_retention(manager, NOW)) == [0, 0]
