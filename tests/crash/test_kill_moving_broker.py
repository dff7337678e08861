"""Test that nothing is lost after kill -9 of a broker that moves a partition between log directories during writes."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.replicas.replica_admin import ReplicaAdmin, ReplicaOnBroker
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from tests.crash.support import read_all
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, produce

RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


def places(dirs: list[Path]) -> list[Path]:
    return [path for path in dirs if (path / "t-0").is_dir()]


def run_seed(start_broker: Callable[..., KafkalogBroker], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    dirs = [tmp_path / name for name in ("one", "two")]
    # A copy takes some time, so that kills find it at each stage.
    broker = start_broker({"log.dirs": ",".join(map(str, dirs)), "log.segment.bytes": "60000", RATE: "3000000"})
    config = ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})
    with Admin(config) as admin:
        admin.create_topics([NewTopic("t", 1, 1)])
    acked: list[bytes] = []

    def write(seconds: float, count: int) -> None:
        """Send at least this many records, for at least this long."""
        end, least = time.monotonic() + seconds, len(acked) + count
        with broker.connect() as sock:
            while len(acked) < least or time.monotonic() < end:
                values: list[bytes | None] = [b"%010d" % len(acked) + b"." * 500]
                answer = produce(sock, "t", batch(values), acks=-1)
                assert (answer.error_code, answer.base_offset) == (0, len(acked))
                acked.append(values[0] or b"")

    for _ in range(3):
        write(0.0, 300)
        (here,) = places(dirs)
        (there,) = set(dirs) - {here}
        with ReplicaAdmin(config) as replicas:
            replica = ReplicaOnBroker(TopicPartition("t", 0), 0)
            assert replicas.alter_replica_log_dirs({replica: str(there)}) == {replica: None}
        write(chance.random() * 0.6, 0)
        broker.kill()
        assert len(places(dirs)) <= 1
        broker.start()
        write(0.0, 20)
        wait_until(lambda there=there: places(dirs) == [there], "the move has ended where it should")  # type: ignore[misc]
        assert read_all(broker, "t", 0) == dict(enumerate(acked))
    assert broker.stop() == 0
    broker.start()
    assert read_all(broker, "t", 0) == dict(enumerate(acked))
    assert len(places(dirs)) == 1


def test_kills_while_a_partition_is_moved(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    run_seed(start_broker, tmp_path, 1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(2, 30))
def test_kills_while_a_partition_is_moved_for_long(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path, seed: int
) -> None:
    run_seed(start_broker, tmp_path, seed)
