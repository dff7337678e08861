"""Test that a log directory of Apache Kafka opens completely, after a clean stop and after a kill."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.log_manager import LogManager
from broker.log.tools.dump import dump_file
from kafkalog.records.batch import read_header
from peers import require
from peers.brokers import kafka
from tests.broker.log.by_time import found_by_time
from tests.broker.log.support import stored

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

COUNT = 6000
VALUES = [b"%0200d" % i for i in range(COUNT)]
# The smallest that every version takes.
SEGMENT_BYTES = 1 << 20
# Kafka and we forget a producer that was silent for a day.
STAMP = time.time_ns() // 1_000_000
DEADLINE_S = 240.0


def write(bootstrap: str) -> None:
    """Records of an idempotent producer and of one aborted and one committed transaction, over two segments or so."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    config = {"segment.bytes": str(SEGMENT_BYTES), "retention.ms": "-1"}
    admin.create_topics([NewTopic("t", 1, 1, config=config)])["t"].result(60)
    idempotent = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for i, value in enumerate(VALUES):
        idempotent.produce("t", value, key=b"%d" % i, timestamp=STAMP + i)
        idempotent.poll(0)
    assert idempotent.flush(60) == 0
    transactional = Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    transactional.init_transactions(60)
    for commit in (False, True):
        transactional.begin_transaction()
        transactional.produce("t", b"committed" if commit else b"aborted", timestamp=STAMP + COUNT + commit)
        assert transactional.flush(60) == 0
        if commit:
            transactional.commit_transaction(60)
        else:
            transactional.abort_transaction(60)
    wait_for_markers(bootstrap)


def wait_for_markers(bootstrap: str) -> None:
    """A commit is answered before its markers are written."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed"})
    try:
        deadline = time.monotonic() + DEADLINE_S
        while reader.get_watermark_offsets(TopicPartition("t", 0), timeout=DEADLINE_S)[1] < COUNT + 4:
            assert time.monotonic() < deadline, "the transactions' markers never came"
    finally:
        reader.close()


@pytest.fixture(scope="module", params=kafka.VERSIONS)
def directories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`killed` and `stopped`: copies of a broker's log directory after each."""
    version: str = request.param
    require(kafka.missing(version))
    root = tmp_path_factory.mktemp("kafka")
    with kafka.ApacheKafka(version, directory=root / "broker") as broker:
        write(broker.bootstrap)
        broker.kill()
        shutil.copytree(broker.log_dir, root / "killed")
        broker.start()
        broker.stop()
        shutil.copytree(broker.log_dir, root / "stopped")
    return {"killed": root / "killed", "stopped": root / "stopped"}


def check(log: Log) -> None:
    rows = stored(log)
    values = [value for row in rows for value in row.values]
    assert values[:COUNT] == VALUES
    assert values[COUNT] == b"aborted"
    assert values[COUNT + 2] == b"committed"
    assert log.log_end_offset == COUNT + 4
    assert len(log.segments) >= 2
    for i in range(0, COUNT, 97):
        found = found_by_time(log, STAMP + i)
        assert found is not None
        assert (found.offset, found.timestamp) == (i, STAMP + i)
        first, last = stored_at(log, i)
        assert first <= i <= last
    assert [row.first_offset for row in log.aborted_transactions(0, log.log_end_offset)] == [COUNT]
    # Of the idempotent producer the last batch is known, of the transactional one its marker.
    assert {entry.next_sequence for entry in log.producers.producers.values()} >= {COUNT}
    assert log.producers.first_unstable_offset is None or log.producers.first_unstable_offset >= COUNT
    assert log.latest_epoch >= 0


def stored_at(log: Log, offset: int) -> tuple[int, int]:
    """First and last offset of the batch that holds `offset`."""
    header = read_header(log.read(offset, 1).read())
    return header.base_offset, header.last_offset


@pytest.mark.parametrize("kind", ["killed", "stopped"])
def test_everything_is_there(directories: dict[str, Path], tmp_path: Path, kind: str) -> None:
    shutil.copytree(directories[kind], tmp_path / "data")
    config = LogConfig(segment_bytes=SEGMENT_BYTES, retention_ms=-1)
    clean = (tmp_path / "data" / ".kafka_cleanshutdown").exists()
    assert clean == (kind == "stopped")
    manager = LogManager([tmp_path / "data"], config, clock=lambda: STAMP)
    try:
        assert manager.stored_cluster_id()
        manager.load_all()
        log = manager.get("t", 0)
        assert log is not None
        assert log.topic_id is not None
        check(log)
        assert manager.get("__transaction_state", 0) is not None
        assert manager.shutdown()
    finally:
        manager.unlock()
    for path in sorted(log.dir.glob("*index")):
        problems: list[str] = []
        list(dump_file(path, verify_index_only=True, problems=problems))
        assert problems == []
    again = Log.open(log.dir, config, clean=True, now_ms=STAMP)
    check(again)
