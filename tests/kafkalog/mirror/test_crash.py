"""Test that each committed record comes once, in order, although the mirror is killed again and again."""

from __future__ import annotations

import threading
from pathlib import Path
from random import Random

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.producer import Producer
from kafkalog.client.types import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition
from tests.kafkalog.mirror.conftest import Clusters, contents, read_all
from tests.support.command import start
from tests.support.waiting import wait_until

PARTITIONS = 3
KILLS = 4


class Writer:
    """Writes transactions, some of which it aborts, until it is stopped."""

    def __init__(self, address: str, topic: str, seed: int = 7) -> None:
        self.committed = 0
        self._address, self._topic, self._seed = address, topic, seed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        random, number, identity = Random(self._seed), 0, f"{self._topic}-{self._seed}"
        with Producer({"bootstrap.servers": self._address, "transactional.id": identity}) as producer:
            producer.init_transactions()
            while not self._stop.is_set():
                producer.begin_transaction()
                size = random.randrange(1, 20)
                for _ in range(size):
                    producer.send(
                        self._topic,
                        b"v%d" % number,
                        b"%d" % self._seed,
                        timestamp=number,
                        partition=random.randrange(3),
                    )
                    number += 1
                if random.random() < 0.25:
                    producer.flush()
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                    self.committed += size
                self._stop.wait(0.01)

    def stop(self) -> int:
        """Stop; return how many records are committed."""
        self._stop.set()
        self._thread.join()
        return self.committed


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_mirror_that_is_killed_mirrors_each_committed_record_once(
    clusters: Clusters, alias: str, tmp_path: Path, boundary: str
) -> None:
    topic = f"crash-{alias}"
    remote = f"{alias}.{topic}"
    config, client = tmp_path / "mirror.properties", tmp_path / "source.properties"
    config.write_text(f"offset.flush.interval.ms=100\ntransaction.boundary={boundary}\nemit.heartbeats.enabled=false\n")
    # As a static member it gets its partitions back at once.
    client.write_text("group.instance.id=one\n")
    words = ["mirror", "start", "--source", clusters.source, "--target", clusters.target, "--topics", topic]
    words += ["--source-alias", alias, "--config", str(config), "--source-config", str(client)]
    with Admin(clusters.client("source")) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS, 1)])

    def written(isolation: int) -> int:
        """Return how many offsets the target has, with those of open transactions or without."""
        with Admin(clusters.client("target")) as admin:
            if remote not in admin.list_topics():
                return 0
            wanted = {TopicPartition(remote, number): LATEST for number in range(PARTITIONS)}
            return sum(each.offset for each in list_offsets(admin.cluster, wanted, isolation).values())

    def grows(isolation: int, by: int) -> None:
        least = written(isolation) + by
        wait_until(lambda: written(isolation) >= least, "the mirror writes")

    writer = Writer(clusters.source, topic)
    try:
        for number in range(KILLS):
            mirror = start(*words)
            try:
                # It has committed transactions, and dies somewhere in the next ones: each time at another place.
                grows(READ_COMMITTED, 40)
                grows(READ_UNCOMMITTED, 5 + 7 * number)
            finally:
                mirror.kill()
                mirror.communicate()
    finally:
        count = writer.stop()
    mirror = start(*words)
    try:
        there = read_all(clusters.source, topic, count)
        found = read_all(clusters.target, remote, count)
    finally:
        mirror.terminate()
        _, errors = mirror.communicate()
    assert mirror.returncode == 0, errors.decode()
    assert {number: contents(each) for number, each in found.items()} == {
        number: contents(each) for number, each in there.items()
    }
