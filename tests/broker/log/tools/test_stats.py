"""Tests of the numbers of a log: batches, records, keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from broker.log.tools import targets
from broker.log.tools.stats import Stats, segment_stats
from tests.broker.log.support import NOW
from tests.broker.log.tools.damaged import BATCHES, SEGMENTS, logs

pytestmark = pytest.mark.usefixtures("each_check")


def total(log: Path, *, deep: bool = False, count_keys: bool = False) -> Stats:
    partition = targets.partition_at(str(log))
    stats = Stats()
    for base in partition.bases:
        stats.add(segment_stats(partition, base, deep=deep, count_keys=count_keys))
    return stats


def test_numbers(log: Path) -> None:
    stats = total(log)
    row = stats.row(deep=False)
    assert row["segments"] == SEGMENTS
    assert row["batches"] == SEGMENTS * (BATCHES + 4)
    assert row["records"] == SEGMENTS * (BATCHES * 5 + 4)
    assert row["bytes"] == sum(path.stat().st_size for path in logs(log))
    assert row["control_batches"] == row["transactional_batches"] == SEGMENTS * 2
    assert row["producers"] == 2
    assert (row["first_offset"], row["next_offset"]) == (0, SEGMENTS * (BATCHES * 5 + 6))
    assert row["codecs"]["gzip"] == SEGMENTS * 3
    assert row["min_timestamp"] == NOW
    assert row["max_timestamp"] == NOW + 100 * (SEGMENTS - 1) + 50
    assert 0.9 < row["density"] < 1


def test_numbers_of_every_record(log: Path) -> None:
    stats = total(log, deep=True, count_keys=True)
    row = stats.row(deep=True, top_keys=2)
    assert row["records"] == SEGMENTS * (BATCHES * 5 + 4)
    assert row["values"]["bytes"] == SEGMENTS * (BATCHES * 5 * 60 + 4 * 20)
    assert row["keys"]["null"] == SEGMENTS * 4
    assert row["compression_ratio"] > 1
    assert [each["records"] for each in row["top_keys"]] == [5 * SEGMENTS] * 2
    assert row["top_keys"][0]["key"].startswith("k")


def test_what_cannot_be_read_is_told(log: Path) -> None:
    os.truncate(logs(log)[-1], logs(log)[-1].stat().st_size - 1)
    assert "cut off" in total(log).row(deep=False)["unreadable"][0]
