"""Test that each committed record comes once, in its place, while mirror, source and target are killed at random.

`KAFKALOG_SOAK_KILLS` says how often `make test-soak` kills, and `KAFKALOG_SOAK_SEED` in which order.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from random import Random

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import ConsumerRecord, TopicPartition
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, contents, read_all
from tests.kafkalog.mirror.keeping.test_keeping import located
from tests.kafkalog.mirror.test_crash import PARTITIONS, Writer
from tests.support.command import start
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

KILLS = 10
WRITERS = 2
SOAK_KILLS = int(os.environ.get("KAFKALOG_SOAK_KILLS", "200"))
SOAK_SEED = int(os.environ.get("KAFKALOG_SOAK_SEED", "2"))
TOPIC, REMOTE = "drill", "A.drill"


class Drill:
    """Two clusters, and a mirror process; `offsets` says whether it keeps offsets (`--offsets`)."""

    def __init__(self, source: KafkalogBroker, target: KafkalogBroker, directory: Path, offsets: str) -> None:
        self.source, self.target = source, target
        config, client = directory / "mirror.properties", directory / "source.properties"
        config.write_text(
            "offset.flush.interval.ms=100\nemit.heartbeats.enabled=false\nemit.checkpoints.enabled=false\n"
        )
        # As a static member it gets its partitions back at once.
        client.write_text("group.instance.id=one\n")
        self._words = ["mirror", "start", "--source", source.bootstrap, "--target", target.bootstrap]
        self._words += ["--topics", TOPIC, "--source-alias", "A", "--offsets", offsets, "--config", str(config)]
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


def compared(found: dict[int, list[ConsumerRecord]], offsets: str) -> dict[int, list[tuple[object, ...]]]:
    """Return what must be the same on both sides."""
    return located(found) if offsets == "keep" else {number: contents(each) for number, each in found.items()}


def drill(tmp_path: Path, kills: int, seed: int, offsets: str) -> None:
    """Kill so many times, each after the target has got some more; compare both sides at the end."""
    random = Random(seed)
    with (
        KafkalogBroker(tmp_path / "a", AT_ONCE) as source,
        KafkalogBroker(tmp_path / "b", AT_ONCE) as target,
        Admin({"bootstrap.servers": source.bootstrap}) as admin,
    ):
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])
        run = Drill(source, target, tmp_path, offsets)
        writers = [Writer(source.bootstrap, TOPIC, number) for number in range(WRITERS)]
        run.start_mirror()
        try:
            for number in range(1, kills + 1):
                run.grows(random.randrange(1, 60))
                victim = random.choice(("mirror", "source", "target"))
                run.kill(victim)
                # Shown where the test fails, and by `-s`.
                print(f"{number} of {kills}: killed the {victim}", flush=True)
            count = sum(writer.stop() for writer in writers)
            clusters = Clusters(source.bootstrap, target.bootstrap)
            found = read_all(clusters.target, REMOTE, count)
        finally:
            for writer in writers:
                writer.stop()
            code = run.stop_mirror(kill=False)
        assert code == 0, (tmp_path / "mirror.err").read_text()
        assert compared(found, offsets) == compared(read_all(clusters.source, TOPIC, count), offsets)


@pytest.mark.parametrize("offsets", ["keep", pytest.param("translate", marks=pytest.mark.exhaustive)])
def test_records_come_once_and_in_place(processes: None, tmp_path: Path, offsets: str) -> None:
    drill(tmp_path, KILLS, 1, offsets)


@pytest.mark.soak
@pytest.mark.parametrize("offsets", ["keep", "translate"])
def test_records_come_once_and_in_place_for_long(processes: None, tmp_path: Path, offsets: str) -> None:
    drill(tmp_path, SOAK_KILLS, SOAK_SEED, offsets)
