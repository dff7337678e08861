"""Test that each committed record comes once, in its place, while mirror, source and target are killed at random.

A group reads all there is in the source after each kill. In the end it goes over to the target when the source dies,
and back.

`KAFKALOG_SOAK_KILLS` says how often `make test-soak` kills, and `KAFKALOG_SOAK_SEED` in which order.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from kafkalog.client.types import READ_COMMITTED, ConsumerRecord
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, all_contents, read_all, settings_of
from tests.kafkalog.mirror.drilling import Application, is_back
from tests.kafkalog.mirror.housekeeping.support import ON
from tests.kafkalog.mirror.keeping.kept import located
from tests.kafkalog.mirror.process import MirrorProcess
from tests.kafkalog.mirror.writing import PARTITIONS, Writer, make
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

KILLS = 10
AT_FAILOVER = (40, 7)
"""Number of records that the group reads and commits, and number that it then reads without a commit."""
UNCOMMITTED = 7
"""Number of records that the group reads after each kill without a commit."""
GROUP = "readers"
WRITERS = 2
SOAK_KILLS = int(os.environ.get("KAFKALOG_SOAK_KILLS", "200"))
SOAK_SEED = int(os.environ.get("KAFKALOG_SOAK_SEED", "2"))
TOPIC = "drill"


def compared(found: dict[int, list[ConsumerRecord]], offsets: str) -> dict[int, list[tuple[object, ...]]]:
    """Return what must be the same on both sides."""
    return located(found) if offsets == "keep" else all_contents(found)


def drill(tmp_path: Path, kills: int, seed: int, offsets: str) -> None:
    """Kill so many times, each after the target has got some more; compare both sides at the end."""
    random = Random(seed)
    with KafkalogBroker(tmp_path / "a", AT_ONCE) as source, KafkalogBroker(tmp_path / "b", AT_ONCE) as target:
        clusters = Clusters(source.bootstrap, target.bootstrap)
        properties = {"replication_offsets": offsets, "groups": GROUP, **ON}
        mirror = MirrorProcess(clusters, TOPIC, "A", tmp_path, **properties)
        settings = settings_of(clusters, "A", TOPIC, reverse=False, **properties)
        application = Application(GROUP)
        make(clusters.source, TOPIC, PARTITIONS)
        writers = [Writer(clusters.source, TOPIC, number) for number in range(WRITERS)]
        mirror.start()
        victims: dict[str, MirrorProcess | KafkalogBroker] = {"mirror": mirror, "source": source, "target": target}
        try:
            for number in range(1, kills + 1):
                mirror.grows(random.randrange(1, 60))
                victim = random.choice(list(victims))
                victims[victim].kill()
                victims[victim].start()
                # Shown where the test fails, and by `-s`.
                print(f"{number} of {kills}: killed the {victim}", flush=True)
                application.catch_up(clusters.source, TOPIC, UNCOMMITTED)
            # What was killed last has begun again: a mirror ends with exit code 0 from then on.
            mirror.grows(1)
            # The mirror may be behind the group. Then the position in the target is that of what it has mirrored.
            wait_until(
                lambda: application.is_at(clusters.target, mirror.remote), "the group's positions are in the target"
            )
            mirror.grows(3 * sum(AT_FAILOVER), READ_COMMITTED)
            # The source dies before this comes over. So the group may repeat it.
            application.uncommitted |= application.run(clusters.source, TOPIC, *AT_FAILOVER)
            source.kill()
            application.run(clusters.target, mirror.remote, *AT_FAILOVER)
            source.start()
            count = sum(writer.stop() for writer in writers)
            wait_until(lambda: is_back(settings, clusters, GROUP), "the group's positions are back")
            application.finish(clusters.source, TOPIC, count)
            found = read_all(clusters.target, mirror.remote, count)
        finally:
            for writer in writers:
                writer.stop()
            code = mirror.stop()
        assert code == 0, mirror.errors.read_text()
        assert "has no effect" not in mirror.errors.read_text(), "the consumer heeds group.instance.id"
        assert compared(found, offsets) == compared(read_all(clusters.source, TOPIC, count), offsets)


@pytest.mark.parametrize("offsets", ["keep", pytest.param("translate", marks=pytest.mark.exhaustive)])
def test_records_come_once_and_in_place(processes: None, tmp_path: Path, offsets: str) -> None:
    drill(tmp_path, KILLS, 1, offsets)


@pytest.mark.soak
@pytest.mark.parametrize("offsets", ["keep", "translate"])
def test_records_come_once_and_in_place_for_long(processes: None, tmp_path: Path, offsets: str) -> None:
    drill(tmp_path, SOAK_KILLS, SOAK_SEED, offsets)
