"""Fixtures of the tools: a log after a clean stop, and both ways to check batches."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker.log.append.validation import Origin
from broker.log.directories.log_dir import LogDir
from broker.log.tools import verify
from kafkalog.records import checking
from kafkalog.records.compression import Codec
from tests.broker.log.support import NOW, batch, marker, open_log
from tests.broker.log.tools.damaged import BATCHES, CONFIG, SEGMENTS
from tests.support.sources.checked_kernels import checked_kernels


@pytest.fixture(params=["plain", "checked"])
def each_check(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the test with batches checked in plain Python, and again by the checked build of the kernels."""
    if request.param == "checked":
        monkeypatch.setattr(verify, "SMALL_BYTES", 0)
        with checked_kernels():
            yield
    else:
        monkeypatch.setattr(checking, "_fast", None)
        yield


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition's directory in a log directory after a clean stop: codecs, epochs, producers, transactions."""
    top = tmp_path / "data"
    top.mkdir()
    partition = open_log(top, CONFIG)
    partition.assign_topic_id(UUID(int=7))
    sequence = 0
    for segment in range(SEGMENTS):
        if segment:
            partition.roll(NOW)
        for number in range(BATCHES):
            owned = number % 4 == 3
            data = batch(
                5, size=60, codec=list(Codec)[number % 5], key=b"k%d" % number, timestamp=NOW + 100 * segment + number,
                producer_id=5 if owned else -1, producer_epoch=0 if owned else -1,
                base_sequence=sequence if owned else -1,
            )  # fmt: skip
            sequence += 5 * owned
            partition.append_batch(data, leader_epoch=segment, now_ms=NOW)
        for at, commit in enumerate((False, True)):
            data = batch(
                2, producer_id=9, producer_epoch=0, base_sequence=segment * 4 + at * 2, is_transactional=True,
                timestamp=NOW + 100 * segment + 50,
            )  # fmt: skip
            partition.append_batch(data, leader_epoch=segment, now_ms=NOW, in_transaction=True)
            partition.append_batch(
                marker(9, commit=commit), leader_epoch=segment, now_ms=NOW, origin=Origin.COORDINATOR
            )
    end = partition.log_end_offset
    partition.close()
    directory = LogDir(top)
    directory.claim("cluster", 1)
    directory.write_recovery_points({("t", 0): end})
    directory.write_high_watermarks({("t", 0): end})
    directory.write_clean_shutdown()
    directory.unlock()
    assert len(list(partition.dir.glob("*.log"))) == SEGMENTS
    return partition.dir
