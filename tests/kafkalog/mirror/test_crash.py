"""Test that each committed record comes once, in order, although the mirror is killed again and again."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog.client.types import READ_COMMITTED
from tests.kafkalog.mirror.conftest import Clusters, all_contents, read_all
from tests.kafkalog.mirror.process import MirrorProcess
from tests.kafkalog.mirror.writing import PARTITIONS, Writer, make, write

KILLS = 4


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_mirror_that_is_killed_mirrors_each_committed_record_once(
    clusters: Clusters, alias: str, tmp_path: Path, boundary: str
) -> None:
    topic = f"crash-{alias}"
    mirror = MirrorProcess(clusters, topic, alias, tmp_path, transaction_boundary=boundary)
    make(clusters.source, topic, PARTITIONS)
    writer = Writer(clusters.source, topic)
    try:
        for number in range(KILLS):
            mirror.start()
            try:
                # It has committed transactions, and dies somewhere in the next ones: each time at another place.
                mirror.grows(40, READ_COMMITTED)
                mirror.grows(5 + 7 * number)
            finally:
                mirror.kill()
    finally:
        count = writer.stop() + 1
    # Once the target has this one, the mirror has begun, and ends with exit code 0.
    write(clusters.source, topic, range(1))
    mirror.start()
    try:
        there = read_all(clusters.source, topic, count)
        found = read_all(clusters.target, mirror.remote, count)
    finally:
        code = mirror.stop()
    assert code == 0, mirror.errors.read_text()
    assert all_contents(found) == all_contents(there)
