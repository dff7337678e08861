"""Test that each committed record comes once, at its offset, while mirror, source and target are killed at random."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, read_all
from tests.kafkalog.mirror.keeping.test_keeping import located
from tests.kafkalog.mirror.test_crash import PARTITIONS, Writer
from tests.support.command import start
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

KILLS = 10
SOAK_KILLS = int(os.environ.get("KAFKALOG_SOAK_KILLS", "200"))
TOPIC, REMOTE = "drill", "A.drill"


class Drill:
    """Two clusters, and a mirror process that keeps offsets."""

    def __init__(self, source: KafkalogBroker, target: KafkalogBroker, directory: Path) -> None:
        self.source, self.target = source, target
        config, client = directory / "mirror.properties", directory / "source.properties"
        config.write_text(
            "offset.flush.interval.ms=100\nemit.heartbeats.enabled=false\nemit.checkpoints.enabled=false\n"
        )
        # As a static member it gets its partitions back at once.
        client.write_text("group.instance.id=one\n")
        self._words = ["mirror", "start", "--source", source.bootstrap, "--target", target.bootstrap]
        self._words += ["--topics", TOPIC, "--source-alias", "A", "--offsets", "keep", "--config", str(config)]
        self._words += ["--source-config", str(client)]
        self._errors = (directory / "mirror.err").open("wb")
        self._mirror: subprocess.Popen[bytes] | None = None

    def start_mirror(self) -> None:
        self._mirror = start(*self._words, stdout=self._errors, stderr=self._errors)

    def stop_mirror(self, *, kill: bool) -> int:
        assert self._mirror is not None
        if kill:
            self._mirror.kill()
        else:
            self._mirror.terminate()
        self._mirror.communicate()
        return self._mirror.returncode

    def written(self) -> int:
        """Return the sum of the target's end offsets; 0 while the topic is not there."""
        with Admin({"bootstrap.servers": self.target.bootstrap}) as admin:
            if REMOTE not in admin.list_topics():
                return 0
            wanted = {TopicPartition(REMOTE, number): LATEST for number in range(PARTITIONS)}
            return sum(each.offset for each in list_offsets(admin.cluster, wanted).values())

    def grows(self, by: int) -> None:
        least = self.written() + by
        wait_until(lambda: self.written() >= least, f"the target has {least} offsets")

    def kill(self, victim: str) -> None:
        """Kill one of the three, and start it again."""
        if victim == "mirror":
            self.stop_mirror(kill=True)
            self.start_mirror()
            return
        broker = self.source if victim == "source" else self.target
        broker.kill()
        broker.start()


def drill(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill so many times, each after the target has got some more; compare both sides at the end."""
    random = Random(seed)
    with (
        KafkalogBroker(tmp_path / "a", AT_ONCE) as source,
        KafkalogBroker(tmp_path / "b", AT_ONCE) as target,
        Admin({"bootstrap.servers": source.bootstrap}) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        run = Drill(source, target, tmp_path)
        writer = Writer(source.bootstrap, TOPIC)
        run.start_mirror()
        try:
            for _ in range(kills):
                run.grows(random.randrange(1, 60))
                run.kill(random.choice(("mirror", "source", "target")))
            count = writer.stop()
            clusters = Clusters(source.bootstrap, target.bootstrap)
            found = located(read_all(clusters.target, REMOTE, count))
        finally:
            writer.stop()
            code = run.stop_mirror(kill=False)
        assert code == 0, (tmp_path / "mirror.err").read_text()
        assert found == located(read_all(clusters.source, TOPIC, count))


def test_records_come_once_and_in_place(processes: None, tmp_path: Path) -> None:
    drill(tmp_path, KILLS, 1)


@pytest.mark.soak
def test_records_come_once_and_in_place_for_long(processes: None, tmp_path: Path) -> None:
    drill(tmp_path, SOAK_KILLS, 2)
