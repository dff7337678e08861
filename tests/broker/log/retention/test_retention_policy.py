"""Tests of a user's own retention policy."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.retention.retention_policy import TIME_AND_SIZE, RetentionPolicyError, SegmentFacts, load_policy
from broker.log.retention.retention_turns import run_retention
from peers.process import PeerFailedError
from tests.broker.log.support import NOW, batch, open_log
from tests.support.kafkalog_broker import KafkalogBroker

CONFIG = LogConfig(segment_bytes=200, retention_ms=-1)


class KeepThreeSegments:
    """Keeps three."""

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        return max(len(segments) - 3, 0)


class Greedy:
    """Wants more than there is."""

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        return 10**9


class Failing:
    """Fails."""

    def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
        raise ZeroDivisionError("on purpose")


class NeedsArguments:
    """Cannot be made."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted


def fill(directory: Path, batches: int) -> None:
    log = open_log(directory, CONFIG)
    for index in range(batches):
        log.append_batch(batch(1, size=100, timestamp=NOW + index), leader_epoch=0, now_ms=NOW)
    log.close()


def test_a_policy_sees_the_segments_and_says_how_many_go(tmp_path: Path) -> None:
    seen: list[list[tuple[int, int, int, int, bool]]] = []

    class Seeing:
        def deletable(self, segments: Sequence[SegmentFacts], config: LogConfig, now_ms: int) -> int:
            assert (config, now_ms) == (CONFIG, NOW + 7)
            seen.append(
                [(s.base_offset, s.next_base_offset, s.size, s.largest_timestamp, s.is_active) for s in segments]
            )
            return 1

    fill(tmp_path, 3)
    log = open_log(tmp_path, CONFIG, clean=True)
    log.high_watermark = 3
    size = log.segments[0].size
    assert [segment.base_offset for segment in log.apply_retention(NOW + 7, Seeing())] == [0]
    assert seen == [[(0, 1, size, NOW, False), (1, 2, size, NOW + 1, False), (2, 3, size, NOW + 2, True)]]
    # What lies before the log start offset is not asked about.
    log.delete_records(2)
    assert [segment.base_offset for segment in log.apply_retention(NOW + 7, Seeing())] == [1, 2]
    assert [row[0] for row in seen[1]] == [2]


def test_nothing_past_the_high_watermark_goes(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    log = open_log(tmp_path, CONFIG, clean=True)
    log.high_watermark = 2
    assert [segment.base_offset for segment in log.apply_retention(NOW, Greedy())] == [0, 1]
    log.high_watermark = 5
    log.apply_retention(NOW, Greedy())
    assert (log.log_start_offset, log.size) == (5, 0)
    assert log.apply_retention(NOW, Greedy()) == []


def test_a_policy_is_not_asked_about_topics_that_are_only_compacted(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    log = open_log(tmp_path, CONFIG.with_changes(cleanup_policy=("compact",)), clean=True)
    log.high_watermark = 3
    assert log.apply_retention(NOW, Failing()) == []


def test_a_policy_that_fails_deletes_nothing_and_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "log").mkdir()
    fill(tmp_path / "log", 3)
    manager = LogManager([tmp_path / "log"], CONFIG, clock=lambda: NOW)
    manager.load_all()
    (log,) = manager
    log.high_watermark = 3
    manager.retention_policy = Failing()
    with caplog.at_level(logging.ERROR):
        assert sum(run_retention(manager, NOW)) == 0
    assert "on purpose" in caplog.text
    manager.retention_policy = Greedy()
    log.being_cleaned = True
    assert sum(run_retention(manager, NOW)) == 0
    log.being_cleaned = False
    assert sum(run_retention(manager, NOW)) == 3
    manager.shutdown()


def test_policies_are_found_by_name() -> None:
    assert load_policy(None) is TIME_AND_SIZE
    assert load_policy(f"{__name__}:KeepThreeSegments").deletable([], CONFIG, NOW) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("KeepThreeSegments", "is not of the form module:Class"),
        ("no_such_module:X", "No module named 'no_such_module'"),
        (f"{__name__}:NoSuchClass", "NoSuchClass"),
        (f"{__name__}:NeedsArguments", "wanted"),
        ("builtins:object", "has no method deletable"),
    ],
)
def test_a_bad_name_is_said_to_be_bad(name: str, said: str) -> None:
    with pytest.raises(RetentionPolicyError, match=said):
        load_policy(name)


def test_a_broker_with_a_bad_policy_does_not_start(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    with pytest.raises(PeerFailedError) as failure:
        start_broker({"kafkalog.log.retention.policy.class": "no_such_module:Policy"})
    said = str(failure.value)
    assert "kafkalog.log.retention.policy.class" in said
    assert "no_such_module" in said
    assert "Traceback" not in said
