"""Test that brokers that end give no error at clients that send again by themselves, whatever their library.

Every broker ends, in good order or by SIGKILL, and starts again, the controller last. Producers, and members of
groups, of several libraries work all the time with the defaults of these. After SIGKILL some libraries tell the
application that a coordinator refuses connections, and leave it to the application to commit again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer as LibrdkafkaConsumer
from confluent_kafka import TopicPartition as Place

from kafkalog.client.consumer import Consumer, RebalanceListener
from kafkalog.client.producer import Producer, RecordMetadata
from kafkalog.client.types import TopicPartition
from peers import require
from peers.clients.workers import (
    POLL_S,
    FranzGoWorker,
    JavaWorker,
    KafkaPythonWorker,
    LibraryWorker,
    Reading,
    Worker,
    Writing,
)
from tests.crash.cluster.drilled import DrilledCluster, drilled_cluster
from tests.crash.cluster.load import read_all
from tests.crash.cluster.verdict import changed, faults
from tests.support.broker_cluster import DEADLINE_S, IDS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(600)]

ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
INTERNAL = "__consumer_offsets"
SESSION = {"zookeeper.session.timeout.ms": "10000"}
"""Nobody is to be taken for dead here: the longest session that the drills' ZooKeeper grants."""
MORE = 10
"""The number of records of each client that must be acknowledged while a broker is away, and again after its return."""


class KafkalogWorker(LibraryWorker):
    """The producer and the consumer of this package."""

    name = "kafkalog"

    @classmethod
    def missing(cls) -> str | None:
        return None

    def producer(self) -> Writing:
        producer = Producer({"bootstrap.servers": self.bootstrap})

        def told(index: int, value: bytes, metadata: RecordMetadata | None, error: Exception | None) -> None:
            if error is not None:
                self.failed.append(f"{value!r}: {error!r}")
            else:
                assert metadata is not None
                self.delivered(index, value, metadata.offset)

        def send(index: int, value: bytes) -> None:
            producer.send(self.topic, value, partition=index, on_delivery=partial(told, index, value))

        return Writing(send, producer.close)

    def consumer(self) -> Reading:
        settings = {"bootstrap.servers": self.bootstrap, "group.id": self.topic}
        consumer = Consumer({**settings, "enable.auto.commit": "false", "auto.offset.reset": "earliest"})
        worker = self

        class Listener(RebalanceListener):
            def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
                worker.assigned.append(len(partitions))

        consumer.subscribe([self.topic], listener=Listener())

        def poll() -> Iterable[tuple[int, int, bytes]]:
            for record in consumer.poll(POLL_S):
                assert record.value is not None
                yield record.partition, record.offset, record.value

        return Reading(poll, consumer.commit, consumer.close)


WORKERS: tuple[type[Worker], ...] = (
    JavaWorker,
    FranzGoWorker,
    KafkaPythonWorker,
    KafkalogWorker,
)


@pytest.mark.parametrize("end", [DrilledCluster.stop, DrilledCluster.kill], ids=["stop", "kill"])
def test_all_brokers_restart_one_after_the_other(end: Callable[[DrilledCluster, int], None], tmp_path: Path) -> None:
    for kind in WORKERS:
        require(kind.missing())
    with drilled_cluster(tmp_path, SESSION) as cluster, ExitStack() as stack:
        for kind in WORKERS:
            cluster.create(kind.name, ASSIGNMENT)
        workers = [stack.enter_context(kind(cluster.bootstrap, kind.name, 3)) for kind in WORKERS]
        wait_working(workers)
        boss = cluster.controller()
        order = sorted(IDS, key=lambda number: number == boss)
        assert order[-1] == boss
        for number in order:
            assert cluster.controller() == boss
            end(cluster, number)
            go_on_and_start(cluster, number, workers)
        assert cluster.controller() != boss
        for worker in workers:
            worker.end_writing()
        for worker in workers:
            wait_until(worker.written.is_set, f"{worker.name} has written", DEADLINE_S)
            wait_until(partial(is_done, worker), f"{worker.name} has read all", DEADLINE_S)
        stack.close()
        wrong = {worker.name: verdict(cluster, worker) for worker in workers}
        assert not any(wrong.values()), wrong
        if end is DrilledCluster.stop:
            assert not any(worker.interrupted for worker in workers)
            rebalanced = {worker.name: worker.assigned for worker in workers if worker.assigned != [len(ASSIGNMENT)]}
            assert not rebalanced


def go_on_and_start(cluster: DrilledCluster, number: int, workers: Iterable[Worker]) -> None:
    """Start a broker after a while in which the others lead and coordinate.

    Return when everything is in sync, it leads and coordinates again, and all clients have gone on.
    """
    wait_working(workers)
    cluster.start(number)
    cluster.wait_alive()
    for topic in (INTERNAL, *(worker.topic for worker in workers)):
        cluster.wait_whole(topic)
    cluster.elect_preferred()
    wait_working(workers)


def wait_working(workers: Iterable[Worker]) -> None:
    """Wait until each client has had some more records acknowledged, and has read and committed some more."""
    before = [(worker, worker.acknowledgements + MORE, worker.commits + 3) for worker in workers]
    for worker, acknowledged, commits in before:
        wait_until(partial(goes_on, worker, acknowledged, commits), f"{worker.name} goes on", DEADLINE_S)


def goes_on(worker: Worker, acknowledged: int, commits: int) -> bool:
    assert not worker.failed, (worker.name, worker.failed[:5])
    return worker.acknowledgements >= acknowledged and worker.commits >= commits


def is_done(worker: Worker) -> bool:
    assert not worker.failed, (worker.name, worker.failed[:5])
    return worker.has_read_all


def verdict(cluster: DrilledCluster, worker: Worker) -> list[str]:
    """Return what is wrong with what a client was told, with the log, or with what its group has read."""
    wrong = worker.failed[:5]
    ends: dict[int, int] = {}
    for index in worker.partitions:
        found, told = read_all(cluster, worker.topic, index), worker.acknowledged[index]
        ends[index] = max(found) + 1
        sent = sorted(told, key=lambda value: int(value.split()[1]))
        wrong += faults(told, sent, found) + changed(worker.read[index], found)
        if missed := found.keys() - worker.read[index].keys():
            wrong.append(f"its group has not read {sorted(missed)[:5]} of {index}")
    if (kept := committed(cluster, worker.topic)) != ends:
        wrong.append(f"its group has committed {kept}, and the ends are {ends}")
    return wrong


def committed(cluster: DrilledCluster, topic: str) -> dict[int, int]:
    """Return the offsets that the group named like the topic has committed."""
    consumer = LibrdkafkaConsumer({"bootstrap.servers": cluster.bootstrap, "group.id": topic, "log_level": 0})
    with closing(consumer):
        places = [Place(topic, index) for index in range(len(ASSIGNMENT))]
        return {each.partition: each.offset for each in consumer.committed(places, 60)}
