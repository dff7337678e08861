"""Test that a search by time leaves the event loop free while it decompresses a batch or reads many records."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from broker.log.read import time_search
from broker.log.read.time_search import Candidate, TimestampOffset
from kafkalog.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from tests.broker.replica.in_process import InProcess, Wire, with_broker

T0_MS = 1_700_000_000_000
LARGEST = -3


async def asked(wire: Wire, timestamp: int) -> tuple[int, int]:
    """Ask for the first record at or after a time; return its timestamp and its offset."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[partition])])
    (found,) = (await wire.exchange(request, 8)).topics[0].partitions
    assert found.error_code == 0
    return found.timestamp, found.offset


@pytest.mark.parametrize(
    ("codec", "count", "on_worker"),
    [(Codec.NONE, 20, False), (Codec.ZSTD, 20, True), (Codec.NONE, time_search.SMALL_RECORDS + 1, True)],
)
def test_batches_are_searched_on_workers_unless_they_are_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: Codec, count: int, on_worker: bool
) -> None:
    threads: list[threading.Thread] = []
    find = Candidate.find

    def noted(candidate: Candidate) -> TimestampOffset | None:
        threads.append(threading.current_thread())
        return find(candidate)

    async def work(broker: InProcess) -> None:
        partition = await broker.create_topic("t")
        for base in (0, count):
            records = [Record(at, T0_MS + base + at, None, b"x") for at in range(count)]
            batch = encode_batch(records, codec=codec)
            partition.log.append_batch(memoryview(bytearray(batch)), leader_epoch=0, now_ms=0)
        partition.advance_high_watermark()
        wire = await broker.connect()
        monkeypatch.setattr(Candidate, "find", noted)
        for at in (0, 1, count - 1, count, 2 * count - 1):
            assert await asked(wire, T0_MS + at) == (T0_MS + at, at)
        assert await asked(wire, LARGEST) == (T0_MS + 2 * count - 1, 2 * count - 1)
        assert await asked(wire, T0_MS + 2 * count) == (-1, -1)
        assert {each is not threading.main_thread() for each in threads} == {on_worker}

    with_broker(tmp_path, work)
