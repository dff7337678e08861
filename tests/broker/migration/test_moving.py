"""A broker with records, offsets and transactions joins a cluster over ZooKeeper, which grows, and leaves again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

import pytest

from broker.metadata.znodes import paths
from broker.metadata.znodes.move import Move, encode
from kafkalog.client.admin import ConfigResource, NewTopic
from kafkalog.client.admin.admin import Admin
from kafkalog.client.consumer import Consumer, OffsetAndMetadata
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper
from tests.support.command import lines, run
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(300)]

WORDS = [TopicPartition("words", index) for index in range(2)]
OFFSETS = "__consumer_offsets"
STATE = "__transaction_state"
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "2",
    "zookeeper.session.timeout.ms": "6000",
    "replica.fetch.wait.max.ms": "100",
    "controlled.shutdown.retry.backoff.ms": "200",
}


@pytest.fixture
def zookeeper(tmp_path: Path) -> Iterator[ZooKeeper]:
    require(kafka.missing(kafka.KAFKA_3))
    with ZooKeeper(kafka.KAFKA_3, tmp_path / "zookeeper") as running:
        running.wait()
        yield running


class Kept(NamedTuple):
    """Facts that must be the same before and after a move."""

    cluster_id: str | None
    topic_ids: dict[str, UUID]
    counts: dict[str, int]
    config: str | None
    quota: float


class Clients:
    """Clients of a broker: their writes and commits, and the facts that they see."""

    def __init__(self, address: str) -> None:
        self._where = {"bootstrap.servers": address}

    def produce(self, *values: bytes) -> None:
        with Producer(self._where) as producer:
            for value in values:
                for each in WORDS:
                    producer.send(each.topic, value, partition=each.partition).result(60)

    def transact(self, producer_id: str, committed: bytes, aborted: bytes) -> None:
        with Producer({**self._where, "transactional.id": producer_id}) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send("words", aborted, partition=0)
            producer.flush()
            producer.abort_transaction()
            with producer.transaction():
                producer.send("words", committed, partition=0)

    def values(self, partition: int = 0) -> list[bytes]:
        """Return what a reader of committed records gets."""
        consumer = Consumer({**self._where, "isolation.level": "read_committed", "auto.offset.reset": "earliest"})
        try:
            here = WORDS[partition]
            consumer.assign([here])
            end = consumer.end_offsets([here])[here]
            found: list[bytes] = []
            while consumer.position(here) < end:
                found += [record.value or b"" for record in consumer.poll(1.0)]
            return found
        finally:
            consumer.close()

    def commit(self, offset: int) -> None:
        consumer = Consumer({**self._where, "group.id": "readers"})
        try:
            consumer.assign(WORDS)
            consumer.commit({each: OffsetAndMetadata(offset) for each in WORDS})
        finally:
            consumer.close()

    def committed(self) -> list[int]:
        consumer = Consumer({**self._where, "group.id": "readers"})
        try:
            found = consumer.committed(WORDS)
            return [found[each].offset for each in WORDS]
        finally:
            consumer.close()

    def prepare(self) -> None:
        with Admin(self._where) as admin:
            admin.create_topics([NewTopic("words", 2, 1, {"retention.bytes": "123456789"})])
            admin.quotas.alter({"user": "alice"}, {"producer_byte_rate": 5000.0})

    def kept(self) -> Kept:
        with Admin(self._where) as admin:
            topics = admin.describe_topics(["words", OFFSETS, STATE])
            resource = ConfigResource.topic("words")
            (quota,) = admin.quotas.describe({"user": "alice"})
            return Kept(
                admin.describe_cluster().cluster_id,
                {name: topic.topic_id for name, topic in topics.items()},
                {name: len(topic.partitions) for name, topic in topics.items()},
                admin.describe_configs([resource])[resource]["retention.bytes"].value,
                quota.values["producer_byte_rate"],
            )

    def spread(self, brokers: Sequence[int]) -> None:
        """Have all partitions of all topics on these brokers, in sync."""
        with Admin(self._where) as admin:
            topics = admin.describe_topics(["words", OFFSETS, STATE])
            keys = [TopicPartition(name, index) for name, topic in topics.items() for index in topic.partitions]
            outcomes = admin.replicas.alter_partition_reassignments(dict.fromkeys(keys, brokers))
            assert not any(outcomes.values()), outcomes
            wait_until(lambda: not admin.replicas.list_partition_reassignments(), "all partitions have moved")
            wait_until(
                lambda: all(
                    set(partition.isr) == set(brokers)
                    for topic in admin.describe_topics(list(topics)).values()
                    for partition in topic.partitions.values()
                ),
                "all replicas are in sync",
            )

    def wait_led(self) -> None:
        with Admin(self._where) as admin:

            def led() -> bool:
                partitions = [each for topic in admin.describe_topics().values() for each in topic.partitions.values()]
                return len(partitions) == 7 and all(each.leader >= 0 for each in partitions)

            wait_until(led, "all partitions have a leader")

    def wait_members(self, brokers: Iterable[int]) -> None:
        with Admin(self._where) as admin:
            wait_until(lambda: set(admin.describe_cluster().brokers) == set(brokers), f"{brokers} are registered")


def move(action: str, broker: KafkalogBroker, zookeeper: str, *words: str, check: int = 0) -> tuple[list[str], str]:
    settings = {"log.dirs": str(broker.log_dir), "zookeeper.connect": zookeeper, **SETTINGS}
    overrides = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    done = run("server", action, *overrides, *words, check=check)
    return list(lines(done)), done.stderr.decode()


def test_a_broker_joins_grows_a_cluster_and_leaves(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    address = f"{zookeeper.address}/of/kafkalog"
    ours = KafkalogBroker(tmp_path / "1", {"broker.id": "1", **SETTINGS})
    others = [
        KafkalogBroker(tmp_path / str(number), {"broker.id": str(number), "zookeeper.connect": address, **SETTINGS})
        for number in (2, 3)
    ]
    try:
        ours.start()
        clients = Clients(ours.address)
        clients.prepare()
        clients.produce(b"alone")
        clients.transact("tx", b"committed alone", b"aborted alone")
        clients.commit(1)
        kept = clients.kept()
        assert kept.counts == {"words": 2, OFFSETS: 3, STATE: 2}
        _, told = move("join", ours, address, check=1)
        assert told.endswith("another broker is using this directory. Stop the broker first\n")
        assert ours.stop() == 0

        dry, _ = move("join", ours, address, "--dry-run")
        assert dry[0] == f"broker 1 joins the cluster at {address}"
        assert dry[1] == "  topics: 3 with 7 partitions"
        assert dry[-1] == "Nothing was changed (--dry-run)"
        assert move("join", ours, address)[0][-1] == f"done: start the broker with zookeeper.connect={address}"
        told = run("server", "start", "--override", f"log.dirs={ours.log_dir}", check=1).stderr.decode()
        assert f"kafkalog.metadata.json.before-joining is in {ours.log_dir}: this broker is a member of a" in told
        ours.overrides["zookeeper.connect"] = address
        ours.start()
        clients.wait_led()
        assert clients.kept() == kept
        assert clients.committed() == [1, 1]
        assert clients.values() == [b"alone", b"committed alone"]
        clients.transact("tx", b"committed in the cluster", b"aborted in the cluster")
        for other in others:
            other.start()
        clients.wait_members([1, 2, 3])
        clients.spread([2, 1, 3])
        assert clients.kept() == kept
        clients.produce(b"with three replicas")
        clients.commit(3)
        expected = [b"alone", b"committed alone", b"committed in the cluster", b"with three replicas"]
        assert Clients(others[0].address).values() == expected

        _, told = move("leave", ours, address, check=1)
        assert "Stop the broker first" in told
        for broker in (*others, ours):
            assert broker.stop() == 0
        assert move("leave", ours, address, "--dry-run")[0][-1] == "Nothing was changed (--dry-run)"
        assert move("leave", ours, address)[0][-1] == "done: start the broker without zookeeper.connect"
        del ours.overrides["zookeeper.connect"]
        ours.start()
        assert clients.kept() == kept
        assert clients.committed() == [3, 3]
        assert clients.values() == expected
        assert clients.values(1) == [b"alone", b"with three replicas"]
        clients.transact("tx", b"alone again", b"aborted")
        # A commit is answered before its markers are written.
        wait_until(lambda: clients.values()[-1] == b"alone again", "the last commit is seen")
    finally:
        for broker in (ours, *others):
            broker.kill()


@pytest.mark.parametrize("action", ["start", "join", "leave"])
def test_a_broker_that_is_not_moved_yet_is_told(zookeeper: ZooKeeper, tmp_path: Path, action: str) -> None:
    broker = KafkalogBroker(tmp_path / "1", {"broker.id": "1", **SETTINGS})
    try:
        broker.start()
        assert broker.stop() == 0
        if action == "join":
            zookeeper.make("/brokers/topics/words", b"{}")
        _, told = move(action, broker, zookeeper.address, check=1)
    finally:
        broker.kill()
    wanted = {
        "start": "this broker is a cluster of its own, with topics that ZooKeeper does not know. Run kafkalog server",
        "join": "kafkalog: ZooKeeper has topics already (words). Name a path in zookeeper.connect",
        "leave": "kafkalog: broker 1 is a cluster of its own already",
    }
    assert wanted[action] in told


def test_no_member_starts_on_a_half_of_a_cluster(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    zookeeper.make(paths.MOVE, encode(Move(1, "id-of-the-cluster")))
    _, told = move("start", KafkalogBroker(tmp_path / "2", {"broker.id": "2"}), zookeeper.address, check=1)
    assert "broker 1 of the cluster id-of-the-cluster is being moved into ZooKeeper or out of it" in told


def test_no_member_starts_in_a_cluster_that_is_migrated_to_kraft(zookeeper: ZooKeeper, tmp_path: Path) -> None:
    # As Apache Kafka 3.9 writes it (kafka.zk.MigrationZNode).
    owned = (
        b'{"version":0,"kraft_controller_id":3000,"kraft_controller_epoch":2,"kraft_metadata_offset":100,'
        b'"kraft_metadata_epoch":2}'
    )
    zookeeper.make(paths.MIGRATION, owned)
    _, told = move("start", KafkalogBroker(tmp_path / "2", {"broker.id": "2"}), zookeeper.address, check=1)
    assert "kafkalog: zookeeper.connect: the node /migration says that KRaft controller 3000 migrates" in told
    assert "Traceback" not in told
